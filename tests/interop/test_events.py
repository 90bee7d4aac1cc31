"""Events and commands as plain ZeroMQ clients see them: SUB, REQ and DEALER sockets, nothing of ours."""
import json
import os
import threading
import time
import uuid

import pytest
import zmq

from hwgate_test import QUICK, RpcError, recv_event, recv_events, wait_for


def publish(g, topic, data="", **more):
    return g.request("events.publish", topic=topic, data=data, **more)


def test_an_event_has_topic_header_and_payload(gateway):
    g = gateway()
    sub = g.subscribe("app/door/")
    published = publish(g, "app/door", "offen: ü", fields={"door": 7, "by": ["a", None]})
    assert published == {"id": published["id"], "seq": 1}
    event = recv_event(sub)
    assert (event.topic, event.payload) == ("app/door/", "offen: ü".encode())
    assert event.header == {"id": published["id"], "seq": 1, "session": g.request("hello")["session"],
                            "time_ns": event.header["time_ns"], "door": 7, "by": ["a", None]}
    assert abs(int(event.header["time_ns"]) - time.time_ns()) < 60e9
    every = bytes(range(256))
    import base64
    g.request("events.publish", topic="app/door/", data_base64=base64.b64encode(every).decode())
    assert recv_event(sub).payload == every
    g.request("events.publish", topic="app/door/")
    last = recv_event(sub)
    assert (last.payload, last.header["seq"]) == (b"", 3)


@pytest.mark.parametrize("params, kind, says", [
    ({"topic": "serial/x/rx/"}, "PERMISSION", "begin with app/"),
    ({"topic": "app"}, "PERMISSION", "begin with app/"),
    ({"topic": "app//x"}, "INVALID_ARGUMENT", "level"),
    ({"topic": "app/" + "x" * 2000}, "INVALID_ARGUMENT", "1024"),
    ({"topic": "app/a\nb"}, "INVALID_ARGUMENT", "control"),
    ({"topic": ""}, "INVALID_ARGUMENT", "empty"),
    ({"topic": "app/x/", "fields": {"id": 1}}, "INVALID_ARGUMENT", "set by the gateway"),
    ({"topic": "app/x/", "data": "a", "data_base64": "YQ=="}, "INVALID_ARGUMENT", "not both"),
    ({"topic": "app/x/", "data_base64": "?"}, "INVALID_ARGUMENT", "base64"),
    ({}, "INVALID_ARGUMENT", "topic is missing"),
])
def test_a_bad_event_is_refused_and_says_why(gateway, params, kind, says):
    g = gateway()
    with pytest.raises(RpcError) as error:
        g.request("events.publish", **params)
    assert error.value.kind == kind and says in error.value.message, error.value
    assert publish(g, "app/x/")["seq"] == 1


def test_c64_a_topic_is_not_a_prefix_of_another(gateway):
    g = gateway()
    sub = g.subscribe("app/COM1/")
    for topic in ("app/COM1", "app/COM10", "app/COM2", "app/COM1/rx"):
        publish(g, topic, topic)
    publish(g, "app/COM1", "last")
    assert [event.payload.decode() for event in recv_events(sub, 3)] == ["app/COM1", "app/COM1/rx", "last"]


def test_c03_what_is_published_after_the_sync_is_heard(gateway):
    """Subscribe and at once publish five: five each time."""
    g = gateway()
    for run in range(100):
        sub = g.subscribe(f"app/{run}/")
        for n in range(1, 6):
            publish(g, f"app/{run}/", str(n))
        events = recv_events(sub, 5)
        assert [event.payload.decode() for event in events] == list("12345")
        assert [event.header["seq"] for event in events] == [1, 2, 3, 4, 5]
        sub.close()


