"""What the benchmarks share: programs in C, the name of the machine, and the figures' place in docs/PERFORMANCE.md."""
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("HWGATE_SHARED") or ROOT.parent / "shared")
PEERS = SHARED / "peers"
BUILD = ROOT / "build" / "peers"
PAGE = ROOT / "docs/PERFORMANCE.md"
KERNEL = platform.release().split("-")[0]


def build(source, *options):
    """The program made from one source in C, built anew only where the source is newer."""
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / source.stem
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", *options, str(source), "-o", str(target), "-lzmq", "-lpthread"], check=True)
    return target


def machine(kernel=KERNEL):
    model = re.search(r"model name\s*:\s*(.+)", pathlib.Path("/proc/cpuinfo").read_text())
    name = model[1].strip() if model else platform.machine()
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / (1 << 20)
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {kernel}"


def write(path, name, measured, template=None):
    """Puts the figures between the markers for `name`; the rest of the page is written by hand and stays."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = template if template and not path.exists() else path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        sys.exit(f"{path}: the markers {begin} and {end} are gone; put them back")
    head, rest = text.split(begin, 1)
    path.write_text(f"{head}{begin}\n{measured}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
