//! The one table of keys: name, meaning, default, what is allowed, how it is read and printed.
//!
//! Loading, the environment, `--set`, the nearest name for a misspelt key, `hwgate check`,
//! `hwgate init`, reloading and the reference in docs/CONFIG.md all follow this table.

use std::path::PathBuf;
use std::time::Duration;

use super::forward_keys::FORWARD_KEYS;
use super::framing_keys::FRAMING_KEYS;
use super::serial_keys::{SERIAL_KEYS, USB_KEYS};
use super::value::{Raw, Read, show_duration, show_size, show_text};
use super::{AudioOutput, Config, Durability, Eol, Every, Format, LogConfig, Rotate, Zone, pattern};
use crate::wire::{Endpoint, Level, endpoint::check_host};

/// One setting of `T`.
pub struct Key<T: 'static> {
    /// The table it stands in: `journal`, or `log` and `rotate` for those of `[[log]]`; `serial`, `usb` and `framing`
    /// for those of `[[serial]]`; `forward`.
    pub table: &'static str,
    /// Its name in the table.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub help: &'static str,
    /// The default, for people.
    pub default: &'static str,
    /// What is allowed, for people.
    pub allowed: &'static str,
    /// A value as TOML writes it, other than the default where there are others.
    pub example: &'static str,
    /// Whether a reload brings it into force; else it waits for a restart.
    pub reload: bool,
    /// Reads a value into the settings.
    pub(super) set: fn(&mut T, &Raw) -> Read<()>,
    /// The value in force as TOML writes it; none when it is not set.
    pub(super) get: fn(&T) -> Option<String>,
}

impl<T> Key<T> {
    /// `journal.max_bytes`
    pub fn path(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }

    /// The environment variable, `HWGATE_JOURNAL_MAX_BYTES`; none for the keys of `[[log]]`, `[[serial]]` and
    /// `[[forward]]`, since there may be several of those.
    pub fn env(&self) -> Option<String> {
        let several = matches!(self.table, "log" | "rotate" | "serial" | "usb" | "framing" | "forward");
        (!several).then(|| format!("HWGATE_{}_{}", self.table, self.name).to_uppercase())
    }
}

/// The names of the tables with one value for each key, in order.
pub(super) fn tables() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().map(|key| key.table).filter(move |table| std::mem::replace(&mut last, table) != *table)
}

/// Every key there is, as table and name; those of `[[log]]` have the tables `log` and `rotate`, those of
/// `[[serial]]` the tables `serial`, `usb` and `framing`, those of `[[forward]]` the table `forward`.
pub fn all_keys() -> Vec<(&'static str, &'static str)> {
    fn names<T>(keys: &'static [Key<T>]) -> impl Iterator<Item = (&'static str, &'static str)> {
        keys.iter().map(|key| (key.table, key.name))
    }
    let log = names(LOG_KEYS).chain([("log", "rotate")]).chain(names(ROTATE_KEYS));
    let serial = names(SERIAL_KEYS).chain(names(USB_KEYS)).chain(names(FRAMING_KEYS));
    names(KEYS).chain(log).chain(serial).chain(names(FORWARD_KEYS)).collect()
}

/// A key as messages name it: `[journal] max_bytes`, `[[log]] rotate.size`, `[[serial]] framing.max`.
pub(super) fn title(table: &str, name: &str) -> String {
    match table {
        "log" => format!("[[log]] {name}"),
        "rotate" => format!("[[log]] rotate.{name}"),
        "serial" | "forward" => format!("[[{table}]] {name}"),
        "usb" | "framing" => format!("[[serial]] {table}.{name}"),
        _ => format!("[{table}] {name}"),
    }
}

pub(super) const YES_NO: &str = "true or false";
pub(super) const ENDPOINT_OR_OFF: &str = "\"tcp://host:port\", \"ipc://path\" or \"off\"";
pub(super) const MESSAGES: &str = "an integer from 1 to 10000000";
const LEVELS: &str = "trace, debug, info, warn, error or critical";
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const DURABILITIES: &[(&str, Durability)] =
    &[("written", Durability::Written), ("fsynced", Durability::Fsynced)];
