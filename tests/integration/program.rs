//! Runs the built program under a watchdog, with nothing of the caller's settings.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No test waits longer than this for anything.
pub const WATCHDOG: Duration = Duration::from_secs(30);

/// The program in a folder, without `HWGATE_` variables and without a service manager.
pub fn hwgate(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hwgate"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HWGATE_") || text == "NOTIFY_SOCKET" || text.starts_with("WATCHDOG_") {
            command.env_remove(name);
        }
    }
    command
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs to the end.
pub fn run(mut command: Command) -> Ended {
    wait(command.spawn().unwrap())
}

/// Runs to the end with this on standard input.
pub fn run_with_input(mut command: Command, input: &[u8]) -> Ended {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    wait(child)
}

/// Waits for the end, and kills what does not come to one.
pub fn wait(mut child: Child) -> Ended {
    let deadline = Instant::now() + WATCHDOG;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the program did not end: {:?}", child.wait_with_output().unwrap());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Ended {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// A running gateway with ports of its own, killed at the end of the test.
pub struct Gateway {
    pub child: Option<Child>,
    /// The `commands` endpoint.
    pub url: String,
    /// The `logs` endpoint.
    pub logs: String,
    // Kept open, so that the gateway can write to it.
    _out: BufReader<ChildStdout>,
}

impl Gateway {
    /// Starts `hwgate run` with free ports and waits until it has said all endpoints.
    pub fn start(mut command: Command) -> Gateway {
        command.args([
            "--set",
            "endpoints.commands=tcp://127.0.0.1:0",
            "--set",
            "endpoints.logs=tcp://127.0.0.1:0",
            "--set",
            "endpoints.events=tcp://127.0.0.1:0",
        ]);
        // Nobody reads it while the gateway runs; a full pipe would stop it.
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut endpoint = |name: &str| loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "the gateway ended before it said {name}");
            if let Some((_, endpoint)) = line.trim().split_once(' ').filter(|(first, _)| *first == name) {
                return endpoint.to_owned();
            }
        };
        let url = endpoint("commands");
        let logs = endpoint("logs");
        endpoint("events");
        Gateway { child: Some(child), url, logs, _out: out }
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Ended {
        wait(self.child.take().unwrap())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
