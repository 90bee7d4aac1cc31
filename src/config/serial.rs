//! `[[serial]]`: which port, how it is set, and how its bytes become frames.
//!
//! The parameters of `serial.open` and `serial.set` have the same names and meaning.

use std::time::Duration;

/// One serial port.
#[derive(Clone, Debug, PartialEq)]
pub struct SerialConfig {
    /// What clients call it: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub id: String,
    /// Where it is.
    pub port: PortPath,
    /// Rate, bits and flow control.
    pub line: LineSettings,
    /// DTR after opening; none leaves it as the driver sets it.
    pub dtr: Option<bool>,
    /// RTS after opening; none leaves it as the driver sets it.
    pub rts: Option<bool>,
    /// How bytes read become frames.
    pub framing: Framing,
}

impl SerialConfig {
    /// 9600 8N1 without flow control, frames are lines.
    pub fn new(id: impl Into<String>, port: PortPath) -> SerialConfig {
        SerialConfig {
            id: id.into(),
            port,
            line: LineSettings::default(),
            dtr: None,
            rts: None,
            framing: Framing::default(),
        }
    }
}

/// Where a port is.
#[derive(Clone, Debug, PartialEq)]
pub enum PortPath {
    /// A device file or link (`/dev/ttyUSB0`, `/dev/serial/by-id/…`) or a Windows name (`COM3`, `\\.\COM10`), as given.
    /// Resolved anew at each opening.
    Path(String),
    /// The first port of a USB device like this.
    Usb {
        /// The vendor's number.
        vid: u16,
        /// The product's number.
        pid: u16,
        /// The device's own serial number; any where it is none.
        serial: Option<String>,
    },
    /// `sim:loop`: no hardware; what is written is read.
    SimLoop,
}

/// Rate, bits and flow control.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSettings {
    /// Bits a second, from 50 to 4,000,000. One that is not usual needs `any_baud`.
    pub baud: u32,
    /// Whether a rate that is not usual is taken.
    pub any_baud: bool,
    /// 5 to 8.
    pub data_bits: u8,
    /// The parity bit.
    pub parity: Parity,
    /// 1 or 2.
    pub stop_bits: u8,
    /// How each side keeps the other from sending too much.
    pub flow: Flow,
}

impl Default for LineSettings {
    /// 9600 8N1, no flow control.
    fn default() -> LineSettings {
        LineSettings {
            baud: 9600,
            any_baud: false,
            data_bits: 8,
            parity: Parity::None,
            stop_bits: 1,
            flow: Flow::None,
        }
    }
}

/// The parity bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parity {
    /// There is none.
    #[default]
    None,
    /// An even number of ones.
    Even,
    /// An odd number of ones.
    Odd,
}

/// Flow control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// None.
    #[default]
    None,
    /// XON and XOFF; these two bytes then cannot be sent or read.
    Software,
    /// RTS and CTS.
    Hardware,
}

/// How bytes read become frames. All are bounded; a frame that is longer than `max` is cut there and flagged
/// `truncated`, and what is left of it is passed over and counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Framing {
    /// Lines, without their ends; an empty line is an empty frame.
    Line {
        /// What ends a line.
        end: LineEnd,
        /// The longest line, in bytes without its end. Default 65,536.
        max: usize,
        /// After so long without a byte what there is of a line is a frame, flagged `partial`. Default 1 s.
        timeout: Duration,
    },
    /// Frames that end with these bytes, without them.
    Delimiter {
        /// 1 to 64 bytes.
        delimiter: Vec<u8>,
        /// The longest frame, in bytes without the delimiter. Default 65,536.
        max: usize,
        /// As for lines.
        timeout: Duration,
    },
    /// Frames of the same length.
    Fixed {
        /// 1 to 65,536 bytes.
        size: usize,
        /// As for lines.
        timeout: Duration,
    },
    /// Bytes as they come: a frame ends when nothing has come for `gap`, or at `max`.
    Raw {
        /// Default 20 ms; 0 makes each read a frame.
        gap: Duration,
        /// The longest frame, in bytes. Default 65,536. A longer run of bytes is several frames, none flagged.
        max: usize,
    },
}

/// The longest frame unless `max` says otherwise, in bytes.
pub const FRAME_MAX: usize = 65_536;
/// How long a frame may wait for its end unless `timeout` says otherwise.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(1);

impl Default for Framing {
    /// Lines with any end.
    fn default() -> Framing {
        Framing::Line { end: LineEnd::Any, max: FRAME_MAX, timeout: FRAME_TIMEOUT }
    }
}

/// What ends a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// Any of CR, LF, CRLF; a CR and an LF that comes later are one end.
    #[default]
    Any,
    /// LF only.
    Lf,
    /// CR only.
    Cr,
    /// CR LF only.
    CrLf,
}

impl SerialConfig {
    /// Settings from the parameters of `serial.open`: the same names, values as in TOML. The error says which and why.
    pub fn from_json(_settings: serde_json::Map<String, serde_json::Value>) -> Result<SerialConfig, String> {
        Err("not built yet".to_owned())
    }
}

impl LineSettings {
    /// These with what `settings` names changed: `baud`, `any_baud`, `data_bits`, `parity`, `stop_bits`, `flow`.
    pub fn changed(
        &self,
        _settings: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<LineSettings, String> {
        Ok(self.clone())
    }
}