const ZONES: &[(&str, Zone)] = &[("utc", Zone::Utc), ("local", Zone::Local)];
const EOLS: &[(&str, Eol)] = &[("lf", Eol::Lf), ("crlf", Eol::CrLf), ("\n", Eol::Lf), ("\r\n", Eol::CrLf)];
const PERIODS: &[(&str, Every)] = &[("hour", Every::Hour), ("day", Every::Day)];

/// The tables with one value for each key.
pub static KEYS: &[Key<Config>] = &[
    Key {
        table: "gateway",
        name: "name",
        help: "What clients see as the name of this gateway.",
        default: "the host name",
        allowed: "1 to 255 bytes without control characters",
        example: "\"kiosk-7\"",
        reload: false,
        set: |c, raw| {
            let name = raw.text()?;
            if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
                return Err(format!("{name:?} is no name"));
            }
            set(&mut c.gateway.name, name.to_owned())
        },
        get: |c| Some(show_text(&c.gateway.name)),
    },
    Key {
        table: "gateway",
        name: "log_dir",
        help: "The folder of the log files. Made at start where it is missing.",
        default: "\"logs\"",
        allowed: "a path; a relative one starts at the folder of this file",
        example: "\"/var/log/hwgate\"",
        reload: false,
        set: |c, raw| set(&mut c.gateway.log_dir, path(raw)?),
        get: |c| show_path(&c.gateway.log_dir),
    },
    Key {
        table: "gateway",
        name: "audio_dir",
        help: "The folder that sounds are taken from.",
        default: "\"sounds\"",
        allowed: "a path; a relative one starts at the folder of this file",
        example: "\"/usr/share/hwgate/sounds\"",
        reload: false,
        set: |c, raw| set(&mut c.gateway.audio_dir, path(raw)?),
        get: |c| show_path(&c.gateway.audio_dir),
    },
    Key {
        table: "gateway",
        name: "diagnostics",
        help: "The file for the gateway's own log.",
        default: "not set: standard error",
        allowed: "a path; a relative one starts at the folder of this file",
        example: "\"/var/log/hwgate-diagnostics.log\"",
        reload: false,
        set: |c, raw| set(&mut c.gateway.diagnostics, Some(path(raw)?)),
        get: |c| c.gateway.diagnostics.as_ref().and_then(show_path),
    },
    Key {
        table: "gateway",
        name: "diagnostics_level",
        help: "The least level of the gateway's own log.",
        default: "\"info\"",
        allowed: LEVELS,
        example: "\"debug\"",
        reload: false,
        set: |c, raw| set(&mut c.gateway.diagnostics_level, level(raw)?),
        get: |c| Some(show_text(c.gateway.diagnostics_level.name())),
    },
    Key {
        table: "endpoints",
        name: "commands",
        help: "Where clients ask: JSON-RPC on a ROUTER socket.",
        default: "\"tcp://127.0.0.1:10003\"",
        allowed: ENDPOINT_OR_OFF,
        example: "\"tcp://[::1]:10003\"",
        reload: false,
        set: |c, raw| set(&mut c.endpoints.commands, endpoint(raw)?),
        get: |c| show_endpoint(&c.endpoints.commands),
    },
    Key {
        table: "endpoints",
        name: "logs",
        help: "Where any ZeroMQ client logs: a PULL socket.",
        default: "\"tcp://127.0.0.1:10000\"",
        allowed: ENDPOINT_OR_OFF,
        example: "\"off\"",
        reload: false,
        set: |c, raw| set(&mut c.endpoints.logs, endpoint(raw)?),
        get: |c| show_endpoint(&c.endpoints.logs),
    },
    Key {
        table: "endpoints",
        name: "events",
        help: "Where clients hear events: an XPUB socket.",
        default: "\"tcp://127.0.0.1:10002\"",
        allowed: ENDPOINT_OR_OFF,
        example: "\"off\"",
        reload: false,
        set: |c, raw| set(&mut c.endpoints.events, endpoint(raw)?),
        get: |c| show_endpoint(&c.endpoints.events),
    },
    Key {
        table: "endpoints",
        name: "advertise",
        help: "The host that `hello` names instead of the bound one, behind an address translation.",
        default: "not set: the bound host",
        allowed: "a host name or an address, without scheme and port",
        example: "\"kiosk-7.example.com\"",
        reload: false,
        set: |c, raw| {
            let host = raw.text()?;
            check_host(host)?;
            set(&mut c.endpoints.advertise, Some(host.to_owned()))
        },
        get: |c| c.endpoints.advertise.as_deref().map(show_text),
    },
    Key {
        table: "intake",
        name: "encoding",
        help: "The encoding of plain messages, where it is none of those that are recognised by themselves.",
        default: "\"auto\"",
        allowed: "\"auto\" or a label of the WHATWG Encoding Standard",
        example: "\"windows-1252\"",
        reload: true,
        set: |c, raw| set(&mut c.intake.encoding, encoding(raw)?),
        get: |c| Some(show_text(c.intake.encoding.map_or("auto", |encoding| encoding.name()))),
    },
    Key {
        table: "intake",
        name: "max_text",
        help: "The longest text taken; longer messages are dropped and counted.",
        default: "\"1MiB\"",
        allowed: "a size from 1KiB to 16MiB, not above max_message",
        example: "\"64KiB\"",
        reload: true,
        set: |c, raw| set(&mut c.intake.max_text, raw.size(KIB, 16 * MIB)? as usize),
        get: |c| Some(show_text(&show_size(c.intake.max_text as u64))),
    },
    Key {
        table: "intake",
        name: "max_message",
        help: "The longest frame taken; beyond it the sender is disconnected.",
        default: "\"16MiB\"",
        allowed: "a size from 1KiB to 1GiB, not below max_text",
        example: "\"4MiB\"",
        // libzmq takes this limit when a socket is bound.
        reload: false,
        set: |c, raw| set(&mut c.intake.max_message, raw.size(KIB, GIB)? as usize),
        get: |c| Some(show_text(&show_size(c.intake.max_message as u64))),
    },
    Key {
        table: "intake",
        name: "receive_hwm",
        help: "How many messages may wait in memory for each sender.",
        default: "30000",
        allowed: MESSAGES,
        example: "100000",
        reload: false,
        set: |c, raw| set(&mut c.intake.receive_hwm, messages(raw)?),
        get: |c| Some(c.intake.receive_hwm.to_string()),
    },
    Key {
        table: "journal",
        name: "dir",
        help: "The folder of journal, positions and lock.",
        default: "\"journal\"",
        allowed: "a path; a relative one starts at the folder of this file",
        example: "\"/var/lib/hwgate/journal\"",
        reload: false,
        set: |c, raw| set(&mut c.journal.dir, path(raw)?),
        get: |c| show_path(&c.journal.dir),
    },
    Key {
        table: "journal",
        name: "durability",
        help: "When a record counts as taken: written outlives the process, fsynced outlives the power; log.flush waits for it.",
        default: "\"written\"",
        allowed: "\"written\" or \"fsynced\"",
        example: "\"fsynced\"",
        reload: false,
        set: |c, raw| set(&mut c.journal.durability, raw.choice(DURABILITIES)?),
        get: |c| show_choice(DURABILITIES, &c.journal.durability),
    },
    Key {
        table: "journal",
        name: "max_bytes",
        help: "The most that the journal may take.",
        default: "\"1GiB\"",
        allowed: "a size of at least 1MiB",
        example: "\"256MiB\"",
        reload: false,
        set: |c, raw| set(&mut c.journal.max_bytes, raw.size(MIB, i64::MAX as u64)?),
        get: |c| Some(show_text(&show_size(c.journal.max_bytes))),
    },
    Key {
        table: "journal",
        name: "max_age",
        help: "How long the journal is kept.",
        default: "\"7d\"",
        allowed: "a time of at least 1m, in ms, s, m, h or d",
        example: "\"12h\"",
        reload: false,
        set: |c, raw| set(&mut c.journal.max_age, raw.duration(Duration::from_secs(60))?),
        get: |c| Some(show_text(&show_duration(c.journal.max_age))),
    },
    Key {
        table: "events",
        name: "send_hwm",
        help: "How many events may wait in memory for each subscriber; one that is slower loses its own.",
        default: "50000",
        allowed: MESSAGES,
        example: "10000",
        // libzmq takes this limit when a socket is bound.
        reload: false,
        set: |c, raw| set(&mut c.events.send_hwm, messages(raw)?),
        get: |c| Some(c.events.send_hwm.to_string()),
    },
    Key {
        table: "audio",
        name: "output",
        help: "Where sounds go: the system's sound card, nowhere in the time they take, a file written anew at each start, or off.",
        default: "\"device\"",
        allowed: "\"device\", \"null\", \"wav:PATH\" or \"off\"",
        example: "\"wav:heard.wav\"",
        reload: false,
        set: |c, raw| set(&mut c.audio.output, audio_output(raw)?),
        get: |c| {
            Some(show_text(&match &c.audio.output {
                AudioOutput::Device => "device".to_owned(),
                AudioOutput::Null => "null".to_owned(),
                AudioOutput::Wav(path) => format!("wav:{}", path.display()),
                AudioOutput::Off => "off".to_owned(),
            }))
        },
    },
    Key {
        table: "audio",
        name: "volume",
        help: "The volume at start, in percent: 100 leaves sounds as they are.",
        default: "100",
        allowed: "an integer from 0 to 200",
        example: "80",
        reload: false,
        set: |c, raw| set(&mut c.audio.volume, raw.integer(0, 200)? as f32 / 100.0),
        get: |c| Some((c.audio.volume * 100.0).round().to_string()),
    },
    Key {
        table: "security",
        name: "allow_insecure",
        help: "Listen beyond this machine without keys, with a warning at each start.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: false,
        set: |c, raw| set(&mut c.security.allow_insecure, raw.bool()?),
        get: |c| Some(c.security.allow_insecure.to_string()),
    },
    Key {
        table: "security",
        name: "allow_old_zmtp",
        help: "Take peers that speak ZMTP 1 or 2, from which random bytes cannot be told.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: false,
        set: |c, raw| set(&mut c.security.allow_old_zmtp, raw.bool()?),
        get: |c| Some(c.security.allow_old_zmtp.to_string()),
    },
];

