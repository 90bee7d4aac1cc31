//! What differs between two sets of settings, and what a reload can do about it.

use super::forward_keys::FORWARD_KEYS;
use super::keys::{KEYS, LOG_KEYS, ROTATE_KEYS};
use super::serial_keys::SERIAL_KEYS;
use super::{Config, ForwardConfig, LogConfig, SerialConfig};

/// The names of what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Comes into force with the reload: `intake.max_text`, `log "gateway.log": level`, `serial "scanner" added`.
    pub reload: Vec<String>,
    /// Waits for a restart: `endpoints.logs`.
    pub needs_restart: Vec<String>,
}

impl Diff {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.reload.is_empty() && self.needs_restart.is_empty()
    }
}

/// Compares the settings in force with new ones. `[[log]]`, `[[serial]]` and the limits of `[intake]` reload;
/// a `[[log]]` is known by its path, a `[[serial]]` and a `[[forward]]` by its id.
pub fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    for key in KEYS.iter().filter(|key| (key.get)(old) != (key.get)(new)) {
        if key.reload { diff.reload.push(key.path()) } else { diff.needs_restart.push(key.path()) }
    }
    let names = old.logs.iter().chain(new.logs.iter().filter(|log| find(&old.logs, &log.path).is_none()));
    for LogConfig { path, .. } in names {
        match (find(&old.logs, path), find(&new.logs, path)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                diff.reload.push(format!("log {path:?}: {}", changed(old, new).join(", ")));
            }
            (None, _) => diff.reload.push(format!("log {path:?} added")),
            (_, None) => diff.reload.push(format!("log {path:?} removed")),
        }
    }
    let added = new.serial.iter().filter(|port| find_port(&old.serial, &port.id).is_none());
    for SerialConfig { id, .. } in old.serial.iter().chain(added) {
        match (find_port(&old.serial, id), find_port(&new.serial, id)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                let keys = SERIAL_KEYS.iter().filter(|key| (key.get)(old) != (key.get)(new));
                let names: Vec<&str> = keys.map(|key| key.name).collect();
                diff.reload.push(format!("serial {id:?}: {}", names.join(", ")));
            }
            (None, _) => diff.reload.push(format!("serial {id:?} added")),
            (_, None) => diff.reload.push(format!("serial {id:?} removed")),
        }
    }
    let find = |forwards: &'_ [ForwardConfig], id: &str| forwards.iter().find(|one| one.id == id).cloned();
    let added = new.forward.iter().filter(|one| find(&old.forward, &one.id).is_none());
    for ForwardConfig { id, .. } in old.forward.iter().chain(added) {
        match (find(&old.forward, id), find(&new.forward, id)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                let keys = FORWARD_KEYS.iter().filter(|key| (key.get)(&old) != (key.get)(&new));
                let names: Vec<&str> = keys.map(|key| key.name).collect();
                diff.needs_restart.push(format!("forward {id:?}: {}", names.join(", ")));
            }
            (None, _) => diff.needs_restart.push(format!("forward {id:?} added")),
            (_, None) => diff.needs_restart.push(format!("forward {id:?} removed")),
        }
    }
    diff
}

fn find_port<'a>(ports: &'a [SerialConfig], id: &str) -> Option<&'a SerialConfig> {
    ports.iter().find(|port| port.id == id)
}

fn find<'a>(logs: &'a [LogConfig], path: &str) -> Option<&'a LogConfig> {
    logs.iter().find(|log| log.path == path)
}

fn changed(old: &LogConfig, new: &LogConfig) -> Vec<&'static str> {
    let mut names: Vec<&str> =
        LOG_KEYS.iter().filter(|key| (key.get)(old) != (key.get)(new)).map(|key| key.name).collect();
    let values = |log: &LogConfig| {
        let rotate = log.rotate.as_ref();
        rotate.map(|rotate| ROTATE_KEYS.iter().map(|key| (key.get)(rotate)).collect::<Vec<_>>())
    };
    if values(old) != values(new) {
        names.push("rotate");
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn logs_and_limits_reload_and_all_else_waits() {
        let read = |text: &str| Config::from_toml(text, Path::new("/base")).unwrap();
        let old = read("[[log]]\npath = 'a'\n[[log]]\npath = 'b'\n");
        assert!(diff(&old, &old).is_empty());
        let new = read(
            "gateway.name = 'other'\nendpoints.logs = 'off'\nintake.max_text = '2KiB'\n\
             [[log]]\npath = 'b'\nlevel = 'warn'\nrotate = { size = '1MiB' }\n[[log]]\npath = 'c'\n",
        );
        let diff = diff(&old, &new);
        assert_eq!(
            diff.reload,
            ["intake.max_text", "log \"a\" removed", "log \"b\": level, rotate", "log \"c\" added"]
        );
        assert_eq!(diff.needs_restart, ["gateway.name", "endpoints.logs"]);
    }

    #[test]
    fn ports_are_known_by_their_id() {
        let read = |text: &str| Config::from_toml(text, Path::new("/base")).unwrap();
        let port = |id: &str, more: &str| format!("[[serial]]\nid = '{id}'\n{more}\n");
        let old = read(&(port("a", "path = '/dev/a'") + &port("b", "path = '/dev/b'")));
        let new = port("c", "path = '/dev/a'")
            + &port("b", "usb = { vid = 1, pid = 2 }\nbaud = 115200\nframing = { max = 9 }");
        let diff = diff(&old, &read(&new));
        assert_eq!(
            diff.reload,
            ["serial \"a\" removed", "serial \"b\": path, usb, baud, framing", "serial \"c\" added"]
        );
        assert!(diff.needs_restart.is_empty());
    }

    #[test]
    fn forwarders_wait_for_a_restart() {
        let read = |text: &str| Config::from_toml(text, Path::new("/base")).unwrap();
        let forward = |id: &str, port: u16, more: &str| {
            let out = port + 1;
            format!(
                "[[forward]]\nid = '{id}'\ninput = 'tcp://127.0.0.1:{port}'\noutput = 'tcp://127.0.0.1:{out}'\n{more}\n"
            )
        };
        let old = read(&(forward("a", 1, "") + &forward("b", 3, "")));
        let new = read(&(forward("b", 3, "journal = true\nsend_hwm = 5") + &forward("c", 5, "")));
        let diff = diff(&old, &new);
        assert_eq!(
            diff.needs_restart,
            ["forward \"a\" removed", "forward \"b\": journal, send_hwm", "forward \"c\" added"]
        );
        assert!(diff.reload.is_empty());
    }
}
