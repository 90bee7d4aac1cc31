"""What the interop tests share: a gateway to start and ask, plain clients, and the reading of its files.

Nothing here knows hwgate's code: the program is started as users start it, and spoken to with plain
ZeroMQ sockets. `Stats` is the one place that knows the names in the reply of `stats`.
"""
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest
import zmq

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHARED = pathlib.Path(os.environ.get("HWGATE_SHARED") or ROOT.parent / "shared")
QUICK = bool(os.environ.get("HWGATE_QUICK"))
WATCHDOG = 60.0

EX_USAGE, EX_UNAVAILABLE, EX_CANTCREAT, EX_CONFIG = 64, 69, 73, 78

# 2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater[4242] text
LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (?P<level>TRACE|DEBUG|INFO |WARN |ERROR|CRIT ) "
    r"(?P<host>[^/ ]*)/(?P<source>.*?)(?:\[(?P<pid>\d+)\])? (?P<text>.*)"
)


def binary():
    """The program under test."""
    named = os.environ.get("HWGATE_BIN")
    for path in [named] if named else [ROOT / "target/release/hwgate", ROOT / "target/debug/hwgate"]:
        if os.access(path, os.X_OK):
            return str(path)
    pytest.fail(f"no hwgate at {named or 'target/release or target/debug'}; build it: cargo build --release --bin hwgate")


def shared(*parts):
    """A file of the shared folder; without it the test is skipped, which the summary says."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not there; HWGATE_SHARED names another place")
    return path


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def wait_for(what, predicate, seconds=WATCHDOG, step=0.02):
    """Waits until `predicate()` is true and returns its value. The time is a watchdog."""
    end = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(step)


def toml(value):
    """A TOML value."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(str(value) if isinstance(value, os.PathLike) else value, ensure_ascii=False)


class RpcError(Exception):
    """An error reply: `code`, `kind`, `message`."""

    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.code = error["code"]
        self.message = error["message"]
        self.kind = (error.get("data") or {}).get("kind")


class Stats:
    """The reply of `stats`, by meaning."""

    def __init__(self, reply):
        self.reply = reply
        intake = reply["intake"]
        self.received = intake["received"]
        self.written = intake["written"]
        self.reasons = {reason: n for reason, n in intake["dropped"].items() if n}
        self.dropped = sum(self.reasons.values())
        self.pending = intake["pending"]
        self.text = intake["text"]
        self.sinks = reply["sinks"]

    @property
    def states(self):
        return [sink["state"] for sink in self.sinks]

    @property
    def state(self):
        """Of the whole gateway."""
        return self.reply["state"]

    @property
    def journal_damage(self):
        """The damaged bytes that the start has passed over."""
        return self.reply["recovery"]["damaged_bytes"]

    def dropped_for(self, pattern):
        return sum(n for reason, n in self.reasons.items() if re.search(pattern, reason, re.I))

    def check(self):
        assert self.received == self.written + self.pending + self.dropped, self.reply


class Event:
    """One event: topic, header as a dict, payload as bytes."""

    def __init__(self, topic, header, payload):
        self.topic, self.header, self.payload = topic.decode(), json.loads(header), payload

    def __repr__(self):
        return f"{self.topic} {self.header} {self.payload[:100]!r}"


def recv_event(sub, seconds=WATCHDOG):
    """The next event of a plain SUB socket."""
    assert sub.poll(int(seconds * 1000)), "no event came"
    return Event(*sub.recv_multipart())


def recv_events(sub, count, seconds=WATCHDOG):
    return [recv_event(sub, seconds) for _ in range(count)]


class Subscription:
    """A plain SUB socket and the event that told that its subscriptions are in force."""

    def __init__(self, socket, in_force):
        self.socket, self.in_force = socket, in_force
        self.poll, self.recv_multipart, self.close = socket.poll, socket.recv_multipart, socket.close
        self.subscribe = socket.subscribe


