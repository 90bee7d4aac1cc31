//! Events, requests and simulated ports from the command line.

use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Ended, Gateway, WATCHDOG, hwgate, run, run_with_input, wait};

const SETTINGS: &str = "[[serial]]\nid = \"scanner\"\npath = \"sim:loop\"\n[audio]\noutput = \"null\"\n";

struct Rig {
    dir: tempfile::TempDir,
    gateway: Gateway,
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hwgate.toml"), SETTINGS).unwrap();
        let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
        let rig = Rig { dir, gateway };
        let deadline = Instant::now() + WATCHDOG;
        while rig.json(&["request", "serial.status", "id=scanner"])["state"] != "open" {
            assert!(Instant::now() < deadline, "the scanner does not open");
        }
        rig
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = hwgate(self.dir.path(), args);
        command.args(["--url", &self.gateway.url]);
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{args:?} {ended:?}");
        serde_json::from_str(&ended.out).unwrap()
    }

    /// A `tail` that has begun to listen.
    fn tail(&self, args: &[&str]) -> Child {
        let before = self.json(&["request", "stats"])["events"]["subscriptions"].as_u64().unwrap();
        let child = self.command(args).spawn().unwrap();
        let deadline = Instant::now() + WATCHDOG;
        while self.json(&["request", "stats"])["events"]["subscriptions"].as_u64().unwrap() <= before {
            assert!(Instant::now() < deadline, "tail does not subscribe");
        }
        child
    }
}

#[test]
fn a_scan_is_shown_and_an_answer_printed() {
    let rig = Rig::new();
    let people = rig.tail(&["tail", "-n", "3", "serial/scanner/", "--timeout", "20", "--color", "always"]);
    let programs = rig.tail(&["tail", "-n", "2", "serial/scanner/rx", "--timeout", "20", "--json"]);
    let scan = rig.run(&["sim", "scanner", "4006381333931"]);
    assert_eq!((scan.code, scan.err.as_str()), (0, ""), "{scan:?}");
    let written = rig.json(&["request", "-e", "serial.write", "id=scanner", r"data=\x00\xff\n"]);
    assert_eq!(written["written"], 3);
    let programs = wait(programs);
    let events: Vec<Value> = programs.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["data"], &events[1]["data_base64"]), (&"4006381333931".into(), &"AP8=".into()));
    assert_eq!((programs.code, events.len()), (0, 2));
    let people = wait(people);
    assert!(
        people.out.contains("\x1b[1m4006381333931\x1b[0m") && people.out.contains(r"\x00\xff"),
        "{people:?}"
    );
    assert!(!people.out.contains("/raw/"), "{people:?}");

    let answer =
        rig.json(&["request", "serial.transact", "id=scanner", r"expect_regex=T=(\d+)", "data:=\"T=21\\n\""]);
    assert_eq!(answer["captures"], serde_json::json!(["21"]));
    let from_stdin = run_with_input(rig.command(&["sim", "scanner"]), b"one\ntwo\n");
    assert_eq!(from_stdin.code, 0);
    assert_eq!(rig.json(&["request", "serial.status", "id=scanner"])["rx_frames"], 5);
}

#[test]
fn what_is_wrong_is_said_and_the_exit_code_tells() {
    let rig = Rig::new();
    for (args, code, says) in [
        (&["request", "serial.writ"][..], 1, "did you mean serial.write?"),
        (&["request", "serial.write", "id=scanner", "data"], 64, "NAME=VALUE"),
        (&["request", "serial.write", "id=scanner", "daat=x"], 64, "did you mean data?"),
        (&["request", "serial.write", "id=scaner", "data=x"], 1, "did you mean scanner?"),
        (&["request", "serial.write", "id=scanner", "timeout_ms=soon", "data=x"], 64, "a whole number"),
        (&["sim", "other", "x"], 1, "NOT_FOUND"),
        (&["tail", "app/none", "-n", "1", "--timeout", "200ms"], 69, "0 of 1 events"),
        (&["tail", "a//b"], 64, "INVALID_ARGUMENT"),
    ] {
        let ended = rig.run(args);
        assert!(ended.code == code && ended.err.contains(says), "{args:?} {ended:?}");
    }
    let nobody = tempfile::tempdir().unwrap();
    let start = Instant::now();
    for args in [&["tail"][..], &["request", "ping"], &["sim", "a", "b"]] {
        let mut command = hwgate(nobody.path(), args);
        command.args(["--url", "tcp://127.0.0.1:9"]);
        let ended = run(command);
        assert!(ended.code == 69 && ended.err.contains("no gateway answers"), "{args:?} {ended:?}");
    }
    assert!(start.elapsed() < WATCHDOG + Duration::from_secs(60));
}

#[test]
fn ports_and_completions_are_printed() {
    let rig = Rig::new();
    let ports = rig.json(&["ports", "--json"]);
    assert!(ports["ports"].is_array() && ports["open"][0]["id"] == "scanner", "{ports}");
    assert_eq!(rig.run(&["ports"]).code, 0);
    let toml = rig.run(&["ports", "--toml"]);
    assert_eq!(toml.out.matches("[[serial]]").count(), ports["ports"].as_array().unwrap().len(), "{toml:?}");
    let methods = rig.run(&["request"]);
    for method in ["serial.transact id ", "audio.play ", "ping\n"] {
        assert!(methods.out.contains(method), "{methods:?}");
    }
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = rig.run(&["completions", shell]);
        assert!(
            script.code == 0 && script.out.contains("transact") | script.out.contains("request"),
            "{shell}"
        );
    }
}

/// What a script says in the second before the end is heard, and a gateway that starts again is heard as well.
#[test]
fn tail_lives_through_a_restart() {
    let rig = Rig::new();
    let tail = rig.tail(&["tail", "-n", "2", "gateway/", "app/", "--timeout", "25", "--json"]);
    let Rig { dir, gateway } = rig;
    let url = gateway.url.clone();
    let stop = run({
        let mut command = hwgate(dir.path(), &["stop"]);
        command.args(["--url", &url]);
        command
    });
    assert_eq!(stop.code, 0, "{stop:?}");
    gateway.wait();
    let mut again = hwgate(dir.path(), &["run", "--set"]);
    again.arg(format!("endpoints.commands={url}"));
    again.args(["--set", "endpoints.logs=tcp://127.0.0.1:0", "--set", "endpoints.events=tcp://127.0.0.1:0"]);
    let mut child = again.spawn().unwrap();
    let tail = wait(tail);
    let _ = child.kill();
    let _ = child.wait();
    let states: Vec<String> = tail
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((tail.code, states), (0, vec!["stopping".to_owned(), "started".to_owned()]), "{}", tail.err);
    assert!(tail.err.contains("started again"), "{}", tail.err);
}