/// The keys of each `[[log]]`, without `rotate`.
pub static LOG_KEYS: &[Key<LogConfig>] = &[
    Key {
        table: "log",
        name: "path",
        help: "The file below log_dir, with {source} {host} {level} {date} where it shall differ by them.",
        default: "\"gateway.log\"",
        allowed: "a relative path whose names have up to 60 bytes beside up to 4 placeholders, each file once",
        example: "\"{source}/{date}.log\"",
        reload: true,
        set: |l, raw| {
            let path = raw.text()?;
            pattern::path(path)?;
            set(&mut l.path, path.to_owned())
        },
        get: |l| Some(show_text(&l.path)),
    },
    Key {
        table: "log",
        name: "format",
        help: "How a record is written.",
        default: "\"text\"",
        allowed: "\"text\", \"json\" or \"logfmt\"; or give a template",
        example: "\"json\"",
        reload: true,
        set: |l, raw| {
            let format = match raw.text()? {
                "text" => Format::Text,
                "json" => Format::Json,
                "logfmt" => Format::Logfmt,
                other => return Err(format!("{other:?} is none of them")),
            };
            set(&mut l.format, format)
        },
        get: |l| match l.format {
            Format::Text => Some(show_text("text")),
            Format::Json => Some(show_text("json")),
            Format::Logfmt => Some(show_text("logfmt")),
            Format::Template(_) => None,
        },
    },
    Key {
        table: "log",
        name: "template",
        help: "A line of your own, instead of format; {{ and }} stand for braces.",
        default: "not set: format applies",
        allowed: "text with {time} {received} {level} {LEVEL} {source} {host} {pid} {text} {fields} {client} {producer} {seq}",
        example: "\"{time} {level} {text}\"",
        reload: true,
        set: |l, raw| {
            let template = raw.text()?;
            pattern::check_template(template)?;
            set(&mut l.format, Format::Template(template.to_owned()))
        },
        get: |l| match &l.format {
            Format::Template(template) => Some(show_text(template)),
            _ => None,
        },
    },
    Key {
        table: "log",
        name: "zone",
        help: "The time zone of stamps, {date} and day changes.",
        default: "\"utc\"",
        allowed: "\"utc\" or \"local\"",
        example: "\"local\"",
        reload: true,
        set: |l, raw| set(&mut l.zone, raw.choice(ZONES)?),
        get: |l| show_choice(ZONES, &l.zone),
    },
    Key {
        table: "log",
        name: "eol",
        help: "What ends a line.",
        default: "\"lf\", on Windows \"crlf\"",
        allowed: "\"lf\" or \"crlf\"",
        example: "\"crlf\"",
        reload: true,
        set: |l, raw| set(&mut l.eol, raw.choice(EOLS)?),
        get: |l| show_choice(EOLS, &l.eol),
    },
    Key {
        table: "log",
        name: "bom",
        help: "Whether new files begin with a UTF-8 byte order mark, as old Windows editors want it.",
        default: "false, on Windows true",
        allowed: YES_NO,
        example: "true",
        reload: true,
        set: |l, raw| set(&mut l.bom, raw.bool()?),
        get: |l| Some(l.bom.to_string()),
    },
    Key {
        table: "log",
        name: "level",
        help: "The least level written.",
        default: "\"trace\"",
        allowed: LEVELS,
        example: "\"warn\"",
        reload: true,
        set: |l, raw| set(&mut l.level, level(raw)?),
        get: |l| Some(show_text(l.level.name())),
    },
    Key {
        table: "log",
        name: "source",
        help: "The sources written, by name or with * for any characters; none means all.",
        default: "[]",
        allowed: "a string or an array of strings, none empty",
        example: "[\"updater\", \"serial/*\"]",
        reload: true,
        set: |l, raw| {
            let sources = raw.list()?;
            if sources.iter().any(|source| source.is_empty() || source.contains('\0')) {
                return Err("an empty source".to_owned());
            }
            set(&mut l.source, sources)
        },
        get: |l| {
            let sources: Vec<String> = l.source.iter().map(|source| show_text(source)).collect();
            Some(format!("[{}]", sources.join(", ")))
        },
    },
];

