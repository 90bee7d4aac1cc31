"""The program: its settings, signals and exit codes."""
import json
import signal
import time

from hwgate_test import EX_CONFIG, EX_UNAVAILABLE, EX_USAGE, WATCHDOG, end_by_itself, free_port, hwgate, parse, sequences, wait_for


def test_sigterm_under_load(gateway, producers):
    """Exit 0, and nothing that was received is lost: what is in the files has no gap, and is all the journal holds."""
    g = gateway(log=[{"path": "gateway.log"}, {"path": "all.jsonl", "format": "json"}])
    running = [producers(g.endpoints["logs"], f"p{n}", rate=0 if n == 0 else 2000) for n in range(4)]
    wait_for("load", lambda: g.stats().received > 50_000)
    took = g.stop()
    assert took < 50, "five seconds are promised, fifty are the watchdog"
    if took > 5:
        print(f"NOTE: SIGTERM under load took {took:.1f} s")
    first = sequences(line["text"] for line in parse(g.log_text()) if line["source"] == "logs")
    for name, numbers in first.items():
        assert numbers == list(range(len(numbers))), f"{name}: a gap"
    texts = [json.loads(line)["text"] for line in (g.log_dir / "all.jsonl").read_text("utf-8").splitlines()]
    assert texts == [line["text"] for line in parse(g.log_text())]
    # The producers go on with the next gateway, where they left off or later; nothing is written twice.
    g.start()
    for one in running:
        one.process.terminate()
    for one in running:
        one.sent()
    g.request("log.flush")
    g.stop()
    sequences(line["text"] for line in parse(g.log_text()) if line["source"] == "logs")


def test_a_second_signal_quits(gateway, producers):
    g = gateway()
    producers(g.endpoints["logs"], "p0", rate=0)
    wait_for("load", lambda: g.stats().received > 1000)
    g.process.send_signal(signal.SIGTERM)
    g.process.send_signal(signal.SIGTERM)
    g.exit_code()
    g.start()
    g.request("log.flush")
    g.stop()
    sequences(line["text"] for line in parse(g.log_text()) if line["source"] == "logs")


def test_sigint_stops_too(gateway):
    g = gateway()
    g.send("x")
    g.settle(1)
    g.process.send_signal(signal.SIGINT)
    assert g.exit_code() == 0
    assert g.texts() == ["x"]


def test_shutdown_command(gateway):
    g = gateway()
    g.send("x")
    g.settle(1)
    g.request("shutdown")
    assert g.exit_code() == 0
    assert g.texts() == ["x"]


def test_sighup_with_a_bad_file_keeps_the_old_settings(gateway):
    g = gateway()
    good = g.config.read_text("utf-8")
    g.send("one")
    g.settle(1)
    for bad in ("this is not TOML [", good.replace("[gateway]", "[gateway]\nlog_dri = 1"), good.replace("gateway.log", "../x.log")):
        before = len(g.stderr())
        g.config.write_text(bad, encoding="utf-8")
        g.process.send_signal(signal.SIGHUP)
        wait_for("the reason on stderr", lambda: "hwgate.toml" in g.stderr()[before:])
    g.send("two")
    g.settle(2)
    assert g.texts() == ["one", "two"] and g.alive()


def test_reload_covers_log_sinks(gateway):
    """A new [[log]] is in force after SIGHUP, from then on; a changed endpoint is named and waits for a restart."""
    g = gateway()
    g.send("one")
    g.settle(1)
    g.log = [{"path": "gateway.log"}, {"path": "second.jsonl", "format": "json"}]
    commands = g.endpoints["commands"]
    g.endpoints["commands"] = f"tcp://127.0.0.1:{free_port()}"
    g.config.write_text(g.config_text(), encoding="utf-8")
    g.endpoints["commands"] = commands
    g.process.send_signal(signal.SIGHUP)
    wait_for("two sinks", lambda: len(g.stats().sinks) == 2)
    g.send("two")
    g.settle(2)
    assert [json.loads(line)["text"] for line in (g.log_dir / "second.jsonl").read_text("utf-8").splitlines()] == ["two"]
    assert g.texts() == ["one", "two"]
    assert "endpoints" in g.stderr() and "restart" in g.stderr(), g.stderr()


