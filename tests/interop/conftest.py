"""Fixtures of the interop tests; what they are made of is in hwgate_test.py."""
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

import pytest

from hwgate_test import Gateway, Producer


def pytest_configure(config):
    # Many sockets are opened against the gateway; the gateways themselves get what a test says.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 8192:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.call_failed = report.failed
    return report


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"SKIPPED: {report.nodeid} because {reason.removeprefix('Skipped: ')}")


@pytest.fixture
def gateway(request, tmp_path):
    """Makes gateways: `gateway(**settings)` starts one, `gateway.make(**settings)` only prepares it."""
    made = []

    def make(name=None, **settings):
        made.append(Gateway(tmp_path / (name or f"gateway{len(made) or ''}"), **settings))
        return made[-1]

    def start(name=None, **settings):
        return make(name, **settings).start()

    start.make = make
    yield start
    errors = []
    for one in made:
        if getattr(request.node, "call_failed", False):
            text = one.stderr()
            print(f"--- {one.folder}: stderr ---\n{text[:4000]}" + (f"\n...\n{text[-4000:]}" if len(text) > 4000 else ""))
        try:
            one.close()
        except AssertionError as error:
            errors.append(error)
    assert not errors, errors


@pytest.fixture
def producers(tmp_path):
    """Makes plain producers; none outlives the test."""
    made = []

    def start(endpoint, name, **settings):
        made.append(Producer(tmp_path, endpoint, name, **settings))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture
def tmpfs(tmp_path):
    """Mounts small file systems: `tmpfs("256k")` gives a folder. Needs root; skipped, loudly, where that is not so."""
    mounted = []

    def mount(size, options=""):
        folder = tmp_path / f"tmpfs{len(mounted)}"
        folder.mkdir()
        if os.geteuid() != 0 or not shutil.which("mount"):
            pytest.skip("only root can mount a small tmpfs")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a tmpfs is not permitted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture
def short_folder():
    """A folder with a short name, for Unix sockets."""
    folder = tempfile.mkdtemp(prefix="hwg")
    yield pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
