"""Log files: rotation, full disks, foreign hands. Every line is there once, whatever happens to a file."""
import contextlib
import gzip
import os
import re
import shutil
import subprocess

import pytest

from hwgate_test import EX_CANTCREAT, EX_CONFIG, RpcError, content, end_by_itself, fill, hwgate, parse, wait_for

# All names a log file may have; everything else in a source becomes %XX.
SAFE = re.compile(r"[A-Za-z0-9._%-]+")


def numbered(first, last, size=100):
    """Messages of `size` bytes that begin with their number."""
    return [f"{n:04d} ".ljust(size, "x") for n in range(first, last + 1)]


def numbers(texts):
    return [int(text.split(" ", 1)[0]) for text in texts]


def test_c15_rotation_overwrites_nothing(gateway):
    """Rotation within one second, compression, restart and rotation by hand: all 220 are there, names sort by time."""
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "1KiB", "compress": True}}])
    g.send(*numbered(1, 200))
    g.settle(200)
    g.stop()
    g.start()
    g.send(*numbered(201, 220))
    g.settle(20)
    g.request("log.rotate")
    after_one = len(g.files())
    g.request("log.rotate")
    g.request("log.rotate")
    assert len([p for p in g.files() if p.stat().st_size]) <= after_one, "rotating an empty file makes nothing"
    g.stop()
    assert numbers(g.texts()) == list(range(1, 221))
    archives = [p for p in g.files() if p.suffix == ".gz"]
    assert len(archives) >= 20
    assert [p.name for p in archives] == sorted(p.name for p in archives), "the order of names is the order of time"
    assert not [p for p in g.log_dir.iterdir() if p.name.endswith(".tmp")]
    first = [numbers(line["text"] for line in parse(content(p)) if line["source"] == "logs") for p in archives]
    flat = [n for part in first for n in part]
    assert flat == sorted(flat)


def test_gzip_is_finished_at_start(gateway):
    """SIGKILL in the middle of rotation and compression leaves nothing half packed and nothing twice."""
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "64KiB", "compress": True}}])
    sent = 0
    for _ in range(5):
        g.send(*numbered(sent + 1, sent + 2000))
        sent += 2000
        wait_for("received", lambda: g.stats().received >= 2000)
        g.kill()
        g.start()
    g.request("log.flush")
    g.stop()
    found = numbers(g.texts())
    assert found == sorted(set(found)), "no line twice, none out of order"
    for path in g.files("*.gz"):
        with gzip.open(path) as f:
            f.read()
    assert not [p for p in g.log_dir.rglob("*") if p.name.endswith(".tmp")]


def test_keep_files(gateway):
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "4KiB", "keep_files": 3}}])
    g.send(*numbered(1, 300))
    g.settle(300)
    assert len(g.files()) <= 4
    found = numbers(g.texts())
    assert found == list(range(found[0], 301)), "the newest are kept, without a gap"


@contextlib.contextmanager
def immovable(path):
    """While this lasts, `path` can be written but not renamed: what a foreign handle does on Windows."""
    done = subprocess.run(["mount", "--bind", str(path), str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a bind mount is not permitted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


def test_c16_rename_fails(gateway):
    """The Linux stand-in for a file that another process holds open: it goes on in the old file, warns once, and rotates
    by itself afterwards. (A real handle without delete sharing needs Windows.)"""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can make a file immovable by a bind mount")
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "10KiB"}}])
    g.send("0000 first")
    g.settle(1)
    with immovable(g.log_dir / "gateway.log"):
        for part in range(3):
            g.send(*numbered(part * 100 + 1, part * 100 + 100))
            g.settle(1 + part * 100 + 100)
        told = [line for line in g.stderr().splitlines() if re.search("rotat|rename", line)]
        assert len(told) in (1, 2), g.stderr()
        assert not [p for p in g.files() if p.name != "gateway.log" and not p.stat().st_size]
    g.send(*numbered(301, 400))
    g.settle(401)

    def rotated():
        g.request("log.rotate")
        return len(g.files()) > 1

    wait_for("rotation by itself", rotated, seconds=150)
    g.send(*numbered(401, 500))
    g.settle(501)
    g.stop()
    assert numbers(g.texts()) == list(range(0, 501))