def test_reload_command_says_what_is_wrong(gateway):
    from hwgate_test import RpcError
    g = gateway()
    g.config.write_text("[gateway]\nnmae = 1\n", encoding="utf-8")
    try:
        g.request("config.reload")
    except RpcError as error:
        assert "nmae" in error.message and "name" in error.message and error.kind == "INVALID_ARGUMENT"
    else:
        raise AssertionError("a bad file was taken")
    assert g.alive()


def test_c36_config_with_a_bom(gateway):
    """PowerShell 5.1 writes one; UTF-16 is refused in words."""
    g = gateway.make()
    g.config.write_text(g.config_text(), encoding="utf-8-sig")
    g.start(write_config=False)
    assert g.request("ping") is not None
    g.stop()
    g.config.write_text(g.config_text(), encoding="utf-16")
    g.spawn(write_config=False)
    assert g.exit_code(20) == EX_CONFIG
    assert "UTF-16" in g.stderr() and str(g.config) in g.stderr(), g.stderr()


def test_unknown_keys_name_the_nearest(gateway):
    code, stderr, _ = end_by_itself(gateway.make(gateway={"lgo_dir": "x"}))
    assert code == EX_CONFIG and "lgo_dir" in stderr and "log_dir" in stderr, stderr


def test_environment_wins_over_the_file(gateway, tmp_path):
    g = gateway(env={"HWGATE_GATEWAY_LOG_DIR": str(tmp_path / "elsewhere"), "HWGATE_GATEWAY_NAME": "by-env"})
    assert g.request("hello")["name"] == "hwgate" or g.request("hello")["name"] == "by-env"
    g.log_dir = tmp_path / "elsewhere"
    g.send("x")
    g.settle(1)
    assert g.texts() == ["x"]


def test_exit_codes(tmp_path):
    assert hwgate("--banana").returncode == EX_USAGE
    assert hwgate("banana").returncode == EX_USAGE
    absent = {"HWGATE_URL": f"tcp://127.0.0.1:{free_port()}"}
    start = time.monotonic()
    done = hwgate("status", env=absent)
    assert done.returncode == EX_UNAVAILABLE and absent["HWGATE_URL"] in done.stderr, done
    assert time.monotonic() - start < WATCHDOG
    assert hwgate("run", "--config", str(tmp_path / "none.toml")).returncode == EX_CONFIG


def test_from_init_to_stop(gateway, tmp_path):
    """The way of a new user: each command of the program against a gateway that runs on what `init` wrote."""
    g = gateway.make(env={f"HWGATE_ENDPOINTS_{name}": "tcp://127.0.0.1:0" for name in ("COMMANDS", "LOGS", "EVENTS")})
    assert hwgate("init", "--path", str(g.config)).returncode == 0
    assert hwgate("check", "--config", str(g.config)).returncode == 0
    g.start(write_config=False)
    url = {"HWGATE_URL": g.endpoints["commands"]}

    def ask(*args):
        done = hwgate(*args, env=url)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    assert g.endpoints["commands"] in ask()
    ask("push", "--level", "warn", "--source", "door", "Tür", "offen")
    g.settle(1)
    assert [(r["level"], r["text"]) for r in g.records("door")] == [("WARN ", "Tür offen")]
    assert "intake.received  1" in ask("status")
    assert json.loads(ask("status", "--json"))["stats"]["sinks"][0]["written_records"] == 1
    assert ask("status", "--check").startswith("ok: ")
    moved = (g.log_dir / "gateway.log").rename(g.log_dir / "moved.log")
    ask("reopen")
    assert (g.log_dir / "gateway.log").exists() and "offen" in moved.read_text("utf-8")
    g.config.write_text(g.config.read_text("utf-8") + '\n[[log]]\npath = "errors.log"\nlevel = "error"\n', encoding="utf-8")
    assert "errors.log" in ask("reload")
    ask("push", "ERROR disk")
    g.settle(2)
    assert [r["text"] for r in g.records(pattern="errors.log")] == ["ERROR disk"]
    assert "stopped" in ask("stop")
    assert g.exit_code() == 0


def test_version_says_what_is_in_it():
    done = hwgate("--version")
    assert done.returncode == 0 and "libzmq 4." in done.stdout, done


def test_check(gateway):
    g = gateway.make()
    g.config.write_text(g.config_text(), encoding="utf-8")
    assert hwgate("check", "--config", str(g.config)).returncode == 0
    g.config.write_text("[gateway]\nnmae = 1\n", encoding="utf-8")
    done = hwgate("check", "--config", str(g.config))
    assert done.returncode == EX_CONFIG and "nmae" in done.stderr
