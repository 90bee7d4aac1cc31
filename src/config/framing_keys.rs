//! The keys of `framing` in a `[[serial]]`, also of the parameter of `serial.open`.

use std::time::Duration;

use super::keys::{Key, YES_NO, set, show_choice};
use super::serial::{FRAME_MAX, FRAME_TIMEOUT, Framing, LineEnd, RAW_GAP};
use super::serial_keys::parts;
use super::value::{Raw, Read, quote, show_duration, show_size, show_text};

const LINE_ENDS: &[(&str, LineEnd)] =
    &[("any", LineEnd::Any), ("lf", LineEnd::Lf), ("cr", LineEnd::Cr), ("crlf", LineEnd::CrLf)];

/// The longest frame there may be, in bytes.
const MAX_MOST: u64 = 1 << 20;

/// The keys of `framing`. The first five exclude each other.
pub static FRAMING_KEYS: &[Key<FramingParts>] = &[
    Key {
        table: "framing",
        name: "line",
        help: "Lines without their ends: CR, LF and CRLF, or one of them only. An empty line is an empty frame.",
        default: "\"any\"",
        allowed: "\"any\", \"lf\", \"cr\" or \"crlf\"",
        example: "\"crlf\"",
        reload: true,
        set: |f, raw| set(&mut f.line, Some(raw.choice(LINE_ENDS)?)),
        get: |f| f.line.as_ref().and_then(|end| show_choice(LINE_ENDS, end)),
    },
    Key {
        table: "framing",
        name: "delimiter",
        help: "Frames that end with this text, without it.",
        default: "not set: lines",
        allowed: "text of 1 to 64 bytes, with the escapes of TOML or JSON",
        example: "\"\\u0003\"",
        reload: true,
        set: |f, raw| {
            set(&mut f.delimiter, Some(delimiter(raw.text().map(|text| text.as_bytes().to_vec())?)?))
        },
        get: |f| f.delimiter.as_ref().map(|bytes| show_text(&String::from_utf8_lossy(bytes))),
    },
    Key {
        table: "framing",
        name: "delimiter_hex",
        help: "The same for any bytes, as hexadecimal digits.",
        default: "not set: lines",
        allowed: "1 to 64 bytes of two hexadecimal digits each; spaces are ignored",
        example: "\"ff03\"",
        reload: true,
        set: |f, raw| set(&mut f.delimiter_hex, Some(delimiter(hex(raw.text()?)?)?)),
        get: |f| {
            let show = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            f.delimiter_hex.as_ref().map(|bytes| show_text(&show(bytes)))
        },
    },
    Key {
        table: "framing",
        name: "fixed",
        help: "Frames of this many bytes.",
        default: "not set: lines",
        allowed: "a size from 1 to 65536",
        example: "12",
        reload: true,
        set: |f, raw| set(&mut f.fixed, Some(raw.size(1, 65_536)? as usize)),
        get: |f| f.fixed.map(|size| size.to_string()),
    },
    Key {
        table: "framing",
        name: "raw",
        help: "Bytes as they come: a frame ends after silence, or at max.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: true,
        set: |f, raw| set(&mut f.raw, Some(raw.bool()?)),
        get: |f| f.raw.map(|raw| raw.to_string()),
    },
    Key {
        table: "framing",
        name: "max",
        help: "The longest frame; of a longer one so much comes, flagged truncated, and the rest is passed over and counted. Raw frames end there, unflagged. Not with fixed.",
        default: "\"64KiB\"",
        allowed: "a size from 1 to 1MiB",
        example: "4096",
        reload: true,
        set: |f, raw| set(&mut f.max, Some(raw.size(1, MAX_MOST)? as usize)),
        get: |f| f.max.map(|max| show_text(&show_size(max as u64))),
    },
    Key {
        table: "framing",
        name: "timeout",
        help: "After so long without a byte what there is of a frame comes, flagged partial. Not with raw.",
        default: "\"1s\"",
        allowed: "a time from 1ms to 1h",
        example: "\"500ms\"",
        reload: true,
        set: |f, raw| {
            set(&mut f.timeout, Some(time(raw, Duration::from_millis(1), Duration::from_secs(3600))?))
        },
        get: |f| f.timeout.map(|time| show_text(&show_duration(time))),
    },
    Key {
        table: "framing",
        name: "gap",
        help: "The silence that ends a raw frame; 0s makes each read a frame. Only with raw.",
        default: "\"20ms\"",
        allowed: "a time from 0s to 10s",
        example: "\"50ms\"",
        reload: true,
        set: |f, raw| set(&mut f.gap, Some(time(raw, Duration::ZERO, Duration::from_secs(10))?)),
        get: |f| f.gap.map(|time| show_text(&show_duration(time))),
    },
];

