"""Requests and events: round trips beside a bare libzmq echo, events a second, and the way from a pty to a subscriber.

usage: ./dev bench events [--quick] [--output FILE]

The figures of a run are written to docs/PERFORMANCE.md, between the markers for events.
"""
import argparse
import base64
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tty

import zmq

import report
from report import BUILD, ROOT

LOAD = BUILD / "events_load"
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
LINE = b"4006381333931 a scan of 20 bytes or so\n"


class Gateway:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        program = os.environ.get("HWGATE_BIN") or str(ROOT / "target/release/hwgate")
        config = self.folder / "hwgate.toml"
        any_port = "".join(f'{name} = "tcp://127.0.0.1:0"\n' for name in ("commands", "logs", "events"))
        config.write_text(f'[endpoints]\n{any_port}[[serial]]\nid = "sim"\npath = "sim:loop"\n[events]\nsend_hwm = 2000000\n')
        env = {key: value for key, value in os.environ.items() if not key.startswith("HWGATE_")}
        self.process = subprocess.Popen([program, "run", "--config", str(config)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env, text=True)
        self.endpoints = dict(self.process.stdout.readline().split() for _ in range(3))
        self.context = zmq.Context()
        self.req = self.context.socket(zmq.REQ)
        self.req.linger, self.req.rcvtimeo = 0, 60_000
        self.req.connect(self.endpoints["commands"])
        while self.request("serial.status", id="sim")["state"] != "open":
            time.sleep(0.01)

    def request(self, method, **params):
        self.req.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        reply = json.loads(self.req.recv())
        if "error" in reply:
            sys.exit(f"{method}: {reply['error']}")
        return reply["result"]

    def subscriber(self, topic, count):
        counter = subprocess.Popen([str(LOAD), "count", self.endpoints["events"], topic, str(count)],
                                   stdout=subprocess.PIPE, text=True)
        if counter.stdout.readline().strip() != "ready":
            sys.exit("the counting subscriber did not start")
        return counter

    def close(self):
        self.req.close()
        self.context.term()
        self.process.terminate()
        self.process.wait(20)


def ping(endpoint, count):
    done = subprocess.run([str(LOAD), "ping", endpoint, str(count), PING], stdout=subprocess.PIPE, check=True, text=True)
    return [float(word) for word in done.stdout.split()]


def round_trips(gateway, count, repetitions):
    """Medians of interleaved repetitions: (hwgate p50, p99, echo p50, p99), us."""
    echo = subprocess.Popen([str(LOAD), "echo", "tcp://127.0.0.1:*"], stdout=subprocess.PIPE, text=True)
    bare = echo.stdout.readline().split()[1].strip("\0\n")
    rows = []
    for _ in range(repetitions):
        rows.append(ping(gateway.endpoints["commands"], count) + ping(bare, count))
    echo.kill()
    echo.wait()
    return [statistics.median(column) for column in zip(*rows)]


def injected(gateway, count):
    """Events that one simulated port publishes from blocks of lines, to one subscriber: a second, lost."""
    block = LINE * 10_000
    counter = gateway.subscriber("serial/sim/rx/", count)
    for _ in range(count // 10_000):
        gateway.request("sim.inject", id="sim", data=block.decode())
    seconds, seen, lost = counter.communicate(timeout=120)[0].split()
    return int(seen) / float(seconds), int(lost)


def published(gateway, count):
    """Events that one client publishes, a request each, 1000 under way: a second, lost."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "events.publish",
                       "params": {"topic": "app/bench/", "data": LINE.decode().strip()}})
    counter = gateway.subscriber("app/bench/", count)
    subprocess.run([str(LOAD), "publish", gateway.endpoints["commands"], str(count), body, "1000"],
                   stdout=subprocess.DEVNULL, check=True)
    seconds, seen, lost = counter.communicate(timeout=120)[0].split()
    return int(seen) / float(seconds), int(lost)


def pty_to_subscriber(gateway, count):
    """Last byte written to the pty until the subscriber has the event: sorted, ms."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    gateway.request("serial.open", id="pty", path=os.ttyname(theirs), baud=115200)
    sub = gateway.context.socket(zmq.SUB)
    sub.linger, sub.rcvtimeo = 0, 30_000
    sub.connect(gateway.endpoints["events"])
    sub.subscribe("serial/pty/rx/")
    sub.subscribe("~sync/pty/")
    sub.recv_multipart()
    took = []
    for n in range(count):
        os.write(ours, b"scan %d" % n)
        time.sleep(0.002)
        start = time.perf_counter()
        os.write(ours, b"\n")
        frames = sub.recv_multipart()
        took.append((time.perf_counter() - start) * 1e3)
        assert frames[2] == b"scan %d" % n, frames
    gateway.request("serial.close", id="pty")
    sub.close()
    os.close(ours)
    os.close(theirs)
    return sorted(took)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=pathlib.Path, default=report.PAGE)
    options = parser.parse_args()
    report.build(ROOT / "benches/events_load.c", "-D_GNU_SOURCE", "-Wall")
    share = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(folder)
        p50, p99, bare_p50, bare_p99 = round_trips(gateway, 20_000 // share, 5 if share == 1 else 2)
        inject_rate, inject_lost = injected(gateway, 1_000_000 // share)
        publish_rate, publish_lost = published(gateway, 500_000 // share)
        latency = pty_to_subscriber(gateway, 2_000 // share)
        gateway.close()
    rows = [
        ("`ping`, round trip, median (99 %)", f"{p50:.0f} ({p99:.0f}) us",
         f"{p50 / bare_p50:.2f} x a bare libzmq REQ/ROUTER echo: {bare_p50:.0f} ({bare_p99:.0f}) us"),
        ("events of one simulated port to one subscriber", f"{inject_rate:,.0f} /s", f"{inject_lost} lost"),
        ("`events.publish` by one client, one request each, to one subscriber", f"{publish_rate:,.0f} /s",
         f"{publish_lost} lost"),
        ("last byte at a pty until a subscriber has the event, median (99 %)",
         f"{latency[len(latency) // 2]:.2f} ({latency[len(latency) * 99 // 100]:.2f}) ms", "subscriber in Python"),
    ]
    today = datetime.date.today().isoformat()
    machine = report.machine(platform.release())
    text = [f"Measured on {today} on one machine: {machine}. Clients and gateway share the cores. Made by `./dev bench events`.", "",
            "| what | figure | |", "|---|---:|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    print("\n".join(text))
    report.write(options.output, "events", "\n".join(text))


main()
