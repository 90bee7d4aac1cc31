"""Forwarders as plain ZeroMQ programs use them: what publishers send comes to the subscribers, whole and in order, and
every message is counted as passed on or as dropped. What bad clients do is in test_forward_bad_clients.py."""
import contextlib
import json
import random
import re
import socket
import subprocess
import sys

import pytest
import zmq

from forward_test import ANY_PORT, MARK_BYTES, Forward, Subscriber, again_and_again, numbered, numbers, table
from hwgate_test import EX_CONFIG, QUICK, WATCHDOG, RpcError, end_by_itself, free_port, recv_event, shared, wait_for
from test_events import recv_json
from test_ports import refused

BY_SOURCE = [{"path": "{source}.log"}]
MANY = 50_000 if QUICK else 500_000


def run_client(f):
    """`forward_client.py` as it is: what it sent, and its first line."""
    script = shared("clients", "forward_client.py")
    done = subprocess.run([sys.executable, str(script), str(MANY), f.endpoint("state"), f.endpoint("input")],
                          capture_output=True, text=True, timeout=2 * WATCHDOG)
    assert done.returncode == 0, done
    f.sent += MANY
    assert done.stdout.splitlines()[0] == "[b'OK', b'logTestV1']"
    return [f"日志写入测试日志写入测试:{n}" for n in range(MANY)]


def log_has(g, name, texts):
    """A log file has these texts, in this order and nothing else; compared without a copy of half a million lines in
    the report."""
    found = [(line["source"], line["level"].strip(), line["text"]) for line in g.records(pattern=f"{name}.log")]
    wanted = [(name, "INFO", text) for text in texts]
    wrong = next((n for n, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), None)
    assert wrong is None and len(found) == len(wanted), (len(found), len(wanted), wrong is not None and found[wrong])


def has(messages, texts, before=()):
    """Messages of topic logTestV1 with these texts, in this order."""
    assert len(messages) == len(texts)
    wrong = next((n for n, text in enumerate(texts) if messages[n] != [*before, b"logTestV1", f"{text}\n".encode()]), None)
    assert wrong is None, (wrong, messages[wrong], texts[wrong])


def test_forward_client_loses_nothing_at_subscriber_log_and_monitor(gateway):
    """The users' producer as it is, registration and half a million messages: each comes to the subscriber, to the
    monitor and into the log file of its topic, once, in order, unchanged, and all counts say so."""
    g = gateway(log=BY_SOURCE, forward=[table("state", "monitor", journal=True, monitor_hwm=1_000_000)])
    f = Forward(g)
    sub, monitor = Subscriber(f, b"logTestV1"), Subscriber(f, b"in", key="monitor")
    texts = run_client(f)
    has(sub.take(MANY), texts)
    has(monitor.take(MANY), texts, before=[b"in"])
    assert sub.rest() == monitor.rest() == []
    stats = f.logged()
    log_has(g, "logTestV1", texts)
    assert stats["out"] == f.sent and stats["dropped"] == {"slow": 0, "paused": 0} and stats["lost"] == 0, stats
    size = sum(len(f"logTestV1{text}\n".encode()) for text in texts)
    assert stats["in_bytes"] == size + MARK_BYTES * (f.sent - MANY), stats
    assert stats["monitor"]["lost"] == 0 and monitor.until(stats["monitor"]["out"]) == [], "no more than it showed"
    assert not monitor.socket.poll(0)
    assert (stats["registered"], stats["registrations"]) == ({"logTestV1": 1}, 1), stats
    assert stats["log"]["received"] == stats["log"]["written"] == f.sent and not any(stats["log"]["dropped"].values()), stats
    wait_for("its connection to be closed", lambda: f.stats()["publishers"] == 1)
    assert stats["subscribers"] == 1 and not stats["paused"] and stats["id"] == "main", stats


