//! `[[serial]]`: which port, how it is set, and how its bytes become frames.
//!
//! The parameters of `serial.open` and `serial.set` have the same names and meaning.

use std::fmt;
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

impl PortPath {
    /// Whether both surely mean the same device; a link and what it leads to do not look so. Two simulations never are.
    pub fn same(&self, other: &PortPath) -> bool {
        match (self, other) {
            (PortPath::SimLoop, _) => false,
            (PortPath::Path(a), PortPath::Path(b)) if cfg!(windows) => {
                let plain = |path: &str| path.trim_start_matches(r"\\.\").to_ascii_uppercase();
                plain(a) == plain(b)
            }
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for PortPath {
    /// `/dev/ttyUSB0`, `USB 0403:6001 A1`, `sim:loop`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortPath::Path(path) => f.write_str(path),
            PortPath::Usb { vid, pid, serial: None } => write!(f, "USB {vid:04x}:{pid:04x}"),
            PortPath::Usb { vid, pid, serial: Some(serial) } => write!(f, "USB {vid:04x}:{pid:04x} {serial}"),
            PortPath::SimLoop => f.write_str("sim:loop"),
        }
    }
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

/// The rates that hardware usually knows, in order; each a standard or a crystal's own.
pub const USUAL_RATES: &[u32] = &[
    50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 7200, 9600, 14400, 19200, 28800, 31250,
    38400, 56000, 57600, 74880, 76800, 100_000, 115_200, 128_000, 153_600, 230_400, 250_000, 256_000,
    307_200, 460_800, 500_000, 576_000, 614_400, 921_600, 1_000_000, 1_152_000, 1_500_000, 1_843_200,
    2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
];

impl LineSettings {
    /// Whether the rate is usual, or need not be. The error names the nearest usual ones.
    pub fn check_rate(&self) -> Result<(), String> {
        let LineSettings { baud, any_baud, .. } = self;
        let Err(at) = USUAL_RATES.binary_search(baud) else { return Ok(()) };
        if *any_baud {
            return Ok(());
        }
        let near: Vec<String> = [at.checked_sub(1), Some(at)]
            .into_iter()
            .flatten()
            .filter_map(|at| USUAL_RATES.get(at).map(u32::to_string))
            .collect();
        let near = near.join(" and ");
        Err(format!("baud: {baud} is no usual rate; near are {near}, or set any_baud = true"))
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
/// The silence that ends a raw frame unless `gap` says otherwise.
pub const RAW_GAP: Duration = Duration::from_millis(20);

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
