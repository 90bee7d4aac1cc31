"""Plain ZeroMQ clients of several languages, as they are: what they send is in the files, readable, once."""
import json
import logging
import random
import re
import socket
import subprocess
import sys
import time

import pytest
import zmq.log.handlers

from hwgate_test import QUICK, RpcError, c_push, parse, payload, ps_strings, pwsh, sequences, shared, wait_for

UTF16 = "utf-16-le"


def test_push_log_ps1(gateway):
    """The operators' script, unchanged, against the default port: UTF-16LE without a mark becomes readable."""
    script = shared("clients", "push_log.ps1")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 10000))
        except OSError as error:
            pytest.fail(f"port 10000, which this test needs, is taken: {error}")
    g = gateway(endpoints={"logs": "tcp://127.0.0.1:10000"})
    texts = ["Sending data from a PowerShell script", "Grüße aus Köln", "Zähler läuft 😀 👍🏽", "ERROR Gerät fehlt"]
    command = f"& '{script}' 'tcp://localhost:10000' {ps_strings(texts)}"
    subprocess.run([pwsh(), "-NoProfile", "-Command", command], check=True, timeout=120)
    stats = g.settle(len(texts))
    assert g.texts() == texts
    assert [r["level"].strip() for r in g.records("logs")] == ["INFO", "INFO", "INFO", "ERROR"]
    assert stats.text["utf16le"] == len(texts)


def test_one_frame_pyzmq(gateway):
    g = gateway()
    with g.push() as push:
        for text in ("plain", "Grüße 😀", "ERROR disk", "[WARN] hot", "WARNING: x", "INFORMED", "C:\\new\\table"):
            push.send_string(text)
    stats = g.settle(7)
    records = g.records("logs")
    assert [r["text"] for r in records] == ["plain", "Grüße 😀", "ERROR disk", "[WARN] hot", "WARNING: x", "INFORMED", "C:\\new\\table"]
    assert [r["level"].strip() for r in records] == ["INFO", "INFO", "ERROR", "WARN", "WARN", "INFO", "INFO"]
    assert {r["host"] for r in records} == {"127.0.0.1"}
    assert stats.text["utf8"] == 7 and stats.dropped == 0


def test_two_frames_pubhandler(gateway):
    """pyzmq's own logging handler over a PUSH socket: root.LEVEL.sub as the topic."""
    g = gateway()
    log = logging.getLogger("hwgate-interop")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    with g.push() as push:
        handler = zmq.log.handlers.PUBHandler(push)
        handler.root_topic = "kiosk"
        log.addHandler(handler)
        try:
            log.info("started")
            log.warning("temp::Gerät wird warm")
            log.critical("ended")
        finally:
            log.removeHandler(handler)
        push.send_multipart([b"app.banana.db", b"no level in the topic"])
        push.send_multipart([b"ERROR", b"nothing but a level"])
    g.settle(5)
    records = g.records()
    assert [(r["level"].strip(), r["source"]) for r in records[:2]] == [("INFO", "kiosk"), ("WARN", "kiosk.temp")]
    assert records[0]["text"] == "started" and records[1]["text"].endswith("Gerät wird warm")
    assert records[2]["level"].strip() == "CRIT" and records[2]["source"] == "kiosk"
    assert (records[3]["level"].strip(), records[3]["source"]) == ("INFO", "app.banana.db")
    assert records[4]["level"].strip() == "ERROR"


def test_json_has_the_bytes(gateway):
    g = gateway(log=[{"path": "gateway.log"}, {"path": "json/{source}.jsonl", "format": "json"}])
    g.send("plain", b"Temp\xe4!", [b"app/x", "zwei\nZeilen".encode()])
    g.settle(3)
    logs = [json.loads(line) for line in (g.log_dir / "json/logs.jsonl").read_text().splitlines()]
    assert logs[0]["text"] == "plain" and "raw_base64" not in logs[0]
    assert logs[1]["text"] == r"Temp\xe4!" and logs[1]["raw_base64"] == "VGVtcOQh"
    other = [p for p in g.files("*.jsonl") if p.name != "logs.jsonl"]
    assert [p.name for p in other] == ["app%2Fx.jsonl"]
    assert json.loads(other[0].read_text())["text"] == "zwei\nZeilen"


@pytest.mark.timeout(600)
def test_c01_one_shot_scripts(gateway):
    """Connect, send one line, close with linger, end: nothing is lost, no sleep needed."""
    g = gateway()
    script = ("import sys, zmq\nc = zmq.Context()\ns = c.socket(zmq.PUSH)\ns.linger = 10000\ns.connect(sys.argv[1])\n"
              "s.send_string('one-shot ' + sys.argv[2])\ns.close()\nc.term()\n")
    count = 20 if QUICK else 100
    for k in range(count):
        subprocess.run([sys.executable, "-c", script, g.endpoints["logs"], str(k)], check=True, timeout=60)
    g.settle(count)
    assert sorted(g.texts()) == sorted(f"one-shot {k}" for k in range(count))