def full_disk(g, lines):
    """Sends `lines` messages into a full folder, then frees archives one by one, keeping what they held."""
    g.send(*numbered(1, lines))
    wait_for("all received", lambda: g.stats().received >= lines)
    wait_for("degraded", lambda: "degraded" in g.stats().states)
    stats = g.stats()
    stats.check()
    reports = [line for line in g.stderr().splitlines() if re.search("no space|disk.?full", line, re.I)]
    assert 1 <= len(reports) <= 3, f"one report a minute:\n{g.stderr()}"
    assert g.request("ping") is not None
    assert all(p.stat().st_size for p in g.files() if p.name != "gateway.log"), "no archive is emptied"
    kept = []

    def drain():
        archives = [p for p in g.files() if p.name != "gateway.log"]
        for path in archives:
            kept.append(content(path))
            path.unlink()
        stats = g.stats()
        return not archives and "degraded" not in stats.states
    return kept, drain


def test_c17_full_disk(gateway, tmpfs):
    """A 256 KiB disk: no archive becomes empty, status degraded, few reports; when space returns, writing resumes
    without a restart, and kept + counted as lost = sent."""
    folder = tmpfs("256k")
    g = gateway(log_dir=folder / "logs", log=[{"path": "gateway.log", "rotate": {"size": "64KiB", "keep_files": 10}}])
    kept, drain = full_disk(g, 5000)
    wait_for("resumed by itself", drain, seconds=120, step=0.2)
    g.send(*numbered(5001, 5100))
    wait_for("received", lambda: g.stats().received >= 5100)
    wait_for("drained", drain, seconds=120, step=0.2)
    g.request("log.flush")
    stats = g.stats()
    stats.check()
    g.stop()
    lines = [line for line in parse("".join(kept) + g.log_text())]
    found = numbers(line["text"] for line in lines if line["source"] == "logs")
    assert found == sorted(set(found)), "none twice, none torn"
    assert len(found) + stats.dropped == 5100, (len(found), stats.reasons)
    if stats.dropped:
        assert any("lost" in line["text"] for line in lines) or "lost" in g.stderr()
    assert "resume" in g.stderr().lower() or any("resume" in line["text"].lower() for line in lines)


def test_full_disk_and_full_journal(gateway, tmpfs):
    """The same with more than the journal may hold: what does not fit is counted, commands go on, nothing else is lost."""
    folder = tmpfs("256k")
    g = gateway(log_dir=folder / "logs", journal={"max_bytes": "1MiB"},
                log=[{"path": "gateway.log", "rotate": {"size": "32KiB"}}])
    g.send(*(f"{n:05d} ".ljust(300, "x") for n in range(20_000)))
    wait_for("all received", lambda: g.stats().received >= 20_000)
    wait_for("degraded", lambda: "degraded" in g.stats().states)
    stats = g.stats()
    stats.check()
    assert "degraded" in stats.states and stats.dropped_for("full") == stats.dropped > 0, stats.reply
    assert sum(p.stat().st_size for p in g.journal_dir.rglob("*") if p.is_file()) < 4 << 20
    kept = []

    def drain():
        archives = [p for p in g.files() if p.name != "gateway.log"]
        for path in archives:
            kept.append(content(path))
            path.unlink()
        return not archives and "degraded" not in g.stats().states
    wait_for("resumed by itself", drain, seconds=120, step=0.1)
    g.send("99999 after")
    wait_for("received", lambda: g.stats().received >= 20_001)
    g.request("log.flush")
    stats = g.stats()
    g.stop()
    lines = parse("".join(kept) + g.log_text())
    found = numbers(line["text"] for line in lines if line["source"] == "logs")
    assert found == sorted(set(found)) and found[-1] == 99999
    assert len(found) + stats.dropped == 20_001
    assert any(re.search(r"\b\d+\b.*\blost\b|\blost\b.*\b\d+\b|dropped", line["text"]) for line in lines if line["source"] != "logs"), \
        "the log itself says how many were lost"


