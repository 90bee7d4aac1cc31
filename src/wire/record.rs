//! One log record, and the MessagePack form that it has in sockets, journal and spool alike.
//!
//! A record is an array of eight elements; a batch is records one after another, nothing between:
//!
//! | # | element | MessagePack | meaning |
//! |---|---|---|---|
//! | 0 | time | int | nanoseconds since 1970-01-01 UTC, by the client's clock |
//! | 1 | level | int 0-5 | trace, debug, info, warn, error, critical |
//! | 2 | source | str | program, logger or topic |
//! | 3 | host | str | where the client runs |
//! | 4 | pid | int or nil | the client's process |
//! | 5 | rule | int 2-6 or str | how `text` is read, see [`TextRule`]; for rule 1 the name of the encoding |
//! | 6 | text | bin | the bytes as the client gave them |
//! | 7 | fields | str or nil | a JSON object |
//!
//! Further elements are skipped, so that a later version may add some. The format is the one of
//! <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use encoding_rs::Encoding;
use rmp::Marker;
use rmp::encode::{self, ByteBuf};

use super::msgpack::{DecodeError, Input};
use super::{Level, TextRule};

/// The number of elements this version writes.
const ELEMENTS: u32 = 8;

/// A log record that borrows from the batch it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970-01-01 UTC by the client's clock.
    pub time: i64,
    /// How much it matters.
    pub level: Level,
    /// Program, logger or topic; UTF-8 of any content, made safe where it becomes part of a name.
    pub source: &'a str,
    /// Where the client runs: its host name, or the peer's address for plain ZeroMQ clients.
    pub host: &'a str,
    /// The client's process, where it is known.
    pub pid: Option<u32>,
    /// How `text` is to be read.
    pub rule: TextRule,
    /// The bytes as they came.
    pub text: &'a [u8],
    /// A JSON object as text; empty where there are no fields.
    pub fields: &'a str,
}

impl<'a> Record<'a> {
    /// Appends the record to a batch.
    pub fn encode(&self, batch: &mut Vec<u8>) {
        batch.reserve(40 + self.source.len() + self.host.len() + self.text.len() + self.fields.len());
        // The parts of fixed length at once: this runs for every message.
        let mut head = [0x90 | ELEMENTS as u8, 0xd3, 0, 0, 0, 0, 0, 0, 0, 0, self.level as u8];
        head[2..10].copy_from_slice(&self.time.to_be_bytes());
        batch.extend_from_slice(&head);
        let mut out = ByteBuf::from_vec(std::mem::take(batch));
        // Writing into memory cannot fail; the errors are uninhabited.
        let _ = encode::write_str(&mut out, self.source);
        let _ = encode::write_str(&mut out, self.host);
        match self.pid {
            Some(pid) => drop(encode::write_uint(&mut out, pid.into())),
            None => drop(encode::write_nil(&mut out)),
        }
        match self.rule {
            TextRule::Declared(encoding) => drop(encode::write_str(&mut out, encoding.name())),
            rule => drop(encode::write_pfix(&mut out, rule.number())),
        }
        let _ = encode::write_bin(&mut out, self.text);
        if self.fields.is_empty() {
            let _ = encode::write_nil(&mut out);
        } else {
            let _ = encode::write_str(&mut out, self.fields);
        }
        *batch = out.into_vec();
    }

    /// Takes the first record off `batch`.
    pub fn decode(batch: &mut &'a [u8]) -> Result<Record<'a>, DecodeError> {
        Record::decode_after(batch, "", "")
    }

    /// As [`Record::decode`], with the source and the host of the record before, which are as a rule the
    /// same: comparing them is quicker than checking them for UTF-8 again.
    fn decode_after(batch: &mut &'a [u8], source: &'a str, host: &'a str) -> Result<Record<'a>, DecodeError> {
        let mut input = Input::new(batch);
        let elements = input.array_len()?;
        if elements < ELEMENTS {
            return Err(DecodeError::Element(elements as u8));
        }
        let record = Record {
            time: input.int(0)?,
            level: u8::try_from(input.int(1)?)
                .ok()
                .and_then(Level::from_number)
                .ok_or(DecodeError::Element(1))?,
            source: input.str_like(2, source)?,
            host: input.str_like(3, host)?,
            pid: match input.peek()? {
                Marker::Null => {
                    input.take(1)?;
                    None
                }
                _ => Some(u32::try_from(input.int(4)?).map_err(|_| DecodeError::Element(4))?),
            },
            rule: match input.peek()? {
                Marker::FixStr(_) | Marker::Str8 => {
                    Encoding::for_label(input.str(5)?.as_bytes()).map(TextRule::Declared)
                }
                _ => u8::try_from(input.int(5)?).ok().and_then(TextRule::from_number),
            }
            .ok_or(DecodeError::Element(5))?,
            text: input.bin(6)?,
            fields: match input.peek()? {
                Marker::Null => {
                    input.take(1)?;
                    ""
                }
                _ => input.str(7)?,
            },
        };
        for _ in ELEMENTS..elements {
            input.skip(0)?;
        }
        *batch = input.rest();
        Ok(record)
    }
}

/// The records of a batch, first to last; ends after the first error.
pub fn records(batch: &[u8]) -> impl Iterator<Item = Result<Record<'_>, DecodeError>> {
    let mut rest = batch;
    let (mut source, mut host) = ("", "");
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = Record::decode_after(&mut rest, source, host);
        match &record {
            Ok(record) => (source, host) = (record.source, record.host),
            Err(_) => rest = &[],
        }
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Record<'static> {
        Record {
            time: 1_796_083_200_123_456_789,
            level: Level::Warn,
            source: "updater",
            host: "kiosk-7",
            pid: Some(4242),
            rule: TextRule::Utf8,
            text: "Grüße".as_bytes(),
            fields: r#"{"k":"v"}"#,
        }
    }

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut batch = Vec::new();
        Record { source: "a", host: "b", pid: None, text: b"t", fields: "", time: 1, ..sample() }
            .encode(&mut batch);
        assert_eq!(
            batch,
            [0x98, 0xd3, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0xa1, b'a', 0xa1, b'b', 0xc0, 3, 0xc4, 1, b't', 0xc0]
        );
    }

    #[test]
    fn later_versions_may_append_elements() {
        let mut batch = Vec::new();
        sample().encode(&mut batch);
        batch[0] = 0x9a;
        batch.extend([0x82, 0xa1, b'x', 0x93, 1, 2, 0xc0, 0xa1, b'y', 0xcd, 1, 0]);
        batch.extend([0xd6, 1, 2, 3, 4, 5]);
        let mut rest = &batch[..];
        assert_eq!(Record::decode(&mut rest), Ok(sample()));
        assert!(rest.is_empty());
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(time: i64, level in 0u8..6, source: String, host: String, pid: Option<u32>,
                                  rule in 2u8..7, text: Vec<u8>, fields in "(\\{\\}|)") {
            let record = Record {
                time, level: Level::from_number(level).unwrap(), source: &source, host: &host, pid,
                rule: TextRule::from_number(rule).unwrap(), text: &text, fields: &fields,
            };
            let mut batch = Vec::new();
            record.encode(&mut batch);
            record.encode(&mut batch);
            let all: Vec<_> = records(&batch).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(all, vec![record, record]);
            for cut in 0..batch.len() / 2 {
                prop_assert!(Record::decode(&mut &batch[..cut]).is_err());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            for record in records(&bytes) { let _ = record; }
        }
    }
}
