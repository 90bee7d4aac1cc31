"""hwgate's forwarder beside what a user would run instead, and the limit, under one load, in one run.

usage: ./dev bench forward [--quick] [--only NAME,...] [--output FILE]

Each repetition runs every forwarder once, one after another and in rotating order, each in a fresh process, so that a
change of the machine meets all of them. Medians are written to docs/PERFORMANCE.md, between the markers for forward;
a ratio is the median of the ratios within the repetitions.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import zmq

import report
from log_bench import Lines, await_port
from report import BUILD, PEERS, ROOT

HWGATE = pathlib.Path(os.environ.get("HWGATE_BIN") or ROOT / "target/release/hwgate")
SIZE = 100
PYZMQ_MONITOR = "tcp://127.0.0.1:19979"  # fixed in pyzmq_forwarder.py
LIMIT, PLAIN, MONITORED = "limit (libzmq's zmq_proxy)", "hwgate", "hwgate with a monitor"


class Forwarder:
    """One row: how it is started, and what was measured. A `kind` is an argument of pyzmq_forwarder.py."""

    def __init__(self, name, kind=None, monitored=False, journal=False):
        self.name, self.kind, self.monitored, self.journal = name, kind, monitored, journal
        self.missing = None if kind or name == LIMIT or HWGATE.exists() else "it is not built"
        self.rates, self.file_rates, self.seen, self.lost = [], [], [], []

    def start(self, folder):
        names = free_endpoints(3)
        if self.kind == "queue":
            names[2] = PYZMQ_MONITOR
        ends = dict(zip(("input", "output", "monitor")[:3 if self.monitored else 2], names))
        if self.kind:
            return Peer(self.name, [sys.executable, str(PEERS / "pyzmq_forwarder.py")], ends, [self.kind])
        if self.name == LIMIT:
            return Peer(self.name, [str(BUILD / "limit_forwarder")], ends)
        return Gateway(folder, ends, self.journal)


def forwarders():
    return [
        Forwarder(LIMIT),
        Forwarder("pyzmq device", "device"),
        Forwarder("pyzmq proxy", "proxy"),
        Forwarder(PLAIN),
        Forwarder("hwgate, `journal = true`", journal=True),
        Forwarder("pyzmq monitored queue", "queue", monitored=True),
        Forwarder(MONITORED, monitored=True),
    ]


def free_endpoints(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    names = [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return names


class Peer:
    def __init__(self, name, program, ends, more=()):
        self.ends = ends
        self.process = subprocess.Popen([*program, ends["input"], ends["output"], *more], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, start_new_session=True)
        try:
            # The one that is bound last.
            await_port(int((ends.get("monitor") or ends["output"]).rsplit(":", 1)[1]), self.process, name)
        except BaseException:
            self.close()
            raise

    def close(self):
        """pyzmq forwards in a child of its own, which outlives its parent: the group is ended, and the pipe that all
        of it holds tells when the last is gone and the ports are free."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