def test_c08_utf16_and_utf8(gateway):
    g = gateway()
    plain = bytes.fromhex("4700 7200 fc00 df00 6500 2000 3dd8 00de")
    g.send(plain, b"\xff\xfe" + plain, "Grüße 😀")
    stats = g.settle(3)
    assert g.texts() == ["Grüße 😀"] * 3
    assert (stats.text["utf16le"], stats.text["bom"], stats.text["utf8"]) == (1, 1, 1)


def test_c09_invalid_utf8(gateway):
    g = gateway()
    g.send("before", b"Temp\xe4!", "after")
    stats = g.settle(3)
    assert g.texts() == ["before", r"Temp\xe4!", "after"]
    assert stats.text["bytes"] == 1


def test_c10_embedded_nul(gateway):
    g = gateway()
    g.send(b"err \x00xc0000005 end", b"ends with NULs\x00\x00")
    stats = g.settle(2)
    assert g.texts() == [r"err \x00xc0000005 end", "ends with NULs"]
    assert stats.text["utf8_escaped"] == 1


def test_c11_one_record_one_line(gateway):
    """No message can forge a second line. A backslash stays as it is, as DESIGN 4 says."""
    g = gateway()
    g.send("user said: hi\r\n2020-01-01T00:00:00Z CRIT security admin login ok", "a\u0085b", "a\u2028b", "a\x1b[2Kb", "tab\there",
           "back\\slash", [b"forged\n2020-01-01T00:00:00.000000Z CRIT  h/s x", b"source"])
    g.settle(7)
    assert g.texts() == [r"user said: hi\r\n2020-01-01T00:00:00Z CRIT security admin login ok", r"a\u0085b", r"a\u2028b",
                         r"a\x1b[2Kb", r"tab\there", "back\\slash"]
    assert len(g.records()) == 7 and len(g.log_text().encode().splitlines()) == 7


def test_c12_frames(gateway):
    """One frame and two are records; any other number, and an empty message, are dropped and counted by reason."""
    g = gateway()
    with g.push() as push:
        push.send(b"good A")
        push.send(b"x")
        push.send_multipart([b"app", b"two frames"])
        push.send_multipart([b"four"] * 4)
        push.send(b"")
        push.send_multipart([b"banana", b"source", b"text"])
        push.send_multipart([b"1"] * 1000)
        push.send(b"good B")
    stats = g.settle(8)
    assert g.texts() == ["good A", "x", "good B"]
    assert g.texts("app") == ["two frames"]
    assert (stats.written, stats.dropped) == (4, 4)
    assert len(stats.reasons) >= 2 and stats.dropped_for("frame|part") == 3, stats.reasons
    assert stats.dropped_for("empty") == 1, stats.reasons
    warnings = [line for line in g.stderr().splitlines() if "dropped" in line]
    assert len(warnings) == 2, f"one for each reason: {g.stderr()}"
    assert g.alive()


def test_c36_requests_with_a_bom(gateway):
    g = gateway()
    call = '{"jsonrpc":"2.0","id":7,"method":"ping"}'
    assert g.ask(b"\xef\xbb\xbf" + call.encode())["id"] == 7
    for data in (b"\xff\xfe" + call.encode(UTF16), call.encode(UTF16)):
        error = g.ask(data)["error"]
        assert error["code"] == -32700 and error["data"]["kind"] == "BAD_REQUEST", error
        assert "UTF-16" in error["message"] and "UTF-8" in error["message"]
    assert g.request("ping") is not None


def test_requests_that_are_wrong_get_their_code(gateway):
    g = gateway()
    for frame, code in ((b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"2.0","method":"ping"}', -32600),
                        (b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601),
                        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
                        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"banana":1}}', -32602)):
        error = g.ask(frame)["error"]
        assert error["code"] == code and error["data"]["kind"], (frame, error)
    with pytest.raises(RpcError):
        g.request("log.flush", banana=1)
    hello = g.request("hello")
    assert hello["protocol"] == 1 and hello["pid"] == g.process.pid
    assert hello["endpoints"]["logs"] == g.endpoints["logs"]


def test_c37_size_limit(gateway):
    """At the soft limit a message is whole; above it it is dropped, counted, and told once."""
    g = gateway()
    limit = 1 << 20
    emoji = "😀".encode()
    g.send(b"x" * limit, b"x" * (limit + 1), b"x" * (3 << 20), b"y" * (limit - 4) + emoji, b"z" * (limit - 2) + emoji, b"last")
    stats = g.settle(6)
    texts = g.texts()
    assert [(t[0], len(t)) for t in texts] == [("x", limit), ("y", limit - 3), ("l", 4)]
    assert texts[1].endswith("y😀")
    assert stats.dropped_for("large|size") == 3 == stats.dropped
    told = [line for line in g.stderr().splitlines() if "dropped" in line]
    assert len(told) == 1 and "127.0.0.1" in told[0] and str(limit + 1) in told[0] and "max_text" in told[0], g.stderr()


