//! Turns TOML, variables and flags into settings, and collects all that is wrong with them.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::forward::ForwardConfig;
use super::forward_keys::{self, FORWARD_KEYS};
use super::keys::{KEYS, Key, LOG_KEYS, ROTATE_KEYS, all_keys, tables, title};
use super::load::{Loaded, Origin, Origins};
use super::serial::{PortPath, SerialConfig};
use super::serial_keys::SERIAL_KEYS;
use super::value::Raw;
use super::{Config, LogConfig, Rotate, check, serial_keys};
use crate::error::{Error, Kind, Result};
use crate::wire::nearest;

/// The tables that there may be several of.
const SEVERAL: &[&str] = &["log", "serial", "forward"];

/// Collects values, where they came from, and what is wrong with them.
pub(super) struct Reader<'a> {
    name: String,
    text: &'a str,
    config: Config,
    origins: Origins,
    problems: Vec<(Origin, String)>,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(name: String, text: &'a str) -> Reader<'a> {
        Reader {
            name,
            text,
            config: Config::unresolved(),
            origins: Origins::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn at(&self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Origin::File {
            name: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    pub(super) fn file(&mut self) {
        let root = match DeTable::parse(self.text) {
            Ok(root) => root,
            Err(error) => {
                let at = self.at(error.span().map_or(0, |span| span.start));
                return self.problems.push((at, error.message().to_owned()));
            }
        };
        for (key, value) in root.get_ref() {
            let name: &str = key.get_ref();
            match (name, value.get_ref()) {
                ("log", DeValue::Array(array)) => self.logs(array.iter()),
                ("serial", DeValue::Array(array)) => self.serials(array.iter()),
                ("forward", DeValue::Array(array)) => self.forwards(array.iter()),
                (name, _) if SEVERAL.contains(&name) => {
                    self.problem(key, format!("[{name}]: there may be several, write [[{name}]]"));
                }
                (_, DeValue::Table(table)) if is_table(name) => {
                    let mut config = std::mem::replace(&mut self.config, Config::unresolved());
                    self.table(name, name, table, KEYS, &mut config);
                    self.config = config;
                }
                (_, value) => self.problem(key, unknown_table(name, value.is_table() || value.is_array())),
            }
        }
    }

    fn problem<T>(&mut self, place: &Spanned<T>, text: String) {
        self.problems.push((self.at(place.span().start), text));
    }

    /// Reads the keys of one table into `target`. `prefix` leads to them in the origins.
    fn table<T>(&mut self, name: &str, prefix: &str, table: &DeTable<'_>, keys: &[Key<T>], target: &mut T) {
        for (key, value) in table {
            let key_name: &str = key.get_ref();
            let Some(found) = keys.iter().find(|key| key.table == name && key.name == key_name) else {
                if (name, key_name) != ("log", "rotate") {
                    self.problem(key, unknown_key(name, key_name));
                }
                continue;
            };
            match (found.set)(target, &raw(value.get_ref())) {
                Ok(()) => {
                    let at = self.at(value.span().start);
                    self.origins.insert(format!("{prefix}.{key_name}"), at);
                }
                Err(reason) => self.problem(value, not_allowed(found, &reason)),
            }
        }
    }

    /// Reads all tables of a name that there may be several of. `more` looks at what is no key of the table itself; it
    /// gets the table as a value, the table, and what leads to its keys in the origins.
    fn several<'t, T>(
        &mut self,
        name: &str,
        tables: impl Iterator<Item = &'t Spanned<DeValue<'t>>>,
        keys: &[Key<T>],
        new: impl Fn() -> T,
        more: impl Fn(&mut Self, &'t Spanned<DeValue<'t>>, &'t DeTable<'t>, &str, &mut T),
    ) -> Vec<T> {
        let mut several = Vec::new();
        for (index, value) in tables.enumerate() {
            let DeValue::Table(table) = value.get_ref() else {
                self.problem(value, format!("{name}: write each as a table [[{name}]]"));
                continue;
            };
            let prefix = format!("{name}.{index}");
            let mut one = new();
            self.table(name, &prefix, table, keys, &mut one);
            more(self, value, table, &prefix, &mut one);
            // For what concerns the whole table, such as a path used twice by default.
            let at = self.at(value.span().start);
            self.origins.insert(prefix, at);
            several.push(one);
        }
        several
    }

    fn logs<'t>(&mut self, tables: impl Iterator<Item = &'t Spanned<DeValue<'t>>>) {
        let logs = self.several("log", tables, LOG_KEYS, LogConfig::default, |reader, value, table, prefix, log| {
            if table.contains_key("format") && table.contains_key("template") {
                reader.problem(value, "[[log]]: give either format or template".to_owned());
            }
            match table.get("rotate").map(|value| (value, value.get_ref())) {
                None => {}
                Some((_, DeValue::Table(table))) => {
                    let mut rotate = Rotate::default();
                    reader.table("rotate", &format!("{prefix}.rotate"), table, ROTATE_KEYS, &mut rotate);
                    log.rotate = Some(rotate);
                }
                Some((value, _)) => {
                    let text =
                        "[[log]] rotate: a table is expected, such as { size = \"64MiB\", keep_files = 14 }";
                    reader.problem(value, text.to_owned());
                }
            }
        });
        // `log = []` gives none, which means the default file as well.
        if !logs.is_empty() {
            self.config.logs = logs;
        }
    }

    fn serials<'t>(&mut self, tables: impl Iterator<Item = &'t Spanned<DeValue<'t>>>) {
        let new = || SerialConfig::new("", PortPath::Path(String::new()));
        self.config.serial =
            self.several("serial", tables, SERIAL_KEYS, new, |reader, value, table, _, _| {
                if let Err(text) = serial_keys::complete(|name| table.contains_key(name)) {
                    reader.problem(value, format!("[[serial]] {text}"));
                }
            });
    }

    fn forwards<'t>(&mut self, tables: impl Iterator<Item = &'t Spanned<DeValue<'t>>>) {
        let new = || ForwardConfig::new("", "");
        self.config.forward =
            self.several("forward", tables, FORWARD_KEYS, new, |reader, value, table, _, _| {
                if let Err(text) = forward_keys::complete(|name| table.contains_key(name)) {
                    reader.problem(value, format!("[[forward]] {text}"));
                }
            });
    }

    pub(super) fn env(&mut self, env: &BTreeMap<String, String>) {
        for (name, value) in env {
            if let Some(key) = KEYS.iter().find(|key| key.env().as_deref() == Some(name)) {
                self.untyped(key, value, Origin::Env(name.clone()));
            } else if let Some(table) =
                tables().find(|t| name.starts_with(&format!("HWGATE_{}_", t.to_uppercase())))
            {
                // Only a warning: another program may use the name for something of its own.
                let known: Vec<String> =
                    KEYS.iter().filter(|key| key.table == table).filter_map(Key::env).collect();
                let hint = nearest_upper(name, &known);
                self.warnings.push(format!("{name} in the environment is no setting{hint}"));
            }
        }
    }

    pub(super) fn flags(&mut self, flags: &[(String, String)]) {
        for (path, value) in flags {
            let origin = Origin::Flag(path.clone());
            match KEYS.iter().find(|key| key.path() == *path) {
                Some(key) => self.untyped(key, value, origin),
                None => {
                    let text = match path.split_once('.') {
                        Some((table, _)) if SEVERAL.contains(&table) => {
                            format!("there may be several [[{table}]]; set them in the file")
                        }
                        Some((table, key)) if is_table(table) => unknown_key(table, key),
                        Some((table, _)) => unknown_table(table, true),
                        None => unknown_table(path, false),
                    };
                    self.problems.push((origin, text));
                }
            }
        }
    }

    fn untyped(&mut self, key: &Key<Config>, value: &str, origin: Origin) {
        match (key.set)(&mut self.config, &Raw::Untyped(value.to_owned())) {
            Ok(()) => drop(self.origins.insert(key.path(), origin)),
            Err(reason) => self.problems.push((origin, not_allowed(key, &reason))),
        }
    }

    pub(super) fn finish(mut self, base: &Path) -> Result<Loaded> {
        self.config.resolve(base);
        if self.problems.is_empty() {
            check::check(&self.config, &self.origins, &mut self.problems, &mut self.warnings);
        }
        if self.problems.is_empty() {
            return Ok(Loaded { config: self.config, warnings: self.warnings, origins: self.origins });
        }
        self.problems.sort();
        let lines: Vec<String> = self.problems.iter().map(|(at, text)| format!("{at}: {text}")).collect();
        Err(Error::new(Kind::InvalidArgument, lines.join("\n")))
    }
}