/// The keys of `rotate` in a `[[log]]`. It needs `size` or `every`, or a `{date}` in the path.
pub static ROTATE_KEYS: &[Key<Rotate>] = &[
    Key {
        table: "rotate",
        name: "size",
        help: "A file is closed before it would grow beyond this.",
        default: "not set: any size",
        allowed: "a size of at least 1KiB",
        example: "\"64MiB\"",
        reload: true,
        set: |r, raw| set(&mut r.size, Some(raw.size(KIB, i64::MAX as u64)?)),
        get: |r| r.size.map(|size| show_text(&show_size(size))),
    },
    Key {
        table: "rotate",
        name: "every",
        help: "A file is closed when the hour or the day changes.",
        default: "not set: at any age",
        allowed: "\"hour\" or \"day\"",
        example: "\"day\"",
        reload: true,
        set: |r, raw| set(&mut r.every, Some(raw.choice(PERIODS)?)),
        get: |r| r.every.as_ref().and_then(|every| show_choice(PERIODS, every)),
    },
    Key {
        table: "rotate",
        name: "keep_files",
        help: "How many closed files are kept.",
        default: "not set: all",
        allowed: "an integer from 1 to 1000000",
        example: "14",
        reload: true,
        set: |r, raw| set(&mut r.keep_files, Some(raw.integer(1, 1_000_000)? as u32)),
        get: |r| r.keep_files.map(|count| count.to_string()),
    },
    Key {
        table: "rotate",
        name: "keep_days",
        help: "For how many days closed files are kept.",
        default: "not set: for ever",
        allowed: "an integer from 1 to 36500",
        example: "30",
        reload: true,
        set: |r, raw| set(&mut r.keep_days, Some(raw.integer(1, 36_500)? as u32)),
        get: |r| r.keep_days.map(|days| days.to_string()),
    },
    Key {
        table: "rotate",
        name: "keep_bytes",
        help: "How much closed files may take together.",
        default: "not set: any amount",
        allowed: "a size of at least 1KiB",
        example: "\"1GiB\"",
        reload: true,
        set: |r, raw| set(&mut r.keep_bytes, Some(raw.size(KIB, i64::MAX as u64)?)),
        get: |r| r.keep_bytes.map(|size| show_text(&show_size(size))),
    },
    Key {
        table: "rotate",
        name: "compress",
        help: "Whether closed files are compressed with gzip.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: true,
        set: |r, raw| set(&mut r.compress, raw.bool()?),
        get: |r| Some(r.compress.to_string()),
    },
];

