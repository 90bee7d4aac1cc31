"""hwgate beside what a user would run instead, and the limit, under one load, in one run.

usage: ./dev bench [--quick] [--count N] [--repetitions N] [--only NAME,...] [--no-memory] [--output FILE]

Each repetition runs every server once with 1 and once with 4 clients, one after another, so that a change of the
machine meets all of them; medians of the repetitions are written to docs/PERFORMANCE.md, between its markers.
Compare the ratios: they hold within one run only.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import report
from report import BUILD, PEERS, ROOT, SHARED

SIZE = 100
CLIENTS = (1, 4)
MARK = b"seq="  # in each line that push.c sends


class Server:
    def __init__(self, name, command, count=1.0, missing=None):
        self.name, self.command, self.share, self.missing = name, command, count, missing
        self.rates = {n: [] for n in CLIENTS}
        self.cpu = {n: [] for n in CLIENTS}
        self.lost = 0


def servers():
    pwsh = SHARED / "pwsh" / "pwsh"
    hwgate = pathlib.Path(os.environ.get("HWGATE_BIN") or ROOT / "target/release/hwgate")
    netmq = [str(pwsh), "-NoProfile", str(PEERS / "netmq_log_server.ps1"), "{endpoint}", "{file}", "{count}"]
    no_pwsh = None if pwsh.exists() else "the shared PowerShell is not there"
    imczmq = any(pathlib.Path("/usr/lib").glob("*/rsyslog/imczmq.so"))
    return [
        Server("limit (no timestamp, one buffer)", [str(BUILD / "limit_log_server"), "{endpoint}", "{file}", "{count}"]),
        Server("hwgate", [str(ROOT / "benches/hwgate_server.sh"), "{endpoint}", "{file}", "{folder}"],
               missing=None if hwgate.exists() else "it is not built"),
        Server("NetMQ + NLog async", [*netmq, "async"], missing=no_pwsh),
        Server("NetMQ + NLog sync", [*netmq, "sync"], missing=no_pwsh),
        Server("rsyslog imczmq", [str(PEERS / "rsyslog_log_server.sh"), "{endpoint}", "{folder}"], 0.4,
               missing=None if imczmq and shutil.which("rsyslogd") else "rsyslog-czmq is not installed"),
        Server("pyzmq + logging", [sys.executable, str(PEERS / "pyzmq_log_server.py"), "{endpoint}", "{file}", "{count}"]),
    ]


class Lines:
    """Counts the lines of the load in a folder's files, reading each byte once."""

    def __init__(self, folder):
        self.folder, self.count, self.read = pathlib.Path(folder), 0, {}

    def look(self):
        for path in self.folder.rglob("*"):
            if path.is_file():
                offset, tail = self.read.get(path, (0, b""))
                with open(path, "rb") as file:
                    file.seek(offset)
                    new = file.read()
                # The mark of a line may lie across two looks.
                data = tail + new
                self.count += data.count(MARK)
                self.read[path] = (offset + len(new), data[-len(MARK) + 1:])
        return self.count


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server, clients, count, port):
    """One run: from the first send to the last line in the file.

    As peers/log_ingest.py does it, but for the counting: that reads the whole file anew every 20 ms from the moment
    it could be long enough, which on two cores slows down those servers most whose lines are longer than the messages.
    """
    each = int(count * server.share) // clients
    total = each * clients
    endpoint = f"tcp://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="hwgate-bench-") as folder:
        names = {"endpoint": endpoint, "file": f"{folder}/peer.log", "folder": folder, "count": total, "port": port}
        process = subprocess.Popen([part.format(**names) for part in server.command],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_port(port, process, server.name)
            lines, before, start = Lines(folder), cpu_seconds(process.pid), time.monotonic()
            load = [subprocess.Popen([str(BUILD / "push"), endpoint, str(each), str(SIZE)]) for _ in range(clients)]
            used = before
            while lines.look() < total and time.monotonic() - start < 300:
                if process.poll() is None:
                    used = cpu_seconds(process.pid)
                elif all(one.poll() is not None for one in load):
                    lines.look()
                    break
                time.sleep(0.01)
            took = time.monotonic() - start
            for one in load:
                one.wait()
            if process.poll() is None:
                used = cpu_seconds(process.pid)
        finally:
            stop(process)
    rate, cpu = lines.count / took, (used - before) / max(lines.count, 1) * 1e6
    server.lost += total - lines.count
    server.rates[clients].append(rate)
    server.cpu[clients].append(cpu)
    print(f"  {server.name:<34} {clients} clients  {rate:>9,.0f} msg/s  {cpu:6.2f} us CPU/msg"
          + (f"  {total - lines.count} LOST" if lines.count != total else ""), flush=True)


def await_port(port, process, name):
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit(f"{name}: ended before it listened, with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            time.sleep(0.5)
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{name}: does not listen on port {port}")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def resident(pid, what="VmRSS"):
    return int(re.search(rf"{what}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def memory(count, port):
    """Resident memory of hwgate: at start, with 100 idle clients, and after `count` messages, in MiB."""
    import zmq
    context = zmq.Context()
    logs, commands = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"

    def stats():
        with context.socket(zmq.REQ) as req:
            req.linger, req.rcvtimeo = 0, 60_000
            req.connect(commands)
            req.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "stats"}).encode())
            return json.loads(req.recv())["result"]

    with tempfile.TemporaryDirectory(prefix="hwgate-bench-") as folder:
        server = subprocess.Popen([str(ROOT / "benches/hwgate_server.sh"), logs, f"{folder}/unused", folder],
                                  stdout=subprocess.DEVNULL, env=os.environ | {"HWGATE_BENCH_COMMANDS": commands})
        try:
            stats()
            found = {"at start": resident(server.pid)}
            idle = [context.socket(zmq.PUSH) for _ in range(100)]
            for push in idle:
                push.linger = 10_000
                push.connect(logs)
                push.send(b"here, and silent from now on")
            while stats()["intake"]["received"] < len(idle):
                time.sleep(0.05)
            time.sleep(1)
            found["100 idle clients"] = resident(server.pid)
            subprocess.run([str(BUILD / "push"), logs, str(count), str(SIZE)], check=True)
            end = time.monotonic() + 600
            while stats()["intake"]["received"] < count + len(idle) and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(2)
            found[f"after {count:,} messages"] = resident(server.pid)
            found["the most it had"] = resident(server.pid, "VmHWM")
            for push in idle:
                push.close()
        finally:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
            context.destroy(linger=0)
    return found


def page(found, args, used_memory):
    """The measured part of the page."""
    hwgate = next((s for s in found if s.name == "hwgate"), None)
    lines = [f"Measured on {datetime.date.today().isoformat()} on one machine: {report.machine()}. {SIZE}-byte messages, {args.count:,} of them "
             f"(rsyslog {int(args.count * 0.4):,}), from the first send to the last line in the file; medians of {args.repetitions} "
             f"interleaved repetition{'s' if args.repetitions > 1 else ''}. Load and servers share the cores. hwgate writes its journal and, from it, "
             "a text file with timestamps. Made by `./dev bench`.", "",
             "| log server | msg/s, 1 client | x hwgate | msg/s, 4 clients | x hwgate | server CPU us/msg |", "|---|---:|---:|---:|---:|---:|"]
    for server in found:
        if server.missing:
            lines.append(f"| {server.name} | not measured: {server.missing} | | | | |")
            continue
        cells = []
        for clients in CLIENTS:
            rate = statistics.median(server.rates[clients])
            ratio = rate / statistics.median(hwgate.rates[clients]) if hwgate and hwgate.rates[clients] else None
            cells += [f"{rate:,.0f}", f"{ratio:.2f}" if ratio else "–"]
        cpu = [statistics.median(server.cpu[clients]) for clients in CLIENTS]
        lost = f" ({server.lost} lost)" if server.lost else ""
        lines.append(f"| {server.name}{lost} | {' | '.join(cells)} | {min(cpu):.1f} – {max(cpu):.1f} |")
    if used_memory:
        lines += ["", "| hwgate's resident memory | MiB |", "|---|---:|", *(f"| {what} | {mib:.1f} |" for what, mib in used_memory.items())]
    return "\n".join(lines)


TEMPLATE = """# Performance

<!-- measured: begin -->
<!-- measured: end -->

## What bounds each figure

Written by hand; `./dev bench` leaves it as it is.
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one repetition")
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--only", default="", help="parts of server names, separated by commas")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-count", type=int, default=5_000_000)
    parser.add_argument("--port", type=int, default=19990)
    parser.add_argument("--output", type=pathlib.Path, default=report.PAGE)
    args = parser.parse_args()
    args.repetitions = args.repetitions or (1 if args.quick else 3)

    for name in ("push", "limit_log_server"):
        report.build(PEERS / f"{name}.c")
    found = [s for s in servers() if not args.only or any(part in s.name for part in args.only.split(","))]
    for server in found:
        if server.missing:
            print(f"SKIPPED: {server.name} because {server.missing}")
    present = [s for s in found if not s.missing]
    for repetition in range(args.repetitions):
        print(f"repetition {repetition + 1} of {args.repetitions}", flush=True)
        for clients in CLIENTS:
            for server in present:
                measure(server, clients, args.count, args.port)
    used_memory = None
    if any(s.name == "hwgate" for s in present) and not args.no_memory:
        used_memory = memory(args.memory_count, args.port)
    measured = page(found, args, used_memory)
    report.write(args.output, "measured", measured, TEMPLATE)
    print(measured)
    try:
        shown = args.output.resolve().relative_to(ROOT)
    except ValueError:
        shown = args.output
    print(f"written to {shown}")
    if any(s.lost for s in present if s.name == "hwgate"):
        sys.exit("hwgate lost lines, see above")


if __name__ == "__main__":
    main()