def test_a_stuck_subscriber_costs_nobody_else_a_message(gateway):
    """A subscriber that reads nothing holds up everyone once, for a second at most, and then loses messages: exactly as
    many as are counted, told as an event and in the log. The other one and the log have them all."""
    g = gateway(log=BY_SOURCE, forward=[table("state", journal=True, send_hwm=20_000)])
    f = Forward(g)
    events = g.subscribe("forward/main/state/")
    sub, stuck = Subscriber(f, b"logTestV1"), Subscriber(f, b"logTestV1", hwm=10, rcvbuf=4096)
    texts = run_client(f)
    has(sub.take(MANY), texts)
    stats = f.logged()
    slow = stats["dropped"]["slow"]
    assert 0 < slow == stats["lost"] < MANY and stats["dropped"]["paused"] == 0 and stats["waits"] >= 1, stats
    log_has(g, "logTestV1", texts)
    left = stuck.take(MANY - slow)
    number = {f"{text}\n".encode(): n for n, text in enumerate(texts)}
    got = [number[text] for _, text in left]
    assert got == sorted(set(got)) and got[:20_000] == list(range(20_000)), "the first are not lost, none comes twice"
    assert stuck.rest() == [], "got and lost are all"
    assert sub.rest() == []
    # Of the marks it may have lost some too.
    slow = f.settled()["dropped"]["slow"]
    pattern = r"(\d+) messages were not passed on to subscribers that were too slow"
    wait_for("all in the log", lambda: sum(f.told(pattern)) == slow)
    first = recv_event(events)
    assert (first.payload, first.header["state"]) == (b"slow", "slow") and 0 < first.header["dropped"] <= slow, first
    told = 0
    while told < slow:
        event = recv_event(events)
        told += event.header["dropped"] if event.payload == b"running" else 0
    stats = f.stats()
    assert told == slow == stats["dropped"]["slow"] == stats["lost"], (told, stats)