class Gateway:
    """One gateway in a folder of its own. Endpoints get free ports at the first start and keep them."""

    def __init__(self, folder, *, endpoints=None, log=None, log_dir=None, journal_dir=None, journal=None, gateway=None,
                 intake=None, security=None, forward=(), extra="", env=None, nofile=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_dir = pathlib.Path(log_dir or self.folder / "logs")
        self.journal_dir = pathlib.Path(journal_dir or self.folder / "journal")
        any_port = {name: "tcp://127.0.0.1:0" for name in ("commands", "logs", "events")}
        self.endpoints = any_port | (endpoints or {})
        self.log = log if log is not None else [{"path": "gateway.log"}]
        self.forward = [dict(table) for table in forward]
        self.tables = {
            "gateway": {"name": "test", "log_dir": self.log_dir} | (gateway or {}),
            "journal": {"dir": self.journal_dir} | (journal or {}),
            "intake": intake or {},
            "security": security or {},
        }
        self.extra = extra
        self.env = env or {}
        self.nofile = nofile
        self.config = self.folder / "hwgate.toml"
        self.stderr_file = self.folder / "stderr.txt"
        self.stdout_file = self.folder / "stdout.txt"
        self.process = None
        self.context = zmq.Context()
        self.expected_panics = 0
        # Closed at the end of the test, whatever it left open.
        self.sockets = []

    # --- the process

    def config_text(self):
        out = []
        for name, table in (self.tables | {"endpoints": self.endpoints}).items():
            if table:
                out += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items()), ""]
        for name, tables in (("log", self.log), ("forward", self.forward)):
            for table in tables:
                out += [f"[[{name}]]", *(f"{key} = {toml(value)}" for key, value in table.items()), ""]
        return "\n".join(out) + self.extra

    def spawn(self, write_config=True):
        """Starts the program and does not wait for anything."""
        if write_config:
            self.config.write_text(self.config_text(), encoding="utf-8")
        env = {key: value for key, value in os.environ.items() if not key.startswith("HWGATE_")} | self.env
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.nofile, hard))

        with open(self.stdout_file, "wb") as out, open(self.stderr_file, "ab") as err:
            self.process = subprocess.Popen([binary(), "run", "--config", str(self.config)], cwd=self.folder, env=env,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            preexec_fn=limit if self.nofile else None)
        return self

    def start(self, write_config=True):
        """Starts the program and waits until it has printed its endpoints."""
        return self.spawn(write_config).adopt()

    def adopt(self):
        """Waits until the started program has printed its endpoints."""
        wanted = {name: (self.endpoints, name) for name in self.endpoints if name != "advertise"}
        wanted |= {f"forward.{table.get('id', 'main')}.{key}": (table, key)
                   for table in self.forward for key in ("input", "output", "state", "monitor") if key in table}
        wanted = {name: (table, key) for name, (table, key) in wanted.items() if table[key] != "off"}

        def printed():
            found = dict(re.findall(r"^([\w.-]+) +((?:tcp|ipc)://\S+)$", self.stdout_file.read_text("utf-8", "replace"), re.M))
            if wanted.keys() <= found.keys():
                return found
            if self.process.poll() is not None:
                pytest.fail(f"the gateway ended at start with {self.process.returncode}:\n{self.stderr()}")
            return None

        self.printed = wait_for("endpoints on stdout", printed)
        for name, (table, key) in wanted.items():
            if table[key].endswith(":0"):
                table[key] = self.printed[name]
        return self

    def exit_code(self, seconds=WATCHDOG):
        """Waits for the program to end by itself."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the gateway still runs after {seconds:.0f} s:\n{self.stderr()}")

    def stop(self):
        """SIGTERM: exit 0. Five seconds are promised; fifty are the watchdog. Returns what it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.exit_code(50)
        assert code == 0, f"exit {code} after SIGTERM:\n{self.stderr()}"
        return time.monotonic() - start

    def kill(self):
        self.process.kill()
        self.process.wait()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stderr(self):
        return self.stderr_file.read_text("utf-8", "replace") if self.stderr_file.exists() else ""

    def rss(self):
        """Resident memory in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def port(self, name):
        return int(self.endpoints[name].rsplit(":", 1)[1])

    def close(self):
        """The end of a test: nothing is left running, and nothing has panicked."""
        if self.alive():
            self.kill()
        for socket in self.sockets:
            socket.close(linger=0)
        self.context.destroy(linger=0)
        assert self.stderr().count("panicked") <= self.expected_panics, self.stderr()

    # --- commands

    def ask(self, frame, seconds=30.0, endpoint=None):
        """One raw frame to `commands` or another endpoint, the one frame of the reply as JSON."""
        with self.context.socket(zmq.REQ) as req:
            req.linger = 0
            req.ipv6 = True
            req.rcvtimeo = int(seconds * 1000)
            req.connect(endpoint or self.endpoints["commands"])
            req.send(frame)
            return json.loads(req.recv())

    def request(self, method, **params):
        """A JSON-RPC request by a plain REQ socket."""
        return self.request_at(self.endpoints["commands"], method, **params)

    def request_at(self, endpoint, method, **params):
        """The same at another endpoint that takes requests."""
        call = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method}
        if params:
            call["params"] = params
        reply = self.ask(json.dumps(call).encode(), endpoint=endpoint)
        assert reply["jsonrpc"] == "2.0" and reply["id"] == call["id"], reply
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def stats(self):
        return Stats(self.request("stats"))

    def settle(self, received):
        """Waits until `received` messages were taken in, and all of them are in the files."""
        wait_for(f"{received} received", lambda: self.stats().received >= received)
        self.request("log.flush")
        stats = self.stats()
        assert stats.received == received, stats.reply
        stats.check()
        assert stats.pending == 0, stats.reply
        return stats

    # --- clients

    def socket(self, kind):
        """A socket that is closed at the end of the test."""
        socket = self.context.socket(kind)
        socket.linger = 0
        self.sockets.append(socket)
        return socket

    def push(self, linger=20_000):
        """A plain PUSH socket at the log endpoint."""
        push = self.context.socket(zmq.PUSH)
        push.linger = linger
        push.sndtimeo = 30_000
        push.ipv6 = True
        push.connect(self.endpoints["logs"])
        return push

    def send(self, *messages):
        """Sends messages, each bytes, str or a list of frames, by a socket of their own."""
        with self.push() as push:
            for message in messages:
                if isinstance(message, list):
                    push.send_multipart(message)
                else:
                    push.send(message.encode() if isinstance(message, str) else message)

    def subscribe(self, *topics, hwm=100_000, seconds=WATCHDOG):
        """A plain SUB socket at the event endpoint, its subscriptions in force; `recv_event` reads from it."""
        sub = self.socket(zmq.SUB)
        sub.rcvhwm = hwm
        sub.connect(self.endpoints["events"])
        for topic in topics:
            sub.subscribe(topic)
        sync = f"~sync/{uuid.uuid4()}/"
        sub.subscribe(sync)
        while (event := recv_event(sub, seconds)).topic != sync:
            pass
        return Subscription(sub, event)

    # --- files

    def files(self, pattern="*"):
        """All log files whose name matches, rotated ones first, in the order of their names."""
        def key(path):
            name = path.name.removesuffix(".gz")
            return (path.parent, name == "gateway.log", natural(name))
        return sorted((p for p in self.log_dir.rglob(pattern) if p.is_file()), key=key)

    def log_text(self, pattern="gateway*"):
        """The text of all log files, rotated and packed ones too."""
        return "".join(content(path) for path in self.files(pattern))

    def records(self, source=None, pattern="gateway*"):
        """The lines of all text log files, parsed; fails at a torn line. `source` selects."""
        return [line for line in parse(self.log_text(pattern)) if source is None or line["source"] == source]

    def texts(self, source="logs", pattern="gateway*"):
        return [line["text"] for line in self.records(source, pattern)]


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def content(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8")


def parse(text):
    """Text lines as dicts; a line that is torn, or not a record, fails."""
    assert not text or text.endswith("\n"), f"the last line is torn: {text[-200:]!r}"
    records = []
    for line in text.split("\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match, f"not a record: {line[:300]!r}"
        records.append(match.groupdict())
    return records


def fill(folder):
    """Fills the disk of a folder. Returns the file to remove in order to have space again."""
    filler = folder / "filler"
    try:
        with open(filler, "wb", buffering=0) as f:
            while f.write(b"\0" * 4096):
                pass
    except OSError:
        pass
    return filler


def end_by_itself(gateway, seconds=20.0):
    """Runs a gateway that must not start. Returns exit code, stderr and the time it took."""
    start = time.monotonic()
    gateway.spawn()
    code = gateway.exit_code(seconds)
    return code, gateway.stderr(), time.monotonic() - start


def hwgate(*args, env=None, seconds=WATCHDOG, cwd=None):
    """Runs the program's command line."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HWGATE_")} | (env or {})
    return subprocess.run([binary(), *args], env=clean, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds)