/// `framing` as it is written.
#[derive(Clone, Debug, Default)]
pub struct FramingParts {
    line: Option<LineEnd>,
    delimiter: Option<Vec<u8>>,
    delimiter_hex: Option<Vec<u8>>,
    fixed: Option<usize>,
    raw: Option<bool>,
    max: Option<usize>,
    timeout: Option<Duration>,
    gap: Option<Duration>,
}

impl FramingParts {
    /// All of it, also what is a default.
    pub(super) fn of(framing: &Framing) -> FramingParts {
        let none = FramingParts::default();
        match framing.clone() {
            Framing::Line { end, max, timeout } => {
                FramingParts { line: Some(end), max: Some(max), timeout: Some(timeout), ..none }
            }
            Framing::Delimiter { delimiter, max, timeout } => {
                let none = FramingParts { max: Some(max), timeout: Some(timeout), ..none };
                match std::str::from_utf8(&delimiter) {
                    Ok(_) => FramingParts { delimiter: Some(delimiter), ..none },
                    Err(_) => FramingParts { delimiter_hex: Some(delimiter), ..none },
                }
            }
            Framing::Fixed { size, timeout } => {
                FramingParts { fixed: Some(size), timeout: Some(timeout), ..none }
            }
            Framing::Raw { gap, max } => {
                FramingParts { raw: Some(true), gap: Some(gap), max: Some(max), ..none }
            }
        }
    }

    fn framing(self) -> Read<Framing> {
        let raw = self.raw == Some(true);
        let delimiters = [self.delimiter.is_some(), self.delimiter_hex.is_some()];
        let kinds = [self.line.is_some(), self.fixed.is_some(), raw];
        if kinds.iter().chain(&delimiters).filter(|given| **given).count() > 1 {
            return Err("give one of line, delimiter, delimiter_hex, fixed and raw".to_owned());
        }
        let not_with = |name: &str, kind: &str| Err(format!("{name} does not go with {kind}"));
        match (self.fixed, raw) {
            (Some(_), _) if self.max.is_some() => return not_with("max", "fixed"),
            (None, true) if self.timeout.is_some() => return not_with("timeout", "raw; give gap"),
            (_, false) if self.gap.is_some() => return Err("gap goes with raw = true only".to_owned()),
            _ => {}
        }
        let max = self.max.unwrap_or(FRAME_MAX);
        let timeout = self.timeout.unwrap_or(FRAME_TIMEOUT);
        Ok(match (self.fixed, self.delimiter.or(self.delimiter_hex)) {
            (Some(size), _) => Framing::Fixed { size, timeout },
            (_, Some(delimiter)) => Framing::Delimiter { delimiter, max, timeout },
            _ if raw => Framing::Raw { gap: self.gap.unwrap_or(RAW_GAP), max },
            _ => Framing::Line { end: self.line.unwrap_or_default(), max, timeout },
        })
    }
}

/// A short word or a table.
pub(super) fn framing(raw: &Raw) -> Read<Framing> {
    match raw {
        Raw::Text(word) => match word.as_str() {
            "line" => Ok(Framing::default()),
            "raw" => FramingParts { raw: Some(true), ..FramingParts::default() }.framing(),
            _ => Err(format!("{} is none of them", quote(word))),
        },
        raw => parts(FRAMING_KEYS, raw, FramingParts::default())?.framing(),
    }
}

fn delimiter(bytes: Vec<u8>) -> Read<Vec<u8>> {
    match bytes.len() {
        1..=64 => Ok(bytes),
        length => Err(format!("{length} bytes")),
    }
}

fn hex(text: &str) -> Read<Vec<u8>> {
    let wrong = || format!("{} are no bytes in hexadecimal", quote(text));
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2)).ok_or_else(wrong)?;
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn time(raw: &Raw, least: Duration, most: Duration) -> Read<Duration> {
    match raw.duration(least)? {
        time if time > most => Err(format!("{} is out of range", show_duration(time))),
        time => Ok(time),
    }
}
