//! What differs between two sets of settings, and what a reload can do about it.

use super::forward_keys::FORWARD_KEYS;
use super::keys::{KEYS, Key, LOG_KEYS, ROTATE_KEYS};
use super::serial_keys::SERIAL_KEYS;
use super::{Config, LogConfig};

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
    diff.reload.extend(compare("log", &old.logs, &new.logs, |log| &log.path, changed));
    diff.reload.extend(compare(
        "serial",
        &old.serial,
        &new.serial,
        |port| &port.id,
        |old, new| differing(SERIAL_KEYS, old, new),
    ));
    diff.needs_restart.extend(compare(
        "forward",
        &old.forward,
        &new.forward,
        |one| &one.id,
        |old, new| differing(FORWARD_KEYS, old, new),
    ));
    diff
}

/// What became of the tables called `table`, each of which is known by its name: `log "a": level`, `log "b" added`.
fn compare<'a, T: PartialEq>(
    table: &str,
    old: &'a [T],
    new: &'a [T],
    name: fn(&T) -> &String,
    changed: impl Fn(&T, &T) -> Vec<&'static str>,
) -> Vec<String> {
    let called = |wanted: &String| {
        let find = |all: &'a [T]| all.iter().find(|one| name(one) == wanted);
        (find(old), find(new))
    };
    let added = new.iter().filter(|one| called(name(one)).0.is_none());
    let names = old.iter().chain(added).map(name);
    names
        .filter_map(|name| match called(name) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(format!("{table} {name:?}: {}", changed(old, new).join(", "))),
            (None, _) => Some(format!("{table} {name:?} added")),
            (_, None) => Some(format!("{table} {name:?} removed")),
        })
        .collect()
}

/// The names of the keys whose values differ.
fn differing<T>(keys: &[Key<T>], old: &T, new: &T) -> Vec<&'static str> {
    keys.iter().filter(|key| (key.get)(old) != (key.get)(new)).map(|key| key.name).collect()
}

fn changed(old: &LogConfig, new: &LogConfig) -> Vec<&'static str> {
    let mut names = differing(LOG_KEYS, old, new);
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
