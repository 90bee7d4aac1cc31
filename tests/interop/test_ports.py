"""Endpoints: what is listened on is told, and nobody shares a port, a path or a journal."""
import socket
import threading
import time

import pytest

from hwgate_test import EX_CONFIG, EX_UNAVAILABLE, end_by_itself, free_port, hwgate


def has_ipv6():
    try:
        free_port("::1")
        return True
    except OSError:
        return False


def refused(second, wanted, first):
    """The second gateway exits 69 at once and says why; two seconds are promised, twenty are the watchdog."""
    code, stderr, took = end_by_itself(second)
    assert code == EX_UNAVAILABLE, stderr
    assert wanted in stderr, stderr
    assert took < 20
    assert not second.log_dir.exists() or second.log_dir == first.log_dir, "ports are bound before files are opened"
    assert first.request("ping") is not None


def test_c28_second_gateway(gateway):
    """Same ports, then same journal: the second exits 69, the first goes on; after SIGKILL a restart works at once."""
    first = gateway("first")
    with first.push() as push:
        for n in range(5):
            push.send_string(f"line {n}")
        refused(gateway.make("same-logs", endpoints={"logs": first.endpoints["logs"]}), first.endpoints["logs"], first)
        refused(gateway.make("same-commands", endpoints={"commands": first.endpoints["commands"]}), first.endpoints["commands"], first)
        refused(gateway.make("same-journal", journal_dir=first.journal_dir, log_dir=first.log_dir), str(first.journal_dir), first)
        refused(gateway.make("same-all", endpoints=first.endpoints, journal_dir=first.journal_dir, log_dir=first.log_dir), "", first)
        for n in range(5, 10):
            push.send_string(f"line {n}")
    first.settle(10)
    assert first.texts() == [f"line {n}" for n in range(10)]
    first.kill()
    start = time.monotonic()
    first.start()
    assert time.monotonic() - start < 20
    first.send("after")
    first.settle(1)
    assert first.texts() == [f"line {n}" for n in range(10)] + ["after"]


def test_c28_a_port_of_another_program(gateway):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        code, stderr, _ = end_by_itself(gateway.make(endpoints={"logs": endpoint}))
    assert code == EX_UNAVAILABLE and endpoint in stderr and "ADDR_IN_USE" in stderr, stderr


def test_c28_ipc_is_not_stolen(gateway, short_folder):
    """A second bind of an ipc path would succeed and take it from the first: a lock file forbids that."""
    endpoint = f"ipc://{short_folder}/c"
    first = gateway("first", endpoints={"commands": endpoint})
    refused(gateway.make("second", endpoints={"commands": endpoint}), endpoint, first)
    first.kill()
    first.start()
    assert first.request("ping") is not None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "*", "0.0.0.0", "[::]"])
def test_c29_listen(gateway, host):
    """Each form works, and what is printed is real: a client connects to exactly that."""
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    wildcard = host in ("*", "0.0.0.0", "[::]")
    g = gateway(endpoints={"logs": f"tcp://{host}:0"}, security={"allow_insecure": True} if wildcard else None)
    port = g.port("logs")
    assert port > 0
    if wildcard:
        assert "allow_insecure" in g.stderr() or "insecure" in g.stderr().lower(), "a warning at each start"
        told = g.request("hello")["endpoints"]["logs"]
        any_host = "[::]" if host == "[::]" else "0.0.0.0"
        assert told == f"tcp://{any_host}:{port}"
        # It stands for the host that the client called, which our own client knows.
        assert hwgate("push", "pushed", env={"HWGATE_URL": g.endpoints["commands"]}).returncode == 0
        g.settle(1)
        g.endpoints["logs"] = told.replace(any_host, "127.0.0.1")
    g.send("heard")
    g.settle(1 + wildcard)
    assert g.texts() == ["pushed"] * wildcard + ["heard"]


def test_c29_a_named_port_stays(gateway):
    port = free_port()
    g = gateway(endpoints={"logs": f"tcp://localhost:{port}"})
    assert g.port("logs") == port
    for host in ("localhost", "127.0.0.1"):
        g.endpoints["logs"] = f"tcp://{host}:{port}"
        g.send(host)
    g.settle(2)
    assert sorted(g.texts()) == ["127.0.0.1", "localhost"]


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1", "tcp://127.0.0.1:70000", "tcp://127.0.0.1:x", "udp://127.0.0.1:1", "127.0.0.1:1",
                                      "tcp://no such host:1", "tcp://", ""])
def test_c29_listen_wrong(gateway, endpoint):
    code, stderr, _ = end_by_itself(gateway.make(endpoints={"logs": endpoint}))
    assert code == EX_CONFIG, stderr
    assert "logs" in stderr and "INVALID_ARGUMENT" in stderr and "panicked" not in stderr, stderr


@pytest.mark.parametrize("endpoint", ["tcp://*:0", "tcp://0.0.0.0:0"])
def test_beyond_loopback_needs_consent(gateway, endpoint):
    code, stderr, _ = end_by_itself(gateway.make(endpoints={"logs": endpoint}))
    assert code == EX_CONFIG and "allow_insecure" in stderr, stderr


def test_c29_clients_connect(gateway):
    """`localhost` reaches a gateway on either family; connecting to `*` is refused in words."""
    for host in ["127.0.0.1", "[::1]"] if has_ipv6() else ["127.0.0.1"]:
        g = gateway(endpoints={"commands": f"tcp://{host}:0"})
        done = hwgate("status", "--check", env={"HWGATE_URL": f"tcp://localhost:{g.port('commands')}"})
        assert done.returncode == 0, (host, done)
        done = hwgate("push", "heard", env={"HWGATE_URL": f"tcp://localhost:{g.port('commands')}"})
        assert done.returncode == 0, (host, done)
        g.settle(1)
    done = hwgate("status", env={"HWGATE_URL": f"tcp://*:{free_port()}"})
    assert done.returncode != 0 and "INVALID_ARGUMENT" in done.stderr and "*" in done.stderr, done


def test_a_wrong_port_is_told_apart(gateway):
    """The other port of the gateway, something that is no ZeroMQ, and something that says nothing: each gets its sentence."""
    g = gateway()
    logs, commands = g.endpoints["logs"], g.endpoints["commands"]

    def said(*args):
        done = hwgate(*args)
        assert done.returncode == EX_UNAVAILABLE, done
        return done.stderr

    assert f"{logs} is the plain log port; connect to commands (10003)" in said("status", "--url", logs)
    assert f"{commands} takes no plain logs; connect to logs (10000)" in said("push", "--endpoint", commands, "x")
    with socket.socket() as web:
        web.bind(("127.0.0.1", 0))
        web.listen()
        endpoint = f"tcp://127.0.0.1:{web.getsockname()[1]}"
        assert f"no gateway answers at {endpoint}" in said("status", "--url", endpoint)

        def serve():
            while True:
                try:
                    peer, _ = web.accept()
                    with peer:
                        peer.recv(100)
                        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                except ConnectionError:
                    pass
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        assert f"{endpoint} is not a gateway's endpoint" in said("status", "--url", endpoint)
        web.shutdown(socket.SHUT_RDWR)
    assert g.stats().received == 0


def test_off_closes_an_endpoint(gateway):
    g = gateway(endpoints={"logs": "off"})
    assert "logs" not in g.printed and not g.request("hello")["endpoints"].get("logs")
