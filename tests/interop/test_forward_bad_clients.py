"""Clients of a forwarder that read nothing, send what nobody wants, or never stop (CASES C65): the others get their
messages, and what the bad one itself lost is counted."""
import socket
import struct
import threading

import pytest
import zmq

from forward_test import Forward, Subscriber, again_and_again, numbered, numbers, table
from hwgate_test import QUICK, WATCHDOG, wait_for
from test_events import call
from test_junk import closed, raw_peer


def port(f, key):
    return int(f.endpoint(key).rsplit(":", 1)[1])


def monitor_that_never_reads(gateway):
    f = Forward(gateway(forward=[table("monitor", monitor_hwm=10)]))
    monitor = Subscriber(f, b"in", key="monitor", hwm=10, rcvbuf=4096)
    sub = Subscriber(f, b"load")
    count = 1000 if QUICK else 4000
    f.load(0, count, size=20_000)
    assert sub.take(count) == numbered(0, count, size=20_000) and sub.rest() == []
    shown = f.settled()["monitor"]
    assert 0 < shown["lost"] < count < shown["out"], shown
    left = numbers(monitor.until(shown["out"] - shown["lost"]))
    assert left == sorted(set(left)) and left[0] == 0
    assert monitor.rest() == [], "got and lost are all"


def state_client_that_reads_no_reply(gateway):
    f = Forward(gateway(forward=[table("state")]))
    dealer = f.gateway.socket(zmq.DEALER)
    dealer.rcvhwm, dealer.rcvbuf, dealer.sndtimeo = 1, 4096, int(WATCHDOG * 1000)
    dealer.connect(f.endpoint("state"))
    # 100,000 replies wait for one client at most.
    beside(f, lambda n: dealer.send_multipart([b"", call("forward.stats", n)]), times=150_000, megabytes=256)
    assert f.gateway.request_at(f.endpoint("state"), "forward.stats") is not None


def subscriber_that_only_subscribes(gateway):
    f = Forward(gateway(forward=[table()]))
    xsub = f.gateway.socket(zmq.XSUB)
    xsub.connect(f.endpoint("output"))

    def act(n):
        xsub.send(b"\x01other/%d" % n)
        xsub.send(b"\x00other/%d" % (n - n % 3))

    beside(f, act)


def subscriber_that_sends_messages(gateway):
    f = Forward(gateway(forward=[table()]))
    xsub = f.gateway.socket(zmq.XSUB)
    xsub.connect(f.endpoint("output"))
    beside(f, lambda n: xsub.send_multipart([b"upstream", b"x" * 1000][:1 + n % 2]))


