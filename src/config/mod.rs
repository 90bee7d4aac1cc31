//! The settings: what they are, their defaults, and how TOML becomes them.
//!
//! Precedence: flag, environment variable `HWGATE_<TABLE>_<KEY>`, file, default. [`keys`] is the one
//! table of all keys.

mod check;
pub mod diff;
pub mod forward;
pub mod forward_keys;
pub mod framing_keys;
pub mod keys;
pub mod load;
pub mod pattern;
pub mod print;
mod reader;
pub mod serial;
mod serial_json;
pub mod serial_keys;
mod value;

pub use diff::{Diff, diff};
pub use forward::ForwardConfig;
pub use load::{Loaded, Origin, Overrides};
pub use serial::SerialConfig;
pub(crate) use value::parse_duration;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wire::{Endpoint, Level};

/// All settings of a gateway, checked, with absolute paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file the settings came from; none when only defaults apply.
    pub file: Option<PathBuf>,
    /// What `--set` gave, so that a reload applies it again.
    pub set: Vec<(String, String)>,
    /// `[gateway]`
    pub gateway: Gateway,
    /// `[endpoints]`
    pub endpoints: Endpoints,
    /// `[intake]`
    pub intake: Intake,
    /// `[journal]`
    pub journal: JournalConfig,
    /// `[[log]]`, at least one.
    pub logs: Vec<LogConfig>,
    /// `[events]`
    pub events: EventsConfig,
    /// `[[serial]]`: ports opened at start.
    pub serial: Vec<SerialConfig>,
    /// `[[forward]]`: forwarders.
    pub forward: Vec<ForwardConfig>,
    /// `[audio]`
    pub audio: AudioConfig,
    /// `[security]`
    pub security: Security,
}

impl Config {
    /// The defaults; relative paths start at `base_dir`.
    pub fn default_in(base_dir: &Path) -> Config {
        let mut config = Config::unresolved();
        config.resolve(base_dir);
        config
    }

    /// The defaults as written in the documentation, with relative paths.
    fn unresolved() -> Config {
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        Config {
            file: None,
            set: Vec::new(),
            gateway: Gateway {
                name: if host.is_empty() { "hwgate".to_owned() } else { host },
                log_dir: "logs".into(),
                audio_dir: "sounds".into(),
                diagnostics: None,
                diagnostics_level: Level::Info,
            },
            endpoints: Endpoints {
                commands: Some("tcp://127.0.0.1:10003".to_owned()),
                logs: Some("tcp://127.0.0.1:10000".to_owned()),
                events: Some("tcp://127.0.0.1:10002".to_owned()),
                advertise: None,
            },
            intake: Intake { encoding: None, max_text: 1 << 20, max_message: 16 << 20, receive_hwm: 30_000 },
            journal: JournalConfig {
                dir: "journal".into(),
                durability: Durability::default(),
                max_bytes: 1 << 30,
                max_age: Duration::from_secs(7 * 86_400),
            },
            logs: vec![LogConfig::default()],
            events: EventsConfig { send_hwm: 50_000 },
            serial: Vec::new(),
            forward: Vec::new(),
            audio: AudioConfig::default(),
            security: Security::default(),
        }
    }

    /// Makes all paths absolute.
    fn resolve(&mut self, base: &Path) {
        let gateway = &mut self.gateway;
        let paths = [&mut gateway.log_dir, &mut gateway.audio_dir, &mut self.journal.dir];
        for path in paths.into_iter().chain(&mut gateway.diagnostics) {
            *path = base.join(&*path);
        }
        if let AudioOutput::Wav(path) = &mut self.audio.output {
            *path = base.join(&*path);
        }
        let endpoints = &mut self.endpoints;
        let own = [&mut endpoints.commands, &mut endpoints.logs, &mut endpoints.events].into_iter().flatten();
        let forward = self.forward.iter_mut().flat_map(|forward| {
            let perhaps = [&mut forward.state, &mut forward.monitor].into_iter().flatten();
            [&mut forward.input, &mut forward.output].into_iter().chain(perhaps)
        });
        for text in own.chain(forward) {
            if let Ok(endpoint) = Endpoint::bind(text) {
                *text = endpoint.below(base).to_string();
            }
        }
    }
}

/// `[gateway]`
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// What `hello` calls this gateway. Default: the host name.
    pub name: String,
    /// Where log files go. Default: `logs`.
    pub log_dir: PathBuf,
    /// Where sounds are taken from. Default: `sounds`.
    pub audio_dir: PathBuf,
    /// The file for the gateway's own log; none means stderr.
    pub diagnostics: Option<PathBuf>,
    /// The least level of the gateway's own log. Default: `info`.
    pub diagnostics_level: Level,
}

/// `[endpoints]`: each is a ZeroMQ endpoint, or `None` for `"off"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoints {
    /// ROUTER for JSON-RPC. Default: `tcp://127.0.0.1:10003`.
    pub commands: Option<String>,
    /// PULL for plain logs. Default: `tcp://127.0.0.1:10000`.
    pub logs: Option<String>,
    /// XPUB for events. Default: `tcp://127.0.0.1:10002`.
    pub events: Option<String>,
    /// What `hello` tells clients instead of the bound host, for gateways behind a translation.
    pub advertise: Option<String>,
}