def test_c17_journal_on_the_full_disk(gateway, tmpfs):
    """Journal and logs on one full disk, and more messages than any queue holds: each is written or counted as lost,
    the gateway answers meanwhile, and the log itself says how many were lost."""
    folder = tmpfs("4m")
    g = gateway(log_dir=folder / "logs", journal_dir=folder / "journal")
    g.send(*numbered(1, 100))
    g.settle(100)
    filler = fill(folder)
    lost_at_least, sent = 20_000, 100
    with g.push() as push:
        while g.stats().dropped < lost_at_least:
            for message in numbered(sent + 1, sent + 5000, 300):
                push.send_string(message)
            sent += 5000
        wait_for("all received", lambda: (stats := g.stats()).received == sent and not stats.pending)
        stats = g.stats()
        stats.check()
        assert stats.state == "degraded" and stats.dropped_for("disk_full") == stats.dropped, stats.reply
        assert hwgate("status", "--check", env={"HWGATE_URL": g.endpoints["commands"]}).returncode == 1
        filler.unlink()
        wait_for("resumed by itself, without another message", lambda: g.stats().state == "ok")
        for message in numbered(sent + 1, sent + 100):
            push.send_string(message)
        sent += 100
    stats = g.settle(sent)
    assert stats.written + stats.dropped == sent
    assert hwgate("status", "--check", env={"HWGATE_URL": g.endpoints["commands"]}).returncode == 0
    g.stop()
    found = numbers(g.texts())
    assert found == sorted(set(found)) and found[:100] == list(range(1, 101)) and found[-100:] == list(range(sent - 99, sent + 1))
    assert len(found) == stats.written
    told = [int(match[1]) for text in g.texts("hwgate") if (match := re.match(r"resumed, (\d+) messages lost", text))]
    assert told and sum(told) == stats.dropped, (told, stats.reasons)
    reports = [line for line in g.stderr().splitlines() if "messages are being lost" in line]
    assert len(reports) == 1, f"one report a minute:\n{g.stderr()}"


@pytest.mark.parametrize("source", ["../../x", "/etc/x", "..", ".", "...", "C:\\x", "C:x", "\\\\host\\s\\a.wav", "file:///etc/x", "NUL",
                                    "COM3.log", "a.log:b", "a\0b", "con ", "%2e%2e", "x" * 300, "ä" * 200, "", "-rf", "a/b", "🔥"])
def test_c35_names(gateway, source):
    """A source is never a path: nothing is made outside log_dir, or under a name that is not plain."""
    g = gateway(log=[{"path": "gateway.log"}, {"path": "by/{source}.log"}, {"path": "dir/{source}/app.log"}])
    before = {p for p in g.folder.rglob("*")}
    g.send([source.encode(), b"the text"])
    g.settle(1)
    made = [p for p in g.folder.rglob("*") if p not in before and g.journal_dir not in (p, *p.parents)]
    inside = [p for p in made if p.is_relative_to(g.log_dir)]
    # What the test harness itself writes stands beside log_dir.
    assert {p.name for p in made if p not in inside} <= {"logs", "stderr.txt", "stdout.txt"}
    for part in ("by", "dir"):
        files = [p for p in inside if p.is_file() and p.relative_to(g.log_dir).parts[0] == part]
        assert len(files) == 1, files
        assert "the text" in content(files[0])
        relative = files[0].relative_to(g.log_dir)
        assert len(relative.parts) == (2 if part == "by" else 3)
        assert all(SAFE.fullmatch(name) and name not in ("..", ".") and len(name) <= 255 for name in relative.parts), relative
    assert len(g.texts(None)) == 1
    # Device names (NUL, COM3) matter on Windows only, where its own test looks at the files.


