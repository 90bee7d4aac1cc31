"""Crashes: what was in the journal is in the files once, through SIGKILL and through damage."""
import json
import random
import time

import pytest

from hwgate_test import QUICK, fill, parse, sequences, wait_for


def in_files(g):
    """The lines of plain clients in the text files: (source, text), in order."""
    return [(line["source"], line["text"]) for line in parse(g.log_text()) if line["host"] == "127.0.0.1"]


def in_json(g):
    found = []
    for path in sorted(g.log_dir.rglob("*.jsonl")):
        text = path.read_text("utf-8")
        assert not text or text.endswith("\n"), f"{path}: torn at the end"
        records = [json.loads(line) for line in text.splitlines()]
        found += [(r["source"], r["text"]) for r in records if r["host"] == "127.0.0.1"]
    return found


@pytest.mark.timeout(1200)
def test_kill_9_thirty_times(gateway, producers):
    """SIGKILL at random moments under load, thirty times with the same journal: no line twice, none torn, and the
    text and the JSON files hold the same records, not fewer than the journal was seen to take."""
    g = gateway(journal={"max_bytes": "4GiB", "max_age": "30d"},
                log=[{"path": "gateway.log", "rotate": {"size": "256KiB", "compress": True}}, {"path": "all.jsonl", "format": "json"}])
    logs = g.endpoints["logs"]
    running = [producers(logs, f"p{n}", rate=rate, form=form)
               for n, (rate, form) in enumerate([(2000, "utf8"), (2000, "topic"), (2000, "utf16"), (300, "utf8"), (0, "utf8")])]
    choose = random.Random(9)
    held = 0
    for turn in range(5 if QUICK else 30):
        wait_for("load", lambda: g.stats().received > 0)
        time.sleep(choose.uniform(0, 0.6))
        if turn % 5 == 4:
            g.request("log.rotate")
        held += g.stats().written
        g.kill()
        g.start()
    for one in running:
        one.process.terminate()
    sent = {one.name: one.sent() for one in running}
    seen = -1
    while seen != (seen := g.stats().received):
        time.sleep(0.5)
    stats = g.settle(seen)
    held += stats.written
    g.stop()

    lines = in_files(g)
    found = sequences(text for _source, text in lines)
    assert found.keys() == sent.keys()
    for name, numbers in found.items():
        assert numbers[-1] == sent[name] - 1, f"{name}: the end was sent to a living gateway"
    assert sorted(in_json(g)) == sorted(lines), "both sinks have the same records, each once"
    assert len(lines) >= held, "what was counted as written before a kill is there"
    warnings = [line for line in g.stderr().splitlines() if " WARN " in line and "unfinished write" not in line]
    assert not warnings, "what a crash leaves is tidied up quietly"


@pytest.mark.timeout(600)
def test_kill_9_while_sinks_are_behind(gateway, tmpfs):
    """What is only in the journal when the gateway dies is written by the next one."""
    g, filler = behind(gateway, tmpfs)
    g.kill()
    filler.unlink()
    g.start()
    g.request("log.flush")
    assert [text for _source, text in in_files(g)] == [f"{n:05d} " + "x" * 94 for n in range(20_000)]


@pytest.mark.timeout(600)
def test_damaged_journal(gateway, tmpfs):
    """Bytes flipped in the middle of a segment: the gateway starts, skips and counts; everything else is in the files."""
    g, filler = behind(gateway, tmpfs)
    written = len(in_files(g))
    g.kill()
    segment = max((p for p in g.journal_dir.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    with open(segment, "r+b") as f:
        data = f.read()
        # Past what the files already have, and far from the end.
        at = len(data) * 3 // 4
        f.seek(at)
        f.write(bytes(byte ^ 0x5A for byte in data[at:at + 64]))
    filler.unlink()
    g.start()
    g.request("log.flush")
    numbers = [int(text.split(" ")[0]) for _source, text in in_files(g)]
    assert numbers == sorted(set(numbers))
    missing = 20_000 - len(numbers)
    assert 0 < missing < 2000, f"only the damaged frame is missing: {missing}, of which {written} were written before"
    assert numbers[-1] == 19_999
    gap = sorted(set(range(20_000)) - set(numbers))
    assert gap == list(range(gap[0], gap[-1] + 1)), "one gap"
    assert g.stats().journal_damage > 0, g.stats().reply["journal"]
    assert any(word in g.stderr().lower() for word in ("damage", "corrupt", "skip")), g.stderr()
    g.send("goes on")
    g.settle(1)
    g.stop()


def test_torn_end_of_the_journal(gateway, tmpfs):
    """A half-written frame at the end is cut, quietly: that is what a crash leaves."""
    g, filler = behind(gateway, tmpfs)
    g.kill()
    segment = max((p for p in g.journal_dir.rglob("*") if p.is_file()), key=lambda p: (p.stat().st_size, p.stat().st_mtime))
    with open(segment, "r+b") as f:
        f.truncate(segment.stat().st_size - 37)
    filler.unlink()
    g.start()
    g.request("log.flush")
    numbers = [int(text.split(" ")[0]) for _source, text in in_files(g)]
    assert numbers == list(range(len(numbers))) and len(numbers) > 18_000
    g.send("goes on")
    g.settle(1)


def behind(gateway, tmpfs):
    """A gateway whose disk is full, so that 20,000 lines are in its journal and not in its files."""
    disk = tmpfs("16m")
    g = gateway(log_dir=disk / "logs")
    filler = fill(disk)
    # One socket: messages of two may overtake each other.
    g.send(*(f"{n:05d} " + "x" * 94 for n in range(20_000)))
    wait_for("written", lambda: g.stats().written >= 20_000)
    g.stats().check()
    wait_for("degraded", lambda: "degraded" in g.stats().states)
    return g, filler