# --- producers ------------------------------------------------------------------------------------


def payload(name, n):
    """The text that producer `name` sends as its number `n`; of varying length, so that a torn or
    mixed line cannot look like another."""
    return f"{name} {n:08d} " + "Grüße 😀 " * (n % 7) + f"end{n}"


class Producer:
    """A plain pyzmq process that sends numbered lines until it is told to end."""

    def __init__(self, folder, endpoint, name, *, rate=1000, form="utf8"):
        self.name = name
        self.out = pathlib.Path(folder) / f"{name}.out"
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "producer.py"), endpoint, name, str(rate), form], stdout=out, cwd=HERE)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        """Ends it normally; returns how many messages it has sent."""
        self.process.send_signal(signal.SIGTERM)
        return self.sent()

    def sent(self):
        code = self.process.wait(WATCHDOG)
        if code == -signal.SIGTERM:
            return 0  # it had not come as far as its first message
        assert code == 0, f"producer {self.name} ended with {code}"
        return int(self.out.read_text().split()[-1])


NUMBERED = re.compile(r"(\S+) (\d{8}) .*")


def sequences(texts):
    """Numbers by producer, in the order of the files. Fails where a line is not what was sent, a number comes
    twice or out of order."""
    found = {}
    for text in texts:
        match = NUMBERED.fullmatch(text)
        assert match, f"not a producer's line: {text[:200]!r}"
        name, n = match[1], int(match[2])
        assert text == payload(name, n), f"torn or mixed: {text[:200]!r}"
        numbers = found.setdefault(name, [])
        assert not numbers or n > numbers[-1], f"{name}: {n} after {numbers[-1]}"
        numbers.append(n)
    return found


def c_push():
    """The shared load in C, compiled once."""
    source = shared("peers", "push.c")
    target = ROOT / "build" / "peers" / "push"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        compiler = shutil.which("cc")
        if not compiler:
            pytest.skip("there is no C compiler for peers/push.c")
        target.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([compiler, "-O2", str(source), "-o", str(target), "-lzmq", "-lpthread"], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"peers/push.c does not compile (libzmq3-dev installed?): {made.stderr.strip().splitlines()[-1:]}")
    return str(target)


def pwsh():
    return str(shared("pwsh", "pwsh"))


def ps_strings(texts):
    """Texts as a PowerShell array."""
    return "@(" + ",".join("'" + text.replace("'", "''") + "'" for text in texts) + ")"