def test_c35_links(gateway):
    """A link out of log_dir, for a folder or a file, is not followed: nothing is made behind it, the other files go on,
    and what waited is written once the link is gone."""
    g = gateway.make(log=[{"path": "gateway.log"}, {"path": "by/{source}.log"}, {"path": "dir/{source}/app.log"}])
    outside = g.folder / "outside"
    for folder in (outside, g.log_dir / "by", g.log_dir / "dir"):
        folder.mkdir(parents=True)
    links = {g.log_dir / "by/linked.log": outside / "x.log", g.log_dir / "dir/linked": outside}
    for link, target in links.items():
        link.symlink_to(target)
    g.start()
    g.send([b"linked", b"the text"])
    wait_for("told", lambda: g.stats().states == ["ok", "degraded", "degraded"])
    assert not list(outside.iterdir())
    assert all(str(link) in g.stderr() for link in links) or g.stderr().count("symbolic link") >= 2, g.stderr()
    assert [r["text"] for r in g.records("linked")] == ["the text"]
    for link in links:
        link.unlink()
    wait_for("resumed by itself", lambda: set(g.stats().states) == {"ok"})
    g.settle(1)
    assert not list(outside.iterdir())
    for path in ("by/linked.log", "dir/linked/app.log"):
        assert [r["text"] for r in parse(content(g.log_dir / path)) if r["source"] == "linked"] == ["the text"]


@pytest.mark.parametrize("path", ["../x.log", "/etc/hwgate-x.log", "a/../../x.log", "", "a\0.log"])
def test_c35_settings(gateway, path):
    code, stderr, _ = end_by_itself(gateway.make(log=[{"path": path}]))
    assert code == EX_CONFIG and "path" in stderr and "panicked" not in stderr, stderr


def test_c35_many_sources(gateway):
    """At most 1,000 files a sink, then other.log; nothing is lost."""
    g = gateway(log=[{"path": "gateway.log"}, {"path": "by/{source}.log"}])
    g.send(*([f"source{n}".encode(), f"text {n}".encode()] for n in range(1200)))
    g.settle(1200)
    files = [p for p in g.files() if p.parent.name == "by"]
    assert len(files) <= 1001 and (g.log_dir / "by/other.log").exists() or (g.log_dir / "other.log").exists()
    lines = "".join(content(p) for p in g.files() if p.name != "gateway.log")
    assert sorted(line["text"] for line in parse(lines)) == sorted(f"text {n}" for n in range(1200))


def test_c40_missing_folder_is_made(gateway):
    g = gateway(log_dir=None, gateway={"log_dir": "a/b/logs"})
    g.log_dir = g.folder / "a/b/logs"
    g.send("x")
    g.settle(1)
    assert g.texts() == ["x"]
    assert (g.log_dir.stat().st_mode & 0o777, (g.log_dir / "gateway.log").stat().st_mode & 0o777) == (0o750, 0o640)
    assert g.journal_dir.stat().st_mode & 0o777 == 0o700


def cannot_start(g, path):
    code, stderr, _ = end_by_itself(g)
    assert code == EX_CANTCREAT, stderr
    assert str(path) in stderr and "panicked" not in stderr, stderr
    return stderr