def test_the_sync_comes_to_everyone_who_asks_and_again_after_a_restart(gateway):
    g = gateway()
    publish(g, "app/x/")
    first, second = g.subscribe("app/"), g.subscribe("app/")
    newest = g.request("events.replay")["newest"]
    for sub in (first, second):
        header = sub.in_force.header
        assert (header["id"], header["seq"], header["session"]) == (newest, 0, g.request("hello")["session"])
    # The same topic from two sockets at once: each gets its answer, also the second.
    shared = f"~sync/{uuid.uuid4()}/"
    for sub in (first, second):
        sub.subscribe(shared)
        while recv_event(sub).topic != shared:
            pass
    old = first.in_force.header["session"]
    g.kill()
    g.start()
    again = {first.in_force.topic, shared}
    while again:
        event = recv_event(first)
        if event.header["session"] != old:
            again.discard(event.topic)
    publish(g, "app/x/", "again")
    while recv_event(first).payload != b"again":
        pass


def test_log_records_are_events_only_while_asked_for_by_name(gateway):
    g = gateway()
    everything = g.subscribe("")
    g.send([b"door.WARN", "auf 😀".encode()])
    g.settle(1)
    sub = g.subscribe("log/door/")
    # Whoever hears everything hears what others have asked for.
    for _ in range(200):
        g.send([b"door.ERROR", b"now\x1b[2K"], [b"other.WARN", b"not this"], [b"door", b"and this"])
    events = recv_events(sub, 400)
    assert {event.topic for event in events} == {"log/door/error/", "log/door/info/"}
    error = next(event for event in events if event.topic == "log/door/error/")
    assert error.payload == b"now\x1b[2K"
    assert error.header["source"] == "door" and error.header["level"] == "error" and error.header["host"] == "127.0.0.1"
    assert [event.header["seq"] for event in events if event.topic == "log/door/info/"] == list(range(1, 201))
    # It is also told of the syncs of others.
    while (event := recv_event(everything)).topic.startswith("~sync/"):
        pass
    assert event.topic.startswith("log/door/"), event
    sub.close()
    wait_for("the subscription to end", lambda: g.stats().reply["events"]["subscriptions"] == 2)
    before = g.stats().reply["events"]["published"]
    g.send([b"door.ERROR", b"unheard"])
    g.settle(602)
    assert g.stats().reply["events"]["published"] == before


def test_every_log_record_after_the_sync_is_heard_also_at_speed(gateway):
    g = gateway()
    count = 20_000 if QUICK else 200_000
    sub = g.subscribe("log/load/", hwm=0)
    with g.push() as push:
        for n in range(count):
            push.send_multipart([b"load", b"%d" % n])
    for n in range(count):
        event = recv_event(sub)
        assert (event.payload, event.header["seq"]) == (b"%d" % n, n + 1)


