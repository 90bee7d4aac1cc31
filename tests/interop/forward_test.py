"""What the tests of forwarders share: a publisher that counts, subscribers that know when they have everything."""
import contextlib
import re
import threading
import time
import uuid

import pytest
import zmq

from hwgate_test import WATCHDOG, wait_for

ANY_PORT = "tcp://127.0.0.1:0"
MARK = b"~mark/"
MARK_BYTES = len(MARK + uuid.uuid4().hex.encode() + b"mark")


def table(*more, **settings):
    """A `[[forward]]` with an input, an output and the endpoints named in `more`."""
    return {key: ANY_PORT for key in ("input", "output", *more)} | settings


class Forward:
    """A running forwarder, a publisher at its input, and the number of messages that all publishers sent to it."""

    def __init__(self, gateway, id="main"):
        self.gateway, self.id, self.sent = gateway, id, 0
        self.publish = self.publisher()

    def endpoint(self, key):
        return self.gateway.printed[f"forward.{self.id}.{key}"]

    def publisher(self):
        """An XPUB socket, which is told when the forwarder has subscribed, and waits where PUB would drop."""
        pub = self.gateway.socket(zmq.XPUB)
        pub.xpub_nodrop = True
        pub.sndtimeo = pub.rcvtimeo = int(WATCHDOG * 1000)
        pub.connect(self.endpoint("input"))
        assert pub.recv() == b"\x01"
        return pub

    def send(self, *messages):
        for frames in messages:
            self.publish.send_multipart(frames)
            self.sent += 1

    def load(self, first, count, topic=b"load", size=0):
        """Sends messages with the numbers from `first` on."""
        for n in range(first, first + count):
            self.send([topic, (b"%08d" % n).ljust(size)])

    def stats(self):
        """The counts, which add up at any moment."""
        [stats] = self.gateway.request("forward.stats", id=self.id)["forwards"]
        assert stats["in"] == stats["out"] + sum(stats["dropped"].values()), stats
        return stats

    def settled(self):
        """The counts when all that was sent has come in."""
        wait_for(f"{self.sent} in", lambda: self.stats()["in"] >= self.sent)
        stats = self.stats()
        assert stats["in"] == self.sent, (self.sent, stats)
        return stats

    def logged(self):
        """The counts when all that was sent is in the log files too."""
        self.settled()
        stats = wait_for("nothing pending", lambda: (now := self.stats())["log"]["pending"] == 0 and now)
        self.gateway.request("log.flush")
        return stats

    def told(self, pattern):
        """The numbers in the lines that the gateway itself wrote into the log about this forwarder."""
        texts = self.gateway.texts("hwgate", "hwgate.log")
        return [int(match[1]) for text in texts if (match := re.fullmatch(f"forward {self.id}: {pattern}", text))]


class Subscriber:
    """A plain SUB socket at a forwarder. `taken` counts what it has received, with the marks by which it finds out that
    it has received everything before."""

    def __init__(self, forward, *topics, key="output", hwm=0, rcvbuf=None):
        self.forward, self.taken = forward, 0
        self.at = 1 if key == "monitor" else 0
        self.socket = forward.gateway.socket(zmq.SUB)
        self.socket.rcvhwm, self.socket.rcvtimeo = hwm, int(WATCHDOG * 1000)
        if rcvbuf:
            self.socket.rcvbuf = rcvbuf
        self.socket.connect(forward.endpoint(key))
        for topic in topics or (b"",):
            self.socket.subscribe(topic)
        assert self.rest() == []

    def receive(self):
        frames = self.socket.recv_multipart()
        self.taken += 1
        return frames

    def next(self):
        """The next message that is no mark."""
        while (frames := self.receive())[self.at].startswith(MARK):
            pass
        return frames

    def take(self, count):
        return [self.next() for _ in range(count)]

    def until(self, count):
        """Receives until `taken` is this number; gives those that are no marks."""
        found = [self.receive() for _ in range(count - self.taken)]
        return [frames for frames in found if not frames[self.at].startswith(MARK)]

    def rest(self):
        """Everything that was sent before this was called; its subscriptions are then in force. Marks are sent until one
        comes, since a subscriber that was too slow or has just connected misses some."""
        mark = MARK + uuid.uuid4().hex.encode()
        self.socket.subscribe(mark)
        found, end = [], time.monotonic() + WATCHDOG
        while time.monotonic() < end:
            self.forward.send([mark, b"mark"])
            while self.socket.poll(20) and time.monotonic() < end:
                frames = self.receive()
                if frames[self.at] == mark:
                    return found
                if not frames[self.at].startswith(MARK):
                    found.append(frames)
        pytest.fail(f"no mark came within {WATCHDOG:.0f} s, but {len(found)} messages")


def numbered(first, count, topic=b"load", size=0):
    """What `Forward.load` sends."""
    return [[topic, (b"%08d" % n).ljust(size)] for n in range(first, first + count)]


def numbers(messages):
    return [int(frames[-1]) for frames in messages]


@contextlib.contextmanager
def again_and_again(act, at_least):
    """Calls `act(n)` from a thread of its own, in a list of one number, how often, until the block ends. It begins when
    that was done `at_least` times."""
    times, going, failed = [0], threading.Event(), []

    def run():
        try:
            while not going.is_set():
                act(times[0])
                times[0] += 1
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        wait_for("a beginning", lambda: failed or times[0] >= at_least)
        yield times
    finally:
        going.set()
        thread.join(WATCHDOG)
    assert not failed and not thread.is_alive(), failed