@pytest.mark.parametrize("which", ["log_dir", "journal_dir"])
def test_c40_path_is_a_file(gateway, tmp_path, which):
    path = tmp_path / "occupied"
    path.write_text("mine")
    cannot_start(gateway.make(**{which: path}), path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("which", ["log_dir", "journal_dir"])
def test_c40_cannot_be_made(gateway, which):
    cannot_start(gateway.make(**{which: "/proc/hwgate/x"}), "/proc/hwgate")


@pytest.mark.parametrize("which", ["log_dir", "journal_dir"])
def test_c40_read_only(gateway, tmpfs, which):
    folder = tmpfs("64k", ",ro")
    stderr = cannot_start(gateway.make(**{which: folder}), folder)
    assert re.search("read-only|permission", stderr, re.I), stderr


def test_c40_the_journal_goes_away(gateway):
    """Its folder was removed: the sink says which file it misses, and the gateway goes on answering and ends."""
    g = gateway()
    g.send("one")
    g.settle(1)
    shutil.rmtree(g.journal_dir)
    with pytest.raises(RpcError) as error:
        g.request("log.rotate")
    assert f"checkpoint {g.journal_dir}" in error.value.message and error.value.kind == "NOT_FOUND", error.value
    g.send("two")
    wait_for("degraded", lambda: g.stats().state == "degraded")
    assert str(g.journal_dir) in g.stats().reply["reason"]
    g.process.send_signal(15)
    g.exit_code(20)
    # What was in the journal only is gone with it; the files are not touched.
    g.start()
    g.send("three")
    g.settle(1)
    assert g.texts()[0] == "one" and g.texts()[-1] == "three"


def test_c40_unwritable_at_run_time(gateway):
    """The folder goes away and a file stands in its place: degraded, told, and all of it written afterwards."""
    g = gateway()
    g.send("before")
    g.settle(1)
    aside = g.folder / "aside"
    g.log_dir.rename(aside)
    g.log_dir.write_text("in the way")
    # The first batch may still reach the open file, and shows that it was moved.
    g.send("noticed")
    wait_for("received", lambda: g.stats().received >= 2)
    g.send(*numbered(1, 100))
    wait_for("degraded", lambda: "degraded" in g.stats().states)
    assert str(g.log_dir) in g.stderr()
    url = {"HWGATE_URL": g.endpoints["commands"]}
    done = hwgate("status", "--check", env=url)
    assert done.returncode == 1 and done.stdout == "degraded: test\n", done
    g.log_dir.unlink()
    wait_for("resumed by itself", lambda: "degraded" not in g.stats().states, seconds=120, step=0.2)
    g.settle(102)
    assert hwgate("status", "--check", env=url).returncode == 0
    assert numbers(t for t in g.texts() if t[0].isdigit()) == list(range(1, 101))


def test_c42_moved_and_deleted(gateway):
    """A file that logrotate moved, or somebody deleted, is noticed with the next message, which is not lost either."""
    g = gateway()
    current, old = g.log_dir / "gateway.log", g.log_dir / "gateway.old"
    g.send(*numbered(1, 10))
    g.settle(10)
    current.rename(old)
    for n in range(11, 21):
        g.send(*numbered(n, n))
        g.settle(n)
        assert current.exists(), "made again with the first message"
    first = numbers(line["text"] for line in parse(content(old)) + parse(content(current)) if line["source"] == "logs")
    assert set(first) == set(range(1, 21))
    assert set(range(12, 21)) <= set(numbers(line["text"] for line in parse(content(current))))
    current.unlink()
    for n in range(21, 31):
        g.send(*numbered(n, n))
        g.settle(n)
    assert numbers(line["text"] for line in parse(content(current)) if line["source"] == "logs") == list(range(21, 31))


def test_c42_copytruncate(gateway):
    """Somebody empties the file in place: new lines follow, no hole of NULs, nothing is written twice."""
    g = gateway()
    g.send(*numbered(1, 10))
    g.settle(10)
    os.truncate(g.log_dir / "gateway.log", 0)
    g.send(*numbered(11, 20))
    g.settle(20)
    g.stop()
    g.start()
    g.send(*numbered(21, 30))
    g.settle(10)
    assert numbers(g.texts()) == list(range(11, 31))


def test_reopen_after_mv(gateway):
    """What logrotate does: move, SIGHUP, then pack the moved file. Every line is in one of the two, once."""
    g = gateway()
    current, old = g.log_dir / "gateway.log", g.log_dir / "gateway.log.1"
    g.send(*numbered(1, 50))
    g.settle(50)
    current.rename(old)
    g.process.send_signal(1)
    wait_for("reopened", current.exists)
    g.send(*numbered(51, 100))
    g.settle(100)
    assert numbers(line["text"] for line in parse(content(old)) if line["source"] == "logs") == list(range(1, 51))
    assert numbers(line["text"] for line in parse(content(current)) if line["source"] == "logs") == list(range(51, 101))


def test_rotate_command(gateway):
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "64MiB", "compress": True}}, {"path": "json/{source}.jsonl", "format": "json"}])
    g.send("one")
    g.settle(1)
    g.request("log.rotate")
    g.send("two")
    g.settle(2)
    wait_for("packed", lambda: [p for p in g.log_dir.glob("gateway*.gz")])
    assert g.texts() == ["one", "two"]
    assert "two" in content(g.log_dir / "gateway.log") and "one" not in content(g.log_dir / "gateway.log")
    g.request("log.rotate")
    assert content(g.log_dir / "gateway.log") == "", "whoever follows the file finds the new one at once"
