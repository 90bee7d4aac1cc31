"""Serial ports as plain ZeroMQ clients use them: real ptys, socat at the other end, pyzmq REQ and SUB."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import tty

import pytest
import zmq

from hwgate_test import QUICK, WATCHDOG, RpcError, recv_event, recv_events, wait_for
from test_events import call, dealer, recv_json

EVERY_BYTE = bytes(range(256))


def b64(data):
    return base64.b64encode(data).decode()


class Wire:
    """A pty for the gateway with socat at its other end; what socat reads and writes are pipes of the test."""

    def __init__(self, folder, name="ttyTEST"):
        if shutil.which("socat") is None:
            pytest.skip("socat is not installed: apt-get install socat")
        self.path = pathlib.Path(folder) / name
        self.process = None
        self.plug()

    def plug(self):
        """A new pty under the same name, as a replugged adapter gets one."""
        self.process = subprocess.Popen(["socat", f"pty,rawer,link={self.path}", "stdio"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_for("socat's pty", self.path.exists)

    def unplug(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.path.unlink(missing_ok=True)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, count):
        """Exactly so many bytes that the gateway wrote."""
        data = bytearray()
        watchdog = threading.Timer(WATCHDOG, self.process.kill)
        watchdog.start()
        while len(data) < count:
            piece = os.read(self.process.stdout.fileno(), count - len(data))
            assert piece, f"{len(data)} of {count} bytes came"
            data += piece
        watchdog.cancel()
        return bytes(data)


@pytest.fixture
def wire(tmp_path):
    wire = Wire(tmp_path)
    yield wire
    wire.unplug()


def status(g, id="port"):
    return g.request("serial.status", id=id)


def wait_state(g, state, id="port"):
    return wait_for(f"{id} {state}", lambda: (now := status(g, id))["state"] == state and now)


def test_a_pty_opened_by_command_speaks_and_hears(gateway, wire):
    g = gateway()
    opened = g.request("serial.open", id="port", path=str(wire.path), baud=115200)
    assert not opened["already"] and opened["path"] == str(wire.path)
    rx, state = g.subscribe("serial/port/rx/"), g.subscribe("serial/port/state/")
    wire.send(b"4006381333931\r\nsecond\nthird\r")
    assert [event.payload for event in recv_events(rx, 3)] == [b"4006381333931", b"second", b"third"]
    assert g.request("serial.write", id="port", data_base64=b64(EVERY_BYTE)) == {"written": 256}
    assert wire.receive(256) == EVERY_BYTE
    # Unplugged and plugged in again, under the same name and with another device behind it.
    wire.unplug()
    lost = recv_event(state)
    assert (lost.payload, lost.header["state"]) == (b"lost", "lost") and lost.header["reason"]
    with pytest.raises(RpcError) as error:
        g.request("serial.write", id="port", data="x", timeout_ms=500)
    assert error.value.kind == "DISCONNECTED", error.value
    wire.plug()
    while (event := recv_event(state)).payload != b"open":
        assert event.payload in (b"lost", b"failed"), event
    wire.send(b"again\n")
    assert recv_event(rx).payload == b"again"
    g.request("serial.write", id="port", data="hello")
    assert wire.receive(5) == b"hello"
    assert status(g)["losses"] == 1
    assert g.request("serial.close", id="port") is not None
    assert recv_event(state).payload == b"closed"
    with pytest.raises(RpcError) as error:
        g.request("serial.write", id="port", data="x")
    assert error.value.kind == "NOT_FOUND"


def test_a_megabyte_of_all_bytes_arrives_unchanged_both_ways(gateway, wire):
    g = gateway()
    data = EVERY_BYTE * 4096
    g.request("serial.open", id="port", path=str(wire.path), framing={"raw": True, "gap": "0ms"})
    rx, tx = g.subscribe("serial/port/rx/", hwm=0), g.subscribe("serial/port/tx/", hwm=0)
    got = {}
    reader = threading.Thread(target=lambda: got.update(data=wire.receive(len(data))))
    reader.start()
    assert g.request("serial.write", id="port", data_base64=b64(data), timeout_ms=60_000) == {"written": len(data)}
    reader.join(WATCHDOG)
    assert got["data"] == data
    written = b""
    while len(written) < len(data):
        written += recv_event(tx).payload
    assert written == data
    sender = threading.Thread(target=wire.send, args=(data,))
    sender.start()
    heard = b""
    while len(heard) < len(data):
        heard += recv_event(rx).payload
    sender.join(WATCHDOG)
    assert heard == data


def test_a_declared_port_opens_by_itself_as_soon_as_it_is_there(gateway, tmp_path):
    path = tmp_path / "ttyLATE"
    g = gateway(extra=f'\n[[serial]]\nid = "port"\npath = "{path}"\nframing = {{ line = "lf" }}\n')
    waiting = status(g)
    assert waiting["state"] != "open" and waiting["declared"] and str(path) in waiting["reason"], waiting
    rx = g.subscribe("serial/port/rx/")
    late = Wire(tmp_path, "ttyLATE")
    wait_state(g, "open")
    late.send(b"a\rb\n")
    assert recv_event(rx).payload == b"a\rb"
    # A reload takes away what is no longer declared, and brings what is new.
    g.extra = f'\n[[serial]]\nid = "other"\npath = "{path}"\n'
    g.config.write_text(g.config_text())
    g.request("config.reload")
    wait_state(g, "open", "other")
    with pytest.raises(RpcError) as error:
        status(g)
    assert error.value.kind == "NOT_FOUND"
    late.unplug()


def test_c18_one_device_has_one_owner(gateway, wire, tmp_path):
    g = gateway()
    g.request("serial.open", id="one", path=str(wire.path))
    assert g.request("serial.open", id="one", path=str(wire.path))["already"]
    link = tmp_path / "link"
    link.symlink_to(wire.path)
    for id, path, more in (("two", wire.path, {}), ("two", link, {}), ("one", wire.path, {"baud": 19200})):
        with pytest.raises(RpcError) as error:
            g.request("serial.open", id=id, path=str(path), **more)
        assert error.value.kind == "BUSY" and "one" in error.value.message, error.value
    g.request("serial.close", id="one")
    # Another program holds it, as root can see by its lock only.
    device = os.path.realpath(wire.path)
    holder = subprocess.Popen(["flock", "-x", device, "sh", "-c", "echo held; read _"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(RpcError) as error:
        g.request("serial.open", id="two", path=str(wire.path))
    assert error.value.kind == "BUSY" and str(wire.path) in error.value.message, error.value
    holder.communicate(b"\n")
    assert not g.request("serial.open", id="two", path=str(wire.path))["already"]


def test_c20_lines_come_whole_however_they_arrive(gateway, wire):
    g = gateway()
    g.request("serial.open", id="port", path=str(wire.path))
    rx = g.subscribe("serial/port/rx/")
    for piece in (b"us", b"er:4", b":1\r", b"\nT=2", b"1\rT=22\n\r\n", b"\xc3", b"\xa9\n", b"tail"):
        wire.send(piece)
        time.sleep(0.05)  # The gaps are the input.
    events = recv_events(rx, 6)
    assert [event.payload for event in events] == [b"user:4:1", b"T=21", b"T=22", b"", "é".encode(), b"tail"]
    assert [bool(event.header.get("partial")) for event in events] == [False] * 5 + [True]


def test_c43_a_device_that_takes_nothing_gives_a_timeout_and_recovers(gateway):
    g = gateway()
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    g.request("serial.open", id="port", path=os.ttyname(theirs))
    ask = dealer(g)
    start = time.monotonic()
    ask.send_multipart([b"", call("serial.write", 1, id="port", data="x" * 65536, timeout_ms=500)])
    pings = 0
    while not ask.poll(0):
        g.request("ping")
        assert status(g)["state"] == "open"
        pings += 1
    took = time.monotonic() - start
    error = recv_json(ask)["error"]
    assert error["data"]["kind"] == "TIMEOUT" and 0.5 <= took < 5, (error, took)
    written = error["data"]["written"]
    assert 0 < written < 65536 and f"{written} of 65536" in error["message"], error
    assert pings > 0
    drained = b""
    while len(drained) < written:
        drained += os.read(ours, 65536)
    assert drained == b"x" * written
    assert g.request("serial.write", id="port", data="after") == {"written": 5}
    assert os.read(ours, 100) == b"after"
    g.request("serial.close", id="port")
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("path, kind", [
    ("COM0", ("INVALID_ARGUMENT", "NOT_FOUND")),
    ("CNCA0", ("NOT_FOUND",)),
    ("{tmp}/COM10", ("INVALID_ARGUMENT",)),
    ("{tmp}", ("INVALID_ARGUMENT",)),
    ("{tmp}/missing", ("NOT_FOUND",)),
    ("{tmp}/dangling", ("NOT_FOUND",)),
    ("{tmp}/fifo", ("INVALID_ARGUMENT",)),
    ("/dev/null", ("INVALID_ARGUMENT", "NO_DEVICE", "IO")),
    ("", ("INVALID_ARGUMENT",)),
    ("a\0b", ("INVALID_ARGUMENT",)),
])
def test_c44_c47_each_wrong_path_has_its_own_answer(gateway, tmp_path, path, kind):
    (tmp_path / "COM10").write_text("a file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo")
    g = gateway()
    with pytest.raises(RpcError) as error:
        g.request("serial.open", id="port", path=path.format(tmp=tmp_path))
    assert error.value.kind in kind, error.value
    assert g.request("serial.status") == {"ports": []}
    assert (tmp_path / "COM10").read_text() == "a file"


@pytest.mark.parametrize("params, says", [
    ({"baud": 0}, "baud"),
    ({"baud": 123457}, "115200"),
    ({"bauds": 9600}, "did you mean baud"),
    ({"parity": "space"}, "parity"),
    ({"data_bits": 9}, "data_bits"),
    ({"framing": {"line": "any", "max": 0}}, "max"),
    ({"framing": {"fixed": 12, "line": "any"}}, "framing"),
    ({"framing": {"lines": "any"}}, "line"),
    ({"id": "a/b"}, "id"),
    ({"id": ""}, "id"),
])
def test_c47_wrong_settings_are_named(gateway, params, says):
    g = gateway()
    with pytest.raises(RpcError) as error:
        g.request("serial.open", **{"id": "port", "path": "sim:loop"} | params)
    assert error.value.kind == "INVALID_ARGUMENT" and says in error.value.message, error.value


def test_c47_no_rights_and_no_device_are_told_apart(gateway, tmp_path):
    """The gateway runs as another user; root has all rights."""
    from hwgate_test import binary
    ours, theirs = os.openpty()
    os.chmod(os.ttyname(theirs), 0)
    home = tmp_path / "nobody"
    g = gateway.make()
    for folder in (g.folder, *g.folder.parents):
        if folder.is_relative_to("/tmp") and folder != pathlib.Path("/tmp"):
            os.chmod(folder, 0o777)
    program = tmp_path / "hwgate"
    shutil.copy(binary(), program)
    os.chmod(program, 0o755)
    g.config.write_text(g.config_text())
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can start a program as another user, with setpriv")
    with open(g.stdout_file, "wb") as out, open(g.stderr_file, "ab") as err:
        g.process = subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(program),
                                      "run", "--config", str(g.config)], cwd=g.folder, env={}, stdout=out, stderr=err)
    g.adopt()
    with pytest.raises(RpcError) as error:
        g.request("serial.open", id="port", path=os.ttyname(theirs))
    assert error.value.kind == "PERMISSION" and os.ttyname(theirs) in error.value.message, error.value
    os.close(ours)
    os.close(theirs)


def test_a_transaction_of_5_s_holds_up_nobody_else(gateway, wire):
    g = gateway(extra='\n[[serial]]\nid = "loop"\npath = "sim:loop"\n')
    wait_state(g, "open", "loop")
    g.request("serial.open", id="port", path=str(wire.path))
    subs = [g.subscribe("serial/port/rx/") for _ in range(20)]
    long, others = dealer(g), [dealer(g) for _ in range(5)]
    start = time.monotonic()
    long.send_multipart([b"", call("serial.transact", 1, id="port", data="?", expect="never", timeout_ms=5000)])
    assert wire.receive(1) == b"?"
    slowest = 0
    for n in range(100):
        asked = time.monotonic()
        for socket in others:
            for id, method in enumerate(("ping", "serial.status", "device.list")):
                socket.send_multipart([b"", call(method, id)])
            socket.send_multipart([b"", call("serial.write", 9, id="loop", data="x\n")])
        for socket in others:
            replies = [recv_json(socket) for _ in range(4)]
            assert all("result" in reply for reply in replies), replies
        slowest = max(slowest, time.monotonic() - asked)
        wire.send(b"traffic %d\n" % n)
        # Everybody hears it, while the transaction goes on.
        for sub in subs:
            assert recv_event(sub).payload == b"traffic %d" % n
    assert not long.poll(0) or time.monotonic() - start >= 5
    reply = recv_json(long)
    assert reply["error"]["data"]["kind"] == "TIMEOUT" and time.monotonic() - start >= 5
    assert slowest < 4


def test_a_transaction_gets_its_answer_while_others_hear_it(gateway, wire):
    g = gateway()
    g.request("serial.open", id="port", path=str(wire.path))
    sub = g.subscribe("serial/port/rx/")
    ask = dealer(g)
    ask.send_multipart([b"", call("serial.transact", 1, id="port", data="T?\r", expect_regex=r"T=(\d+)")])
    assert wire.receive(3) == b"T?\r"
    wire.send(b"noise\r\nT=21 C\r\n")
    result = recv_json(ask)["result"]
    assert result["data"] == "T=21 C" and "21" in result["captures"], result
    assert [event.payload for event in recv_events(sub, 2)] == [b"noise", b"T=21 C"]
    for params, says in (({"expect": "a", "expect_regex": "b"}, "at most one"), ({"expect_regex": "("}, "expect_regex")):
        with pytest.raises(RpcError) as error:
            g.request("serial.transact", id="port", data="x", **params)
        assert error.value.kind == "INVALID_ARGUMENT" and says in error.value.message


def test_only_the_holder_of_the_lease_writes_and_everyone_hears(gateway, wire):
    g = gateway()
    g.request("serial.open", id="port", path=str(wire.path))
    lease_events, tx = g.subscribe("serial/port/lease/"), g.subscribe("serial/port/tx/")
    lease = g.request("device.claim", id="port", owner="tester", ttl_ms=60_000)["lease"]
    assert recv_event(lease_events).header["action"] == "claimed"
    with pytest.raises(RpcError) as error:
        g.request("serial.write", id="port", data="x")
    assert error.value.kind == "LEASED" and "tester" in error.value.message, error.value
    for method, params in (("serial.transact", {"data": "x"}), ("serial.set", {"baud": 19200}), ("serial.close", {}),
                           ("serial.break", {}), ("serial.lines", {"rts": True}),
                           ("serial.write", {"data": "x", "lease": "wrong"})):
        with pytest.raises(RpcError) as error:
            g.request(method, id="port", **params)
        assert error.value.kind == "LEASED", (method, error.value)
    g.request("serial.write", id="port", data="mine", lease=lease)
    assert wire.receive(4) == b"mine"
    assert recv_event(tx).header["by"] == "tester"
    # A second client asks and waits; the holder hears that.
    second = dealer(g)
    second.send_multipart([b"", call("device.claim", 1, id="port", owner="second", wait_ms=30_000)])
    asked = recv_event(lease_events)
    assert asked.header["action"] == "asked" and asked.header["by"] == "second", asked
    g.request("device.renew", id="port", lease=lease, ttl_ms=60_000)
    g.request("device.release", id="port", lease=lease)
    token = recv_json(second)["result"]["lease"]
    assert token != lease
    with pytest.raises(RpcError) as error:
        g.request("device.renew", id="port", lease=lease)
    assert error.value.kind == "NOT_FOUND"
    # A lease that nobody renews ends by itself.
    g.request("device.renew", id="port", lease=token, ttl_ms=200)
    wait_for("the lease to expire", lambda: g.request("device.list")["devices"][0]["lease"] is None)
    assert g.request("serial.write", id="port", data="free") == {"written": 4}


def test_a_simulated_port_needs_no_hardware(gateway):
    g = gateway(extra='\n[[serial]]\nid = "scanner"\npath = "sim:loop"\n')
    wait_state(g, "open", "scanner")
    sub = g.subscribe("serial/scanner/rx/")
    for run in range(20 if QUICK else 100):
        for n in range(5):
            g.request("sim.inject", id="scanner", data=f"scan {run}.{n}\n")
        assert [event.payload.decode() for event in recv_events(sub, 5)] == [f"scan {run}.{n}" for n in range(5)]
    g.request("serial.write", id="scanner", data="hello\r\n")
    assert recv_event(sub).payload == b"hello"
    lines = g.request("serial.lines", id="scanner", dtr=True, rts=False)
    assert (lines["dtr"], lines["dsr"], lines["rts"], lines["cts"]) == (True, True, False, False)
    devices = g.request("device.list")["devices"]
    assert {device["id"]: device["kind"] for device in devices} == {"scanner": "serial", "audio": "audio"}
    assert isinstance(g.request("serial.list")["ports"], list)


def test_inject_is_for_simulated_ports_only(gateway, wire):
    g = gateway()
    g.request("serial.open", id="port", path=str(wire.path))
    with pytest.raises(RpcError) as error:
        g.request("sim.inject", id="port", data="x")
    assert error.value.kind == "INVALID_ARGUMENT" and "sim:" in error.value.message


def test_stopping_answers_those_who_wait(gateway, wire):
    g = gateway()
    g.request("serial.open", id="port", path=str(wire.path))
    ask = dealer(g)
    ask.send_multipart([b"", call("serial.transact", 1, id="port", data="?", timeout_ms=60_000)])
    assert wire.receive(1) == b"?"
    g.process.terminate()
    assert recv_json(ask)["error"]["data"]["kind"] == "SHUTTING_DOWN"
    assert g.exit_code() == 0


def test_json_of_a_whole_status_is_stable(gateway):
    g = gateway(extra='\n[[serial]]\nid = "scanner"\npath = "sim:loop"\nbaud = 19200\n')
    wait_state(g, "open", "scanner")
    g.request("sim.inject", id="scanner", data="one\ntwo\n")
    wait_for("two frames", lambda: status(g, "scanner")["rx_frames"] == 2)
    now = status(g, "scanner")
    assert now["settings"]["baud"] == 19200 and now["rx_bytes"] == 8 and now["lease"] is None, json.dumps(now)
    assert now["write_queue"] == {"requests": 0, "bytes": 0}
    every = g.request("serial.status")["ports"]
    assert [port["id"] for port in every] == ["scanner"]
    with pytest.raises(RpcError) as error:
        status(g, "scaner")
    assert error.value.kind == "NOT_FOUND" and "scanner" in error.value.message