/// `[intake]`: what plain clients may send.
#[derive(Clone, Debug, PartialEq)]
pub struct Intake {
    /// The encoding of plain messages where it is none of those the text rule finds by itself.
    pub encoding: Option<&'static encoding_rs::Encoding>,
    /// The longest text taken, in bytes. Default 1 MiB. Longer messages are dropped and counted.
    pub max_text: usize,
    /// The longest frame libzmq takes, in bytes. Default 16 MiB. Beyond it the peer is cut.
    pub max_message: usize,
    /// Messages that libzmq may hold for the gateway for each peer. Default 30,000.
    pub receive_hwm: i32,
}

/// `[journal]`
#[derive(Clone, Debug, PartialEq)]
pub struct JournalConfig {
    /// Journal, positions and lock. Default: `journal`.
    pub dir: PathBuf,
    /// When a record counts as taken. Default: `written`.
    pub durability: Durability,
    /// The most the segments may take together, in bytes. Default 1 GiB, at least 1 MiB.
    pub max_bytes: u64,
    /// How long segments are kept. Default 7 days.
    pub max_age: Duration,
}

/// When a record counts as taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After `write` returned: it outlives the process.
    #[default]
    Written,
    /// After `fsync` returned: it outlives the power.
    Fsynced,
}

/// `[[log]]`: one set of files.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// The path below `log_dir`, with `{source}` `{host}` `{level}` `{date}`.
    pub path: String,
    /// How a record is written.
    pub format: Format,
    /// UTC or local time in stamps, `{date}` and day changes.
    pub zone: Zone,
    /// What ends a line: `\n` or `\r\n`. Default: that of the platform.
    pub eol: Eol,
    /// Whether new files begin with a UTF-8 byte order mark. Default: on for Windows.
    pub bom: bool,
    /// The least level written. Default: `trace`.
    pub level: Level,
    /// Sources written, each a name or a pattern with `*`; empty means all.
    pub source: Vec<String>,
    /// When files are changed and old ones removed; none means never.
    pub rotate: Option<Rotate>,
}

impl Default for LogConfig {
    /// `gateway.log`, as text, never rotated.
    fn default() -> LogConfig {
        LogConfig {
            path: "gateway.log".to_owned(),
            format: Format::default(),
            zone: Zone::default(),
            eol: if cfg!(windows) { Eol::CrLf } else { Eol::Lf },
            bom: cfg!(windows),
            level: Level::Trace,
            source: Vec::new(),
            rotate: None,
        }
    }
}

/// How a record is written to a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// `2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater[4242] text {"k":"v"}`
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// `ts=… level=… text="…"`
    Logfmt,
    /// A pattern with `{time}` `{level}` `{source}` `{host}` `{pid}` `{text}` `{fields}` `{received}` …
    Template(String),
}

/// The time zone of stamps and day changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// `Z`
    #[default]
    Utc,
    /// The machine's zone, with its offset in each stamp.
    Local,
}

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eol {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
}

/// `rotate` of a `[[log]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rotate {
    /// A file is closed before it would grow beyond this many bytes.
    pub size: Option<u64>,
    /// A file is closed when the hour or day of `received` changes.
    pub every: Option<Every>,
    /// How many closed files are kept.
    pub keep_files: Option<u32>,
    /// How many days closed files are kept.
    pub keep_days: Option<u32>,
    /// How many bytes closed files may take together.
    pub keep_bytes: Option<u64>,
    /// Whether closed files are compressed with gzip.
    pub compress: bool,
}

/// How often a file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At each full hour.
    Hour,
    /// At midnight of the sink's zone.
    Day,
}

/// `[events]`
#[derive(Clone, Debug, PartialEq)]
pub struct EventsConfig {
    /// Events that may wait in memory for each subscriber; further ones are lost to it. Default 50,000.
    pub send_hwm: i32,
}

/// `[audio]`
#[derive(Clone, Debug, PartialEq)]
pub struct AudioConfig {
    /// Where sounds go. Default: `device`.
    pub output: AudioOutput,
    /// The volume at start: 1.0 leaves sounds as they are, 0.0 is silence. At most 2.0.
    pub volume: f32,
}

impl Default for AudioConfig {
    fn default() -> AudioConfig {
        AudioConfig { output: AudioOutput::Device, volume: 1.0 }
    }
}

/// Where sounds go.
#[derive(Clone, Debug, PartialEq)]
pub enum AudioOutput {
    /// The sound card that the system calls its default.
    Device,
    /// Nowhere, in the time that they take.
    Null,
    /// Into this file, which is written anew at each start.
    Wav(PathBuf),
    /// Sounds are refused with NOT_ENABLED.
    Off,
}

/// `[security]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    /// Listen beyond loopback without keys. A warning at each start.
    pub allow_insecure: bool,
    /// Take peers that speak ZMTP 1 or 2, which cannot prove that they speak ZeroMQ at all.
    pub allow_old_zmtp: bool,
}