@pytest.mark.timeout(900)
def test_fifty_producers_with_kills(gateway, producers, tmp_path):
    """pyzmq with one frame, two frames and UTF-16, the C load and NetMQ, fifty at a time, single ones killed and
    started again: counts add up, no line is torn or comes twice, and who ended normally is there whole."""
    load = c_push()
    script = shared("clients", "push_log.ps1")
    g = gateway(log=[{"path": "gateway.log", "rotate": {"size": "8MiB", "compress": True}}])
    logs = g.endpoints["logs"]
    choose = random.Random(4)
    seconds = 4 if QUICK else 20
    names = (f"p{n}" for n in range(10_000))
    forms = ["utf8"] * 24 + ["topic"] * 8 + ["utf16"] * 4
    python = [producers(logs, next(names), form=form, rate=choose.choice([200, 500, 1000])) for form in forms]
    native = []      # (process, size, count): the length of its lines tells one run of the C load from the others
    whole = {}       # size -> count of runs that ended by themselves
    sizes = iter(range(64, 100_000))
    netmq_texts = [[payload(f"n{k}", n) for n in range(150)] for k in range(2)]
    netmq = [subprocess.Popen([pwsh(), "-NoProfile", "-Command", f"& '{script}' '{logs}' {ps_strings(texts)}"]) for texts in netmq_texts]
    full = {}        # name -> count of producers that ended normally
    form_of = dict(zip((p.name for p in python), forms))
    kills = 0
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            started = 0
            for slot in list(native):
                process, size, count = slot
                if process.poll() is not None:
                    assert process.returncode == 0
                    whole[size] = count
                    native.remove(slot)
            while len(native) < 12 and started < 2:
                size, count = next(sizes), choose.choice([300, 300, 300, 10_000])
                native.append((subprocess.Popen([load, logs, str(count), str(size)]), size, count))
                started += 1
            if choose.random() < 0.3:
                at = choose.randrange(len(python))
                if choose.random() < 0.7:
                    python[at].kill()
                    kills += 1
                else:
                    full[python[at].name] = python[at].finish()
                form = forms[at]
                python[at] = producers(logs, next(names), form=form, rate=500)
                form_of[python[at].name] = form
            long_runs = [slot for slot in native if slot[2] > 300]
            if long_runs and choose.random() < 0.2:
                slot = choose.choice(long_runs)
                if slot[0].poll() is None:
                    slot[0].kill()
                    slot[0].wait()
                    native.remove(slot)
                    kills += 1
            time.sleep(0.05)
        for one in python:
            one.process.terminate()
        for one in python:
            full[one.name] = one.sent()
        for process, size, count in native:
            assert process.wait(60) == 0
            whole[size] = count
        for one in netmq:
            assert one.wait(120) == 0
    finally:
        for process in [*(slot[0] for slot in native), *netmq]:
            if process.poll() is None:
                process.kill()
    # Everything sent by those who ended normally has been handed over; wait until nothing more comes in.
    known = sum(full.values()) + sum(whole.values()) + sum(map(len, netmq_texts))
    wait_for("all complete producers received", lambda: g.stats().received >= known)
    seen = -1
    while seen != (seen := g.stats().received):
        time.sleep(0.5)
    stats = g.settle(seen)
    assert stats.dropped == 0, stats.reasons
    g.stop()

    records = [r for r in parse(g.log_text()) if r["host"] == "127.0.0.1"]
    assert len(records) == stats.written
    by_size, numbered = {}, []
    for record in records:
        match = re.fullmatch(r"INFO seq=(\d{10}) x*", record["text"])
        if match:
            numbers = by_size.setdefault(len(record["text"]), [])
            assert not numbers or int(match[1]) > numbers[-1]
            numbers.append(int(match[1]))
        else:
            numbered.append(record)
    for record in numbered:
        name = record["text"].split(" ", 1)[0]
        if form_of.get(name) == "topic":
            assert (record["level"].strip(), record["source"]) == ("WARN", f"load.{name}")
    found = sequences(record["text"] for record in numbered)
    for size, count in whole.items():
        assert by_size[size] == list(range(count)), f"C load of {size} bytes"
    for name, count in full.items():
        assert found.get(name, []) == list(range(count)), f"{name} sent {count}, {len(found.get(name, []))} are there"
    for k, texts in enumerate(netmq_texts):
        assert found[f"n{k}"] == list(range(len(texts)))
    assert kills > (0 if QUICK else 5)
