//! One record becomes one physical line, in the format of its `[[log]]`.

mod json;
mod logfmt;
mod template;
mod text;

use std::io::Write;

use uuid::Uuid;

use super::clock::Clock;
use crate::config::{Eol, Format, LogConfig};
use crate::error::Result;
use crate::wire::Record;
use crate::wire::text::{escape_controls, is_plain};

/// A record and what its frame in the journal says about it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What the client sent.
    pub record: Record<'a>,
    /// When the gateway got it, in nanoseconds since 1970.
    pub received: i64,
    /// The authenticated name of the client, or empty.
    pub client: &'a str,
    /// The id of the producer; all zero for plain clients.
    pub producer: &'a [u8; 16],
    /// The number of the record among those of its producer.
    pub seq: u64,
}

/// Renders lines in one format.
#[derive(Debug)]
pub struct Formatter {
    form: Form,
    eol: &'static [u8],
    time: Clock,
    received: Clock,
    origin: text::Origin,
}

#[derive(Debug)]
enum Form {
    Text,
    Json,
    Logfmt,
    Template(template::Template),
}

impl Formatter {
    /// The formatter that `config` asks for; an error where its template is not valid.
    pub fn new(config: &LogConfig) -> Result<Formatter> {
        Formatter::with_clock(config, Clock::new(config.zone))
    }

    pub(super) fn with_clock(config: &LogConfig, clock: Clock) -> Result<Formatter> {
        let form = match &config.format {
            Format::Text => Form::Text,
            Format::Json => Form::Json,
            Format::Logfmt => Form::Logfmt,
            Format::Template(pattern) => Form::Template(template::Template::parse(pattern)?),
        };
        let eol: &[u8] = match config.eol {
            Eol::Lf => b"\n",
            Eol::CrLf => b"\r\n",
        };
        // Times of clients and of the gateway differ, so each has its own second to remember.
        Ok(Formatter { form, eol, time: clock.clone(), received: clock, origin: text::Origin::default() })
    }

    /// What ends a line.
    pub fn eol(&self) -> &'static [u8] {
        self.eol
    }

    /// Appends the line, its end included.
    pub fn write(&mut self, line: &Line<'_>, out: &mut Vec<u8>) {
        match &self.form {
            Form::Text => text::write(line, &mut self.time, &mut self.origin, out),
            Form::Json => json::write(line, &mut self.time, &mut self.received, out),
            Form::Logfmt => logfmt::write(line, &mut self.time, out),
            Form::Template(template) => template.write(line, &mut self.time, &mut self.received, out),
        }
        out.extend_from_slice(self.eol);
    }
}

/// Appends a name; nothing in it can end the line.
fn push_word(word: &str, out: &mut Vec<u8>) {
    if is_plain(word.as_bytes()) {
        out.extend_from_slice(word.as_bytes());
    } else {
        escape_controls(word, out);
    }
}

fn push_number(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

fn push_uuid(producer: &[u8; 16], out: &mut Vec<u8>) {
    let mut buffer = Uuid::encode_buffer();
    out.extend_from_slice(Uuid::from_bytes(*producer).hyphenated().encode_lower(&mut buffer).as_bytes());
}

/// Whether these are the fields they should be. Intake lets nothing else in; a journal written by
/// another version might.
fn is_object(fields: &str) -> bool {
    fields.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(fields).is_ok()
}

/// Appends fields as JSON on one line.
fn push_fields(fields: &str, out: &mut Vec<u8>) {
    if is_plain(fields.as_bytes()) {
        out.extend_from_slice(fields.as_bytes());
    } else if is_object(fields) {
        // Raw controls below space can only be white space between the elements.
        push_escaped(fields, false, out, |c, out| match c {
            '\0'..='\x1f' => out.push(b' '),
            c => drop(write!(out, "\\u{:04x}", c as u32)),
        });
    } else {
        escape_controls(fields, out);
    }
}

/// Appends a JSON string with its quotes, on one line for every reader of lines.
fn push_json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(text.as_bytes()) && !text.bytes().any(|byte| matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(text.as_bytes());
    } else {
        push_escaped(text, true, out, |c, out| match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            // Writing into memory cannot fail.
            c => drop(write!(out, "\\u{:04x}", c as u32)),
        });
    }
    out.push(b'"');
}

/// Copies `text`, with `escape` in the place of everything that could end a line and, for `quoted` text,
/// of quotes and backslashes.
fn push_escaped(text: &str, quoted: bool, out: &mut Vec<u8>, escape: impl Fn(char, &mut Vec<u8>)) {
    let mut clean = 0;
    for (at, c) in text.char_indices() {
        let odd =
            c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || (quoted && matches!(c, '"' | '\\'));
        if odd {
            out.extend_from_slice(&text.as_bytes()[clean..at]);
            clean = at + c.len_utf8();
            escape(c, out);
        }
    }
    out.extend_from_slice(&text.as_bytes()[clean..]);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
