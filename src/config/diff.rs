//! What differs between two sets of settings, and what a reload can do about it.

use super::keys::{KEYS, LOG_KEYS, ROTATE_KEYS};
use super::{Config, LogConfig};

/// The names of what changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Comes into force with the reload: `intake.max_text`, `log "gateway.log"`.
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

/// Compares the settings in force with new ones. `[[log]]` and the limits of `[intake]` reload;
/// a `[[log]]` is known by its path.
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
    diff
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
}