pub(super) fn set<T>(target: &mut T, value: T) -> Read<()> {
    *target = value;
    Ok(())
}

fn path(raw: &Raw) -> Read<PathBuf> {
    match raw.text()? {
        text if text.is_empty() || text.contains('\0') => Err(format!("{text:?} is no path")),
        text => Ok(PathBuf::from(text)),
    }
}

// A by-value PathBuf field is what the settings have.
#[allow(clippy::ptr_arg)]
fn show_path(path: &PathBuf) -> Option<String> {
    Some(show_text(&path.to_string_lossy()))
}

fn level(raw: &Raw) -> Read<Level> {
    let text = raw.text()?;
    Level::parse(text).ok_or_else(|| format!("{text:?} is no level"))
}

/// How many messages may wait for one peer.
pub(super) fn messages(raw: &Raw) -> Read<i32> {
    Ok(raw.integer(1, 10_000_000)? as i32)
}

pub(super) fn endpoint(raw: &Raw) -> Read<Option<String>> {
    match raw.text()? {
        "off" => Ok(None),
        text => Endpoint::bind(text)
            .map(|endpoint| Some(endpoint.to_string()))
            .map_err(|error| error.message().to_owned()),
    }
}

fn audio_output(raw: &Raw) -> Read<AudioOutput> {
    match raw.text()? {
        "device" => Ok(AudioOutput::Device),
        "null" => Ok(AudioOutput::Null),
        "off" => Ok(AudioOutput::Off),
        text => match text.strip_prefix("wav:") {
            Some(path) if !path.is_empty() && !path.contains('\0') => Ok(AudioOutput::Wav(path.into())),
            _ => Err(format!("{text:?} is none of them")),
        },
    }
}

pub(super) fn show_endpoint(endpoint: &Option<String>) -> Option<String> {
    Some(show_text(endpoint.as_deref().unwrap_or("off")))
}

fn encoding(raw: &Raw) -> Read<Option<&'static encoding_rs::Encoding>> {
    match raw.text()? {
        "auto" => Ok(None),
        // The label "replacement" stands for encodings that must not be decoded.
        text => match encoding_rs::Encoding::for_label_no_replacement(text.as_bytes()) {
            Some(encoding) => Ok(Some(encoding)),
            None => Err(format!("{text:?} is no encoding")),
        },
    }
}

pub(super) fn show_choice<T: PartialEq>(choices: &[(&str, T)], value: &T) -> Option<String> {
    choices.iter().find(|(_, choice)| choice == value).map(|(name, _)| show_text(name))
}
