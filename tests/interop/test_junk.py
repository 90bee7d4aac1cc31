"""What is not ZeroMQ, or too large: it costs little, becomes no line, and stops nobody else."""
import random
import socket
import struct
import time

import pytest

from hwgate_test import wait_for

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31


def raw_push(port):
    return raw_peer(port, b"PUSH")


def raw_peer(port, kind):
    """A hand-made peer of some socket type after its handshake."""
    ready = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    s.sendall(GREETING)
    got = b""
    while len(got) < 64:
        got += s.recv(4096)
    s.sendall(b"\x04" + bytes([len(ready)]) + ready)
    return s


def closed(s):
    """Waits until the peer has closed the connection."""
    s.settimeout(60)
    try:
        while s.recv(65536):
            pass
    except ConnectionError:
        pass


def test_c33_too_large(gateway):
    """Above the soft limit a message is dropped and counted, its neighbours stay; what is announced is not allocated."""
    g = gateway()
    g.send("warm-up")
    g.settle(1)
    before = g.rss()
    for announced in (1 << 62, (16 << 20) + 1, (1 << 64) - 1):
        with raw_push(g.port("logs")) as s:
            s.sendall(b"\x02" + struct.pack(">Q", announced) + b"x" * 1000)
            closed(s)
    assert g.rss() - before < 2 << 20
    g.send("ten bytes.", b"x" * (5 << 20), "ten again.")
    stats = g.settle(4)
    assert g.texts() == ["warm-up", "ten bytes.", "ten again."]
    assert stats.dropped_for("large|size") == 1 == stats.dropped
    g.send(*(b"x" * (5 << 20) for _ in range(20)))
    g.settle(24)
    assert g.rss() - before < 64 << 20, "memory stays bounded"


@pytest.mark.parametrize("nofile", [1024, None], ids=["1024-files", "files-as-here"])
def test_c34_junk(gateway, nofile):
    """HTTP, zeros, ones, random bytes and 2000 idle connections on every port; then a good client works at once.

    1024 descriptors is what a service gets by default: the program raises its own limit, or bounds what it takes."""
    g = gateway(nofile=nofile)
    ports = [g.port(name) for name in ("logs", "commands")]
    rand = random.Random(7)
    junk = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 64, b"\xff" * 4000, b"\x16\x03\x01" + b"\0" * 200]
    junk += [rand.randbytes(2000) for _ in range(12)]
    junk += [GREETING[:n] for n in (1, 10, 11, 63)] + [GREETING + b"\x04\x00", GREETING + b"\x06" + b"\xff" * 8]
    # ZMTP 1 and 2 peers that are correct, but cannot prove anything.
    junk += [b"\x01\x00" + b"\x06\x00hello", b"\xff" + b"\0" * 8 + b"\x7f\x01\x08\x00\x00" + b"\x00\x05hello"]
    open_ones = []
    try:
        for port in ports:
            for data in junk:
                s = socket.create_connection(("127.0.0.1", port), timeout=20)
                open_ones.append(s)
                try:
                    s.sendall(data)
                except ConnectionError:
                    pass
        for n in range(2000):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", ports[n % 2]))
            open_ones.append(s)
        start = time.monotonic()
        g.send("good")
        wait_for("the good line", lambda: "good" in g.texts())
        took = time.monotonic() - start
        assert g.request("ping") is not None
        assert took < 4, f"a good client waited {took:.1f} s beside idle ones"
    finally:
        for s in open_ones:
            s.close()
    stats = g.settle(1)
    assert stats.dropped == 0 and g.texts() == ["good"]
    assert [r["host"] for r in g.records() if r["source"] == "logs"] == ["127.0.0.1"]


def test_c34_one_bad_peer_does_not_hold_up_others(gateway):
    """A peer that stops in the middle of a message, for the whole test, and one that never reads its reply."""
    g = gateway()
    with raw_push(g.port("logs")) as half:
        half.sendall(b"\x02" + struct.pack(">Q", 1000) + b"only half")
        for n in range(50):
            g.send(f"good {n}")
        g.settle(50)
    assert sorted(g.texts()) == sorted(f"good {n}" for n in range(50))