class Gateway:
    def __init__(self, folder, ends, journal):
        self.folder, self.ends = pathlib.Path(folder), ends
        config, said = self.folder / "hwgate.toml", self.folder / "stderr"
        forward = "".join(f'{key} = "{end}"\n' for key, end in ends.items())
        forward += "".join(f"{key} = 10000000\n" for key in ("receive_hwm", "send_hwm", "monitor_hwm"))
        config.write_text('[gateway]\nlog_dir = "logs"\n'
                          '[endpoints]\ncommands = "tcp://127.0.0.1:0"\nlogs = "off"\nevents = "off"\n'
                          f"[[forward]]\n{forward}journal = {'true' if journal else 'false'}\n")
        env = {key: value for key, value in os.environ.items() if not key.startswith("HWGATE_")}
        with open(said, "wb") as stderr:
            self.process = subprocess.Popen([str(HWGATE), "run", "--config", str(config)], stdout=subprocess.PIPE,
                                            stderr=stderr, env=env, text=True)
        self.context = zmq.Context()
        try:
            printed = {}
            while "commands" not in printed or not set(ends.values()) <= set(printed.values()):
                line = self.process.stdout.readline()
                if not line:
                    sys.exit(f"hwgate ended before it listened on all of its endpoints:\n{said.read_text()}")
                name, _, endpoint = line.strip().partition(" ")
                printed[name if name not in printed else f"{name} {endpoint}"] = endpoint.strip()
            self.req = self.context.socket(zmq.REQ)
            self.req.linger, self.req.rcvtimeo = 0, 60_000
            self.req.connect(printed["commands"])
        except BaseException:
            self.close()
            raise

    def request(self, method, **params):
        self.req.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        reply = json.loads(self.req.recv())
        if "error" in reply:
            sys.exit(f"{method}: {reply['error']}")
        return reply["result"]

    def stats(self, count):
        """What it counted, which has to add up. The last message may be at its subscriber before it is counted."""
        end = time.monotonic() + 2
        while True:
            stats = self.request("forward.stats")["forwards"][0]
            dropped = sum(stats["dropped"].values())
            if stats["in"] >= count and stats["in"] == stats["out"] + dropped:
                break
            if time.monotonic() > end:
                sys.exit(f"hwgate's counts do not add up after {count} messages and some probes: {stats}")
            time.sleep(0.02)
        if dropped:
            sys.exit(f"hwgate dropped messages: {stats}")
        return stats

    def last_line(self, count):
        """When the log file had all lines, by the clock. They are counted only now, and the file's own time taken,
        since reading it during the load would take the cores from those that are measured."""
        logs = self.folder / "logs"
        lines, end = Lines(logs), time.monotonic() + 120
        while lines.look() < count and time.monotonic() < end:
            time.sleep(0.02)
        if lines.count != count:
            sys.exit(f"hwgate, journal = true: {lines.count} of {count} messages are in the log file")
        return max(path.stat().st_mtime for path in logs.rglob("*") if path.is_file())

    def close(self):
        self.context.destroy(linger=0)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Monitor:
    """The subscriber of a monitor, joined: messages go in until it has seen one."""

    def __init__(self, ends):
        self.process = subprocess.Popen([str(BUILD / "forward_monitor"), ends["monitor"]], stdout=subprocess.PIPE,
                                        text=True)
        end = time.monotonic() + 30
        with zmq.Context() as context, context.socket(zmq.PUB) as pub:
            pub.linger = 0
            pub.connect(ends["input"])
            while not select.select([self.process.stdout], [], [], 0.05)[0]:
                if time.monotonic() > end:
                    self.close()
                    sys.exit(f"the monitor at {ends['monitor']} passes nothing on")
                pub.send_multipart([b"probe", b"p"])
        if self.process.stdout.readline().strip() != "ready":
            sys.exit("the monitor's subscriber did not start")

    def seen(self):
        """How many messages of the load it saw, once nothing more came."""
        try:
            said = self.process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            self.process.terminate()
            said = self.process.communicate(timeout=10)[0]
        seen, probes = map(int, said.split())
        return seen - probes

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def measure(forwarder, count):
    # Below build/ as in hwgate_server.sh, since /tmp may be memory, where a journal costs less.
    with tempfile.TemporaryDirectory(prefix="forward-", dir=ROOT / "build") as folder:
        running, monitor = forwarder.start(folder), None
        try:
            if forwarder.monitored:
                monitor = Monitor(running.ends)
            load = subprocess.run([str(BUILD / "forward_load"), running.ends["input"], running.ends["output"],
                                   str(count), str(SIZE)], stdout=subprocess.PIPE, text=True)
            ended = time.time()
            found = re.match(r"(\d+)/(\d+) forwarded\s+([\d.]+) s\s+(\d+) msg/s", load.stdout)
            if load.returncode or not found or int(found[1]) != count:
                sys.exit(f"{forwarder.name}: the load has not got back what it sent: {load.stdout.strip() or load}")
            rate = int(found[4])
            forwarder.rates.append(rate)
            text = f"  {forwarder.name:<28} {rate:>9,} msg/s"
            if monitor:
                seen = monitor.seen()
                forwarder.seen.append(seen)
                text += f"  its monitor saw {seen:,}"
            if isinstance(running, Gateway):
                stats = running.stats(count)
                if monitor:
                    lost = stats["monitor"]["lost"]
                    forwarder.lost.append(lost)
                    text += f", {lost:,} lost by its own count"
                    if count - seen > lost:
                        sys.exit(f"{forwarder.name}: its monitor lost {count - seen} messages, but counted {stats}")
                if forwarder.journal:
                    took = count / rate + max(0.0, running.last_line(count) - ended)
                    forwarder.file_rates.append(count / took)
                    text += f"  {count / took:,.0f} lines/s in the log file"
            print(text, flush=True)
        finally:
            if monitor:
                monitor.close()
            running.close()