def test_replay_closes_a_gap_and_tells_when_it_cannot(gateway):
    g = gateway()
    hello = g.request("hello")
    ids = [publish(g, "app/a/", str(n))["id"] for n in range(10)]
    publish(g, "app/b/")
    reply = g.request("events.replay", session=hello["session"], after=ids[6], topics=["app/a/"])
    assert [event["data"] for event in reply["events"]] == ["7", "8", "9"]
    assert (reply["complete"], reply["next"], reply["session"]) == (True, None, hello["session"])
    assert reply["events"][0]["header"]["id"] == ids[7] and reply["events"][0]["topic"] == "app/a/"
    got, after = [], 0
    while True:
        page = g.request("events.replay", after=after, topics=["app/a/"], max_bytes=300)
        assert page["complete"] and 1 <= len(page["events"]) < 10
        got += [event["data"] for event in page["events"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert got == [str(n) for n in range(10)]
    for n in range(1100):
        publish(g, "app/a/", str(n))
    assert not g.request("events.replay", after=0, topics=["app/a/"])["complete"]
    assert g.request("events.replay", after=0, topics=["app/b/"])["complete"]
    assert not g.request("events.replay", session=str(uuid.uuid4()), after=5)["complete"]


def dealer(g):
    socket = g.socket(zmq.DEALER)
    socket.connect(g.endpoints["commands"])
    return socket


def call(method, id, /, **params):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def recv_json(socket, seconds=60):
    assert socket.poll(seconds * 1000), "no reply came"
    return json.loads(socket.recv_multipart()[-1])


def test_a_repeat_with_the_same_key_does_nothing_twice(gateway):
    g = gateway()
    sub = g.subscribe("app/")
    key = str(uuid.uuid4())
    replies = [publish(g, "app/x/", "once", key=key) for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    publish(g, "app/x/", "twice", key=str(uuid.uuid4()))
    assert [event.payload for event in recv_events(sub, 2)] == [b"once", b"twice"]
    with pytest.raises(RpcError) as error:
        publish(g, "app/x/", "another", key=key)
    assert error.value.kind == "BAD_REQUEST"
    # An error is an answer too, and a repeat while the first runs waits for its answer.
    first, again = dealer(g), dealer(g)
    key = str(uuid.uuid4())
    g.send("line")
    g.settle(1)
    for socket, id in ((first, 1), (again, 2), (first, 3)):
        socket.send_multipart([b"", call("log.rotate", id, key=key)])
    rotated = [recv_json(socket) for socket in (first, again, first)]
    assert sorted(reply["id"] for reply in rotated) == [1, 2, 3]
    assert rotated[0]["result"] == rotated[1]["result"] == rotated[2]["result"]
    assert len(rotated[0]["result"]["files"]) == 1
    assert len(list(g.log_dir.glob("gateway.*.log"))) == 1


def test_a_restart_empties_the_keys(gateway):
    g = gateway()
    key = str(uuid.uuid4())
    publish(g, "app/x/", "a", key=key)
    g.kill()
    g.start()
    assert publish(g, "app/x/", "b", key=key)["seq"] == 1


def test_a_stopped_subscriber_delays_nobody_and_sees_its_gap(gateway):
    """The slow one loses its own events; 19 others and 5 requesters notice nothing."""
    count = 2_000 if QUICK else 10_000
    g = gateway(extra="\n[events]\nsend_hwm = 500\n")
    others = [g.subscribe("app/") for _ in range(19)]
    stopped = g.socket(zmq.SUB)
    stopped.rcvhwm, stopped.rcvbuf = 1, 4096
    stopped.connect(g.endpoints["events"])
    stopped.subscribe(b"app/")
    wait_for("its subscription", lambda: publish(g, "app/probe/") and stopped.poll(10))
    seen = [[] for _ in others]

    def read(sub, into):
        while len(into) < count:
            event = recv_event(sub)
            if event.topic == "app/load/":
                into.append(event.header["seq"])

    readers = [threading.Thread(target=read, args=pair) for pair in zip(others, seen)]
    slowest = []

    def ask():
        worst = 0
        for _ in range(100):
            start = time.monotonic()
            g.request("ping")
            worst = max(worst, time.monotonic() - start)
        slowest.append(worst)

    askers = [threading.Thread(target=ask) for _ in range(5)]
    for thread in readers + askers:
        thread.start()
    # Paced by replies, so that the readers in this process can keep up with what they get 19 times.
    payload = "x" * 2000
    for n in range(count):
        publish(g, "app/load/", payload)
    for thread in readers + askers:
        thread.join(120)
        assert not thread.is_alive()
    assert all(seqs == list(range(1, count + 1)) for seqs in seen)
    assert len(slowest) == 5
    missed, last = 0, 0
    publish(g, "app/end/")
    while True:
        # What waited for it arrives, and then the present.
        if not stopped.poll(1000):
            publish(g, "app/end/")
            publish(g, "app/load/", "x")
            continue
        event = json.loads(stopped.recv_multipart()[1])
        topic_seq = event["seq"]
        if topic_seq > last + 1 and last:
            missed += topic_seq - last - 1
            break
        last = topic_seq
    assert missed > 0


def test_a_client_that_sends_junk_to_the_event_port_harms_nobody(gateway):
    g = gateway()
    sub = g.subscribe("app/")
    xsub = g.socket(zmq.XSUB)
    xsub.connect(g.endpoints["events"])
    for frame in (b"", b"\x02x", b"\x00never", b"\x01" + b"x" * 100_000, b"\x01~sync/", b"\x01~sync//", os.urandom(2000)):
        xsub.send(frame)
    xsub.send_multipart([b"\x01app/", b"more"])
    publish(g, "app/x/", "still here")
    assert recv_event(sub).payload == b"still here"