def steady_endpoint():
    """A free port that the system gives no outgoing connection. While nobody listens, a client that tries again and
    again at one of those would sooner or later be connected to itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return f"tcp://127.0.0.1:{port}"


def test_c64_each_subscriber_gets_its_own_topic_also_after_a_restart(gateway):
    """A hundred topics, one subscriber each. The gateway ends and starts again on the same ports; publisher and
    subscribers know nothing of it, and get and give what they did before."""
    g = gateway(forward=[table(input=steady_endpoint(), output=steady_endpoint())])
    topics = [b"topic-%03d/" % n for n in range(100)]
    pub = g.socket(zmq.PUB)
    pub.sndhwm = 0
    pub.connect(g.forward[0]["input"])
    subs = {topic: g.socket(zmq.SUB) for topic in topics}
    for topic, sub in subs.items():
        sub.rcvtimeo = int(WATCHDOG * 1000)
        sub.connect(g.forward[0]["output"])
        sub.subscribe(topic)

    def exchange(run):
        waiting = set(topics)

        def hello():
            for topic in waiting:
                pub.send_multipart([topic, b"hello"])
            waiting.difference_update([topic for topic in waiting if subs[topic].poll(0)])
            return not waiting

        wait_for("all to be connected", hello, step=0.05)
        for n in range(20):
            for topic in random.sample(topics, len(topics)):
                pub.send_multipart([topic, b"%s %d" % (run, n)])
        for topic, sub in subs.items():
            while (got := sub.recv_multipart()) == [topic, b"hello"]:
                pass
            assert [got, *(sub.recv_multipart() for _ in range(19))] == [[topic, b"%s %d" % (run, n)] for n in range(20)]

    exchange(b"first")
    g.stop()
    g.start()
    exchange(b"second")
    for topic, sub in subs.items():
        pub.send_multipart([topic, b"end"])
        assert sub.recv_multipart() == [topic, b"end"], "nothing else was left"


@pytest.mark.parametrize("at", ["commands", "state"])
def test_while_paused_nothing_passes_and_all_is_counted(gateway, at):
    """From the reply to pause until that to resume every message is counted and shown by the monitor, but neither passed
    on nor logged; the log then says how many they were."""
    g = gateway(log=BY_SOURCE, forward=[table("state", "monitor", journal=True)])
    f = Forward(g)
    sub, monitor = Subscriber(f, b"load"), Subscriber(f, b"in", key="monitor")
    events = g.subscribe("forward/main/state/")
    ask = {"commands": g.request, "state": lambda method, **params: g.request_at(f.endpoint("state"), method, **params)}[at]
    f.load(0, 1000)
    f.settled()
    for _ in range(2):
        assert ask("forward.pause") == {"id": "main", "paused": True}
    assert recv_event(events).payload == b"paused"
    f.load(1000, 500)
    stats = f.settled()
    assert stats["dropped"] == {"slow": 0, "paused": 500} and stats["paused"], stats
    assert ask("forward.stats", id="main")["forwards"][0]["dropped"]["paused"] == 500
    for _ in range(2):
        assert ask("forward.resume", id="main") == {"id": "main", "paused": False}
    f.load(1500, 1000)
    passed = numbered(0, 1000) + numbered(1500, 1000)
    assert sub.take(2000) == passed and sub.rest() == []
    assert monitor.take(2500) == [[b"in", *frames] for frames in numbered(0, 2500)]
    wait_for("the line in the log", lambda: f.told(r"(\d+) messages were dropped while paused") == [500])
    f.logged()
    assert [text.encode() for text in g.texts("load", "load.log")] == [text for _, text in passed]
    stats = f.stats()
    assert stats["dropped"] == {"slow": 0, "paused": 500} and not stats["paused"], stats
    assert recv_event(events).payload == b"running", "paused twice is told once"
    ask("forward.pause")
    assert recv_event(events).payload == b"paused"


@pytest.mark.parametrize("endless", [False, True], ids=["all-is-sent", "while-more-comes"])
def test_what_came_in_before_the_end_goes_out(gateway, endless):
    """SIGTERM right behind a hundred thousand messages, or in the middle of an endless stream: within five seconds the
    program is gone, and what it counted as come in is with the subscriber and in the log, without a gap."""
    g = gateway(log=BY_SOURCE, forward=[table(journal=True)])
    f = Forward(g)
    sub = Subscriber(f, b"load")
    marks = f.settled()["in"]
    f.publish.sndtimeo = 100 if endless else f.publish.sndtimeo

    def one(n):
        """Without a gateway the publisher's queue fills, and nobody takes more."""
        while g.alive():
            with contextlib.suppress(zmq.Again):
                return f.load(n, 1)

    with again_and_again(one, 5000) if endless else contextlib.nullcontext():
        if not endless:
            f.load(0, MANY // 5)
        took = g.stop()
    assert took < 5
    last = re.findall(r"forward main: (\d+) in, (\d+) out, (\d+) lost to slow subscribers, (\d+) while paused", g.stderr())
    [(came, out, lost, paused)] = [[int(number) for number in line] for line in last]
    assert came == out and lost == paused == 0
    count = came - marks
    assert count >= 5000 if endless else came == f.sent
    assert sub.take(count) == numbered(0, count) and not sub.socket.poll(0)
    assert [int(text) for text in g.texts("load", "load.log")] == list(range(count))


def test_the_end_costs_a_subscriber_nothing_because_another_is_stuck(gateway):
    """SIGTERM while everyone waits for a subscriber that reads nothing: within five seconds the program is gone, and the
    other subscriber and the log have all that waited meanwhile."""
    g = gateway(log=BY_SOURCE, forward=[table(journal=True, send_hwm=1000, send_wait="50s")])
    f = Forward(g)
    Subscriber(f, b"stuck", hwm=10, rcvbuf=4096)
    sub = Subscriber(f, b"load")
    f.load(0, 3000, topic=b"stuck", size=10_000)
    count = 20_000
    f.load(0, count)
    assert g.stop() < 5
    [(came, slow)] = [(int(a), int(b)) for a, b in re.findall(r"(\d+) in, \d+ out, (\d+) lost to slow subscribers", g.stderr())]
    texts = [int(text) for text in g.texts("load", "load.log")]
    assert came == f.sent and texts == list(range(count)) and 0 < slow < 3000, (came, f.sent, len(texts), slow)
    assert sub.take(count) == numbered(0, count)


def test_every_message_passes_with_the_frames_it_had(gateway):
    """One frame, many, empty ones, two megabytes, every byte: subscriber and monitor get what was sent. In the log are
    those of one and two frames, by the rules of the log endpoint, and the others are counted."""
    g = gateway(forward=[table("monitor", id="fleet", journal=True)])
    f = Forward(g, "fleet")
    every = bytes(range(256))
    records = {  # what is logged, as level, source and text
        (b"one frame",): ("INFO", "fleet", "one frame"),
        (b"ERROR disk",): ("ERROR", "fleet", "ERROR disk"),
        ("Grüße 😀".encode("utf-16-le"),): ("INFO", "fleet", "Grüße 😀"),
        (b"app.WARNING.db", b"hot"): ("WARN", "app.db", "hot"),
        (b"app.door", "offen: ü".encode("utf-16-le")): ("INFO", "app.door", "offen: ü"),
        (b"", b"no topic"): ("INFO", "fleet", "no topic"),
        (b"all", every): ("INFO", "all", None),
    }
    dropped = {
        "frames": [(b"five", b"", every, b"", b"e"), (b"", b"", b""), (b"x",) * 1000],
        "empty": [(b"",), (b"", b""), (b"topic", b"")],
        "too_large": [(b"big", random.randbytes(2 << 20))],
    }
    messages = [[*frames] for frames in (*records, *(frames for some in dropped.values() for frames in some))]
    random.shuffle(messages)
    sub, monitor = Subscriber(f), Subscriber(f, key="monitor")
    f.send(*messages)
    assert sub.rest() == messages
    assert monitor.rest() == [[b"in", *frames] for frames in messages]
    stats, marks = f.logged(), f.sent - len(messages)
    log = stats["log"]
    assert {reason: n for reason, n in log["dropped"].items() if n} == {reason: len(some) for reason, some in dropped.items()}, log
    assert log["written"] == len(records) + marks and log["received"] == f.sent, log
    assert stats["in_bytes"] == sum(len(b"".join(frames)) for frames in messages) + marks * MARK_BYTES, stats
    found = [(line["level"].strip(), line["source"], line["text"]) for line in g.records() if line["text"] != "mark"]
    wanted = [records[tuple(frames)] for frames in messages if tuple(frames) in records]
    assert [line[:2] for line in found] == [line[:2] for line in wanted]
    assert all(text == line[2] for line, (_, _, text) in zip(found, wanted) if text is not None)


def test_requests_that_are_wrong_get_their_code(gateway):
    """An unknown forwarder, none where there are two, another one's endpoint, foreign methods and junk."""
    g = gateway(forward=[table("state", id="one"), table("state", id="two")])
    state = g.printed["forward.one.state"]

    def refused_at(endpoint, method, **params):
        with pytest.raises(RpcError) as error:
            g.request_at(endpoint, method, **params)
        return error.value.code, error.value.kind, error.value.message

    for method in ("forward.stats", "forward.pause", "forward.resume"):
        code, kind, message = refused_at(g.endpoints["commands"], method, id="three")
        assert kind == "NOT_FOUND" and '"three"' in message and "one, two" in message, message
        code, kind, message = refused_at(state, method, id="two")
        assert kind == "NOT_FOUND" and '"one"' in message and '"two"' in message, message
        assert refused_at(g.endpoints["commands"], method, id=1)[:2] == (-32602, "INVALID_ARGUMENT")
    for method in ("forward.pause", "forward.resume"):
        code, kind, message = refused_at(g.endpoints["commands"], method)
        assert (code, kind) == (-32602, "INVALID_ARGUMENT") and "id is missing" in message and "one, two" in message
    assert refused_at(g.endpoints["commands"], "forward.stats", ids="one")[0] == -32602
    for method in ("shutdown", "stats", "events.publish", "forward.stat"):
        assert refused_at(state, method)[:2] == (-32601, "NOT_FOUND")
    assert g.request_at(state, "ping") is not None
    assert [one["id"] for one in g.request("forward.stats")["forwards"]] == ["one", "two"]
    assert [one["id"] for one in g.request_at(state, "forward.stats")["forwards"]] == ["one"]
    assert g.request_at(state, "forward.pause") == {"id": "one", "paused": True}
    assert [one["paused"] for one in g.request("forward.stats")["forwards"]] == [True, False], "the other one goes on"
    for frame, code in ((b"{", -32700), (b"\xff\xfe{\0}\0", -32700), (b"[]", -32600), (b"INIT", -32700)):
        error = g.ask(frame, endpoint=state)["error"]
        assert error["code"] == code and error["data"]["kind"] == "BAD_REQUEST", (frame, error)
    with pytest.raises(RpcError) as error:
        gateway("none").request("forward.pause")
    assert error.value.kind == "NOT_FOUND" and "[[forward]]" in error.value.message


def test_topics_are_registered_by_req_and_dealer(gateway):
    """INIT with a topic is answered OK with that topic, with or without a delimiter before it; anything else of several
    frames is an error reply. What was registered is in the counts, by name and in all."""
    g = gateway(forward=[table("state")])
    f = Forward(g)
    for kind, before in ((zmq.REQ, []), (zmq.DEALER, []), (zmq.DEALER, [b""])):
        client = g.socket(kind)
        client.rcvtimeo = int(WATCHDOG * 1000)
        client.connect(f.endpoint("state"))
        for topic in ("kiosk", "Grüße", f"only {kind} {len(before)}"):
            client.send_multipart([*before, b"INIT", topic.encode()])
            assert client.recv_multipart() == [*before, b"OK", topic.encode()]
        for junk in ([b"INIT", b"a", b"b"], [b"INITIAL", b"a"], [b"x", b"y", b"z"]):
            client.send_multipart([*before, *junk])
            error = recv_json(client)["error"]
            assert error["code"] == -32600 and "frames" in error["message"], error
    stats = f.stats()
    assert stats["registrations"] == 9, stats
    assert stats["registered"].pop("kiosk") == stats["registered"].pop("Grüße") == 3 and len(stats["registered"]) == 3, stats
    for n in range(1100):
        client.send_multipart([b"", b"INIT", b"many %d" % n])
        assert client.recv_multipart() == [b"", b"OK", b"many %d" % n]
    stats = f.stats()
    assert stats["registrations"] == 1109 and len(stats["registered"]) == 1000, "all are answered and counted, not all kept"


def test_a_long_topic_is_answered_but_not_kept_whole(gateway):
    """Whoever registers topics of a megabyte gets each back; the counts stay as short as they were, and so does memory."""
    g = gateway(forward=[table("state")])
    f = Forward(g)
    before = g.rss()
    req = g.socket(zmq.REQ)
    req.rcvtimeo = int(WATCHDOG * 1000)
    req.connect(f.endpoint("state"))
    for n in range(100):
        topic = (b"%d" % n).ljust(1 << 20, b"x")
        req.send_multipart([b"INIT", topic])
        assert req.recv_multipart() == [b"OK", topic]
    stats = f.stats()
    assert stats["registrations"] == 100 and len(json.dumps(stats)) < 1 << 20, len(json.dumps(stats))
    assert g.rss() - before < 64 << 20, "memory stays bounded"


def test_over_a_unix_socket(gateway, short_folder):
    """A forwarder may listen on paths; publishers then are on this machine."""
    ends = {key: f"ipc://{short_folder}/{key}" for key in ("input", "output", "state", "monitor")}
    g = gateway(forward=[ends | {"journal": True}])
    f = Forward(g)
    sub, monitor = Subscriber(f), Subscriber(f, key="monitor")
    f.load(0, 10)
    assert sub.take(10) == numbered(0, 10) and monitor.take(10) == [[b"in", *frames] for frames in numbered(0, 10)]
    assert g.request_at(f.endpoint("state"), "forward.stats")["forwards"][0]["endpoints"] == ends
    assert {f"forward.main.{key}": end for key, end in ends.items()}.items() <= g.request("hello")["endpoints"].items()
    f.logged()
    assert {line["host"] for line in g.records("load")} == {"localhost"} and len(g.texts("load")) == 10


PORT = f"tcp://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("tables, names", [
    ([{"output": ANY_PORT}], ["input"]),
    ([{"input": ANY_PORT}], ["output"]),
    ([table(output="off")], ["output", "off"]),
    ([table(input=PORT, output=PORT)], ["input", "output", PORT]),
    ([table(input=PORT), table(id="b", state=PORT)], ["input", "state", PORT]),
    ([table(), table(id="Main")], ["id = \"Main\" is used twice"]),
    ([table(id="a b")], ["id", "a b"]),
    ([table(send_wait="61s")], ["send_wait", "61s"]),
    ([table(send_hwm=0)], ["send_hwm"]),
    ([table(receive_hwm=10_000_001)], ["receive_hwm"]),
    ([table(inputs=PORT)], ["inputs"]),
    ([table(input="tcp://0.0.0.0:0")], ["input", "allow_insecure"]),
    ([table(monitor="tcp://*:0")], ["monitor", "allow_insecure"]),
], ids=lambda value: None if isinstance(value, list) and isinstance(value[0], dict) else "-".join(value[:1] + value[2:3]))
def test_settings_that_are_wrong_are_named(gateway, tables, names):
    """The program does not start, and says which key is wrong."""
    code, stderr, _ = end_by_itself(gateway.make(forward=tables))
    assert code == EX_CONFIG and "forward" in stderr and all(name in stderr for name in names), stderr
    assert "panicked" not in stderr


@pytest.mark.parametrize("key", ["input", "output", "state", "monitor"])
def test_c28_a_port_of_another_forwarder(gateway, key):
    """The second gateway exits 69 and names the endpoint; the first one's messages pass before and after."""
    first = gateway("first", forward=[table("state", "monitor")])
    f = Forward(first)
    sub = Subscriber(f)
    f.load(0, 10)
    taken = f.endpoint(key)
    refused(gateway.make("second", forward=[table("state", "monitor") | {key: taken}]), taken, first)
    f.load(10, 10)
    assert sub.take(20) == numbered(0, 20) and sub.rest() == []