fn is_table(name: &str) -> bool {
    tables().any(|table| table == name)
}

fn unknown_table(name: &str, is_table: bool) -> String {
    if let Some(key) = KEYS.iter().find(|key| key.name == name && !is_table) {
        return format!("{name}: no such table; the key {name} belongs into [{}]", key.table);
    }
    let hint = match nearest(name, tables().chain(SEVERAL.iter().copied())) {
        Some(near) if SEVERAL.contains(&near) => format!("did you mean [[{near}]]?"),
        Some(near) => format!("did you mean [{near}]?"),
        None => {
            let tables = tables().collect::<Vec<_>>().join("], [");
            format!("there are [{tables}], [[log]], [[serial]] and [[forward]]")
        }
    };
    format!("[{name}]: no such table; {hint}")
}

fn unknown_key(table: &str, name: &str) -> String {
    let all = all_keys();
    let here: Vec<&str> = all.iter().filter(|(t, _)| *t == table).map(|(_, name)| *name).collect();
    let hint = match (nearest(name, here.iter().copied()), all.iter().find(|(_, other)| *other == name)) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, Some((other, _))) => format!("it belongs into {}", title(other, name)),
        (None, None) => format!("there are {}", here.join(", ")),
    };
    format!("{}: no such key; {hint}", title(table, name))
}

fn nearest_upper(name: &str, known: &[String]) -> String {
    let lower: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
    nearest(name, lower.iter().map(String::as_str))
        .map_or(String::new(), |near| format!("; did you mean {}?", near.to_uppercase()))
}

fn not_allowed<T>(key: &Key<T>, reason: &str) -> String {
    format!("{}: {reason}; allowed: {}", title(key.table, key.name), key.allowed)
}

pub(super) fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .map_or(Raw::Other("huge integer"), Raw::Integer),
        DeValue::Array(array) => {
            let strings: Option<Vec<String>> =
                array.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            strings.map_or(Raw::Other("array"), Raw::List)
        }
        DeValue::Table(table) => Raw::Table(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), raw(value.get_ref()))).collect(),
        ),
        other => Raw::Other(other.type_str()),
    }
}