def beside(f, act, times=50_000, megabytes=64):
    """Messages pass while a client does something so many times."""
    sub = Subscriber(f, b"load")
    before, sent = f.gateway.rss(), 0
    with again_and_again(act, 1000) as done:
        while sent < 10_000 or done[0] < (times // 10 if QUICK else times):
            f.load(sent, 1000)
            assert sub.take(1000) == numbered(sent, 1000)
            sent += 1000
    assert sub.rest() == [] and f.settled()["lost"] == 0
    assert f.gateway.rss() - before < megabytes << 20, "memory stays bounded"


def stuck_subscribers_of_another_topic(gateway):
    f = Forward(gateway(forward=[table(send_hwm=1000, send_wait="200ms")]))
    others = [Subscriber(f, b"other", hwm=10, rcvbuf=4096) for _ in range(2)]
    sub = Subscriber(f, b"load")
    count = 4_000 if QUICK else 10_000
    for n in range(0, count, 1000):
        f.load(n, 1000)
        f.load(n, 1000, topic=b"other", size=5000)
    assert sub.take(count) == numbered(0, count) and sub.rest() == []
    stats = f.settled()
    assert 0 < stats["dropped"]["slow"] <= stats["lost"] <= 2 * stats["dropped"]["slow"] and stats["waits"] >= 1, stats
    left = [numbers(other.rest()) for other in others]
    assert all(got == sorted(set(got)) and got[0] == 0 for got in left)
    assert sum(map(len, left)) + stats["lost"] == 2 * count, (*map(len, left), stats)


@pytest.mark.parametrize("bad", [monitor_that_never_reads, state_client_that_reads_no_reply, subscriber_that_only_subscribes,
                                 subscriber_that_sends_messages, stuck_subscribers_of_another_topic], ids=lambda bad: bad.__name__)
def test_c65_no_client_stops_the_others(gateway, bad):
    """Whatever one client leaves unread or sends without need, at any of the endpoints: a subscriber that reads gets
    everything, in order, and what the bad one itself lost is counted."""
    bad(gateway)


def test_c65_connections_by_the_thousand_while_the_forwarder_waits(gateway):
    """The forwarder counts its peers by libzmq's socket monitor, which stops all sockets of a process when nobody reads
    it. While its thread waits for a slow subscriber 3,000 connections come and go: everything else goes on meanwhile,
    nothing is lost, and afterwards the counts of peers are right."""
    g = gateway(forward=[table("state", send_hwm=10, send_wait="50s")])
    f = Forward(g)
    stuck = Subscriber(f, b"load", hwm=10, rcvbuf=4096)
    count = 300
    f.load(0, count, size=100_000)
    for n in range(3000):
        with socket.create_connection(("127.0.0.1", port(f, "input")), timeout=20) as junk:
            junk.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", b"\x01\x00" + b"x" * 100)[n % 3])
    for endpoint in (g.endpoints["commands"], f.endpoint("state")):
        assert g.request_at(endpoint, "ping") is not None
    g.send("a line")
    g.settle(1)
    assert f.stats()["in"] < f.sent, "all of this while it waited"
    assert stuck.take(count) == numbered(0, count, size=100_000) and stuck.rest() == []
    stats = f.settled()
    assert (stats["lost"], stats["waits"] >= 1) == (0, True), stats
    second = f.publisher()
    assert wait_for("peers", lambda: (now := f.stats())["publishers"] == 2 and now)["subscribers"] == 1
    second.close()
    wait_for("one publisher", lambda: f.stats()["publishers"] == 1)


@pytest.mark.parametrize("frames, megabytes", [
    pytest.param(b"\x02" + struct.pack(">Q", 1000) + b"u" * 1000, 500, id="messages"),
    pytest.param(b"\x00\x0b\x01topic/0000\x00\x0b\x00topic/0000", 30, id="subscriptions"),
])
@pytest.mark.parametrize("key", ["output", "monitor"])
def test_c65_a_subscriber_that_sends_without_end(gateway, key, frames, megabytes):
    """It sends as fast as the gateway takes it. Messages pass meanwhile, and what nobody reads is not kept in memory. The
    gateway may also close its connection."""
    g = gateway(forward=[table("monitor")])
    f = Forward(g)
    sub = Subscriber(f, b"load")
    before = g.rss()
    block = frames * (1_000_000 // len(frames))
    cut = []

    def flood(peer):
        try:
            for _ in range(megabytes):
                peer.sendall(block)
        except ConnectionError as error:
            cut.append(error)

    rounds = 0
    with raw_peer(port(f, key), b"XSUB") as peer:
        thread = threading.Thread(target=flood, args=[peer])
        thread.start()
        while thread.is_alive() and rounds < 50:
            f.load(rounds * 1000, 1000)
            assert sub.take(1000) == numbered(rounds * 1000, 1000)
            rounds += 1
        peak = g.rss()
        was_cut = bool(cut)
        # What it has not got rid of by now is not waited for.
        peer.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert was_cut or rounds >= 3, f"it held up the others: {rounds} thousand messages passed until it ended"
    assert f.settled()["lost"] == 0
    assert peak - before < 64 << 20, f"memory stays bounded, not {peak - before:,} bytes more"


def test_c65_nobody_ends_the_subscription_of_another(gateway):
    """Unsubscriptions of what the sender never subscribed to, which libzmq tells like any other, and a subscription within
    a message: those who did subscribe go on hearing everything."""
    f = Forward(gateway(forward=[table("monitor")]))
    sub, monitor = Subscriber(f, b"load"), Subscriber(f, b"in", key="monitor")
    bad = [b"\x00\x03\x00in", b"\x00\x05\x00load", b"\x00\x06\x00never", b"\x01\x01x" + b"\x00\x02\x01t" + b"\x00\x02\x00t"]
    for key in ("monitor", "output"):
        with raw_peer(port(f, key), b"XSUB") as peer:
            peer.sendall(b"".join(bad) * 5)
            if key == "output":
                wait_for("it to be seen", lambda: f.stats()["subscribers"] == 2)
            peer.shutdown(socket.SHUT_WR)
            closed(peer)
    # The forwarder looks at both sockets when it counts.
    wait_for("it to be gone", lambda: f.stats()["subscribers"] == 1)
    f.load(0, 100)
    assert sub.take(100) == numbered(0, 100)
    assert wait_for("the monitor to show it", lambda: monitor.socket.poll(0), seconds=10)
    assert monitor.take(100) == [[b"in", *frames] for frames in numbered(0, 100)]