def ratio(rates, base):
    """The median of the ratios within each repetition, as a cell."""
    if base is None or not base.rates:
        return "–"
    return f"{statistics.median(one / other for one, other in zip(rates, base.rates)):.2f}"


def page(found, count, repetitions):
    """The measured part of the page."""
    base = {f.name: f for f in found}
    limit, plain, monitored = (base.get(name) for name in (LIMIT, PLAIN, MONITORED))
    lines = [f"Measured on {datetime.date.today().isoformat()} on one machine: {report.machine()}. {count:,} messages "
             f"of a topic and {SIZE} bytes, from the first until a subscriber has the last; medians of {repetitions} "
             "interleaved repetitions, ratios within a repetition. Load, forwarder and subscribers share the cores. "
             "Made by `./dev bench forward`.", "",
             "| forwarder | msg/s | x limit | x hwgate |", "|---|---:|---:|---:|"]

    def row(name, rates, *cells):
        lines.append(f"| {name} | {statistics.median(rates):,.0f} | {' | '.join(cells)} |")

    for f in found:
        if f.missing and not f.monitored:
            lines.append(f"| {f.name} | not measured: {f.missing} | | |")
        elif not f.monitored:
            row(f.name, f.rates, ratio(f.rates, limit), ratio(f.rates, plain))
            if f.journal:
                row(f"{f.name}, until the log file has the last line", f.file_rates, ratio(f.file_rates, limit),
                    ratio(f.file_rates, plain))
    lines += ["", "With one subscriber at the monitor, a process of its own that reads everything. pyzmq's monitor "
              "keeps libzmq's default of 1,000 waiting messages, hwgate's is set to 10,000,000.", "",
              "| forwarder | msg/s | x hwgate | its monitor saw |", "|---|---:|---:|---:|"]
    for f in found:
        if f.missing and f.monitored:
            lines.append(f"| {f.name} | not measured: {f.missing} | | |")
        elif f.monitored:
            lost = f", {statistics.median(f.lost):,.0f} lost by its own count" if f.lost else ""
            row(f.name, f.rates, ratio(f.rates, monitored), f"{statistics.median(f.seen):,.0f} of {count:,}{lost}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, two repetitions")
    parser.add_argument("--only", default="", help="parts of forwarder names, separated by commas")
    parser.add_argument("--output", type=pathlib.Path, default=report.PAGE)
    options = parser.parse_args()
    count, repetitions = (50_000, 2) if options.quick else (500_000, 5)

    for source in (PEERS / "forward_load.c", PEERS / "limit_forwarder.c"):
        report.build(source)
    report.build(ROOT / "benches/forward_monitor.c", "-D_GNU_SOURCE", "-Wall")
    found = [f for f in forwarders() if not options.only or any(part in f.name for part in options.only.split(","))]
    for forwarder in found:
        if forwarder.missing:
            print(f"SKIPPED: {forwarder.name} because {forwarder.missing}")
    present = [f for f in found if not f.missing]
    for repetition in range(repetitions):
        print(f"repetition {repetition + 1} of {repetitions}", flush=True)
        first = repetition % max(len(present), 1)
        for forwarder in present[first:] + present[:first]:
            measure(forwarder, count)
    measured = page(found, count, repetitions)
    print(measured)
    report.write(options.output, "forward", measured)


if __name__ == "__main__":
    main()
