//! The real program as a child process, on ports of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything here takes on a slow machine; a test that waits this long has failed.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A directory with settings, journal and logs for one or several runs.
pub struct Home {
    dir: tempfile::TempDir,
    /// TOML that follows `[endpoints]`, `[gateway]` and `[journal]`.
    tables: String,
    commands: u16,
    logs: u16,
    events: u16,
}

impl Home {
    /// Settings with `tables` behind the fixed ones. Ports are chosen at the first start and stay, so
    /// that clients find the gateway again.
    pub fn new(tables: &str) -> Home {
        Home { dir: tempfile::tempdir().unwrap(), tables: tables.to_owned(), commands: 0, logs: 0, events: 0 }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Lets the next start choose another port for events.
    pub fn forget_events_port(&mut self) {
        self.events = 0;
    }

    /// Writes the settings and starts the program.
    pub fn start(&mut self) -> Gateway {
        let config = self.path().join("hwgate.toml");
        let text = format!(
            "[endpoints]\ncommands = \"tcp://127.0.0.1:{}\"\nlogs = \"tcp://127.0.0.1:{}\"\n\
             events = \"tcp://127.0.0.1:{}\"\n{}",
            self.commands, self.logs, self.events, self.tables
        );
        std::fs::write(&config, text).unwrap();
        let gateway = Gateway::start(&config);
        let port = |name: &str| gateway.endpoint(name).rsplit_once(':').unwrap().1.parse().unwrap();
        (self.commands, self.logs, self.events) = (port("commands"), port("logs"), port("events"));
        gateway
    }

    /// All files of the log directory whose name begins with `stem`, closed ones first, unpacked.
    pub fn log_text(&self, stem: &str) -> String {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.path().join("logs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{stem}.")))
            .collect();
        // `gateway.2026….log` before `gateway.log`.
        files.sort();
        let mut text = String::new();
        for file in files {
            if file.extension().is_some_and(|extension| extension == "gz") {
                let packed = std::fs::File::open(file).unwrap();
                std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
            } else {
                text += &std::fs::read_to_string(file).unwrap();
            }
        }
        text
    }
}

/// A running gateway; killed when dropped.
pub struct Gateway {
    child: Child,
    endpoints: Vec<(String, String)>,
}

impl Gateway {
    pub fn start(config: &Path) -> Gateway {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hwgate"))
            .args(["run", "--config"])
            .arg(config)
            .current_dir(config.parent().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut endpoints = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while endpoints.len() < 3 {
            let line = lines.next().expect("the gateway ended before it served").unwrap();
            if let Some((name, endpoint)) = line.split_once(' ').filter(|(_, e)| e.contains("://")) {
                endpoints.push((name.to_owned(), endpoint.trim().to_owned()));
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        Gateway { child, endpoints }
    }

    pub fn endpoint(&self, name: &str) -> &str {
        &self.endpoints.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// Sends a signal by name, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, then the exit status.
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < WATCHDOG, "the gateway does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn request(&self, method: &str, params: Value) -> Value {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::REQ).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(WATCHDOG.as_millis() as i32).unwrap();
        socket.connect(self.endpoint("commands")).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        socket.send(request.to_string().as_bytes(), 0).unwrap();
        let reply: Value = serde_json::from_slice(&socket.recv_bytes(0).unwrap()).unwrap();
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` gives something.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < WATCHDOG, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
