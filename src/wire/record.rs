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

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a record.
    Truncated,
    /// An element has a type or value that it cannot have; its index.
    Element(u8),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the record is cut off"),
            DecodeError::Element(index) => {
                write!(f, "element {index} of the record is not what it should be")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

impl<'a> Record<'a> {
    /// Appends the record to a batch.
    pub fn encode(&self, batch: &mut Vec<u8>) {
        batch.reserve(40 + self.source.len() + self.host.len() + self.text.len() + self.fields.len());
        let mut out = ByteBuf::from_vec(std::mem::take(batch));
        // Writing into memory cannot fail; the errors are uninhabited.
        let _ = encode::write_array_len(&mut out, ELEMENTS);
        let _ = encode::write_i64(&mut out, self.time);
        let _ = encode::write_pfix(&mut out, self.level as u8);
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
        let mut input = Input { rest: batch };
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
            source: input.str(2)?,
            host: input.str(3)?,
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
        *batch = input.rest;
        Ok(record)
    }
}

/// The records of a batch, first to last; ends after the first error.
pub fn records(batch: &[u8]) -> impl Iterator<Item = Result<Record<'_>, DecodeError>> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = Record::decode(&mut rest);
        if record.is_err() {
            rest = &[];
        }
        Some(record)
    })
}

/// Reads MessagePack without copying. `rmp::decode` gives lengths and integers from a reader, not
/// borrowed slices from a batch, so the few forms a record has are read here.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn peek(&self) -> Result<Marker, DecodeError> {
        self.rest.first().map(|&byte| Marker::from_u8(byte)).ok_or(DecodeError::Truncated)
    }

    fn marker(&mut self) -> Result<Marker, DecodeError> {
        Ok(Marker::from_u8(self.take(1)?[0]))
    }

    fn big_endian(&mut self, bytes: usize) -> Result<u64, DecodeError> {
        Ok(self.take(bytes)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn array_len(&mut self) -> Result<u32, DecodeError> {
        match self.marker()? {
            Marker::FixArray(len) => Ok(len.into()),
            Marker::Array16 => Ok(self.big_endian(2)? as u32),
            _ => Err(DecodeError::Element(0)),
        }
    }

    fn int(&mut self, index: u8) -> Result<i64, DecodeError> {
        let wrong = DecodeError::Element(index);
        match self.marker()? {
            Marker::FixPos(value) => Ok(value.into()),
            Marker::FixNeg(value) => Ok(value.into()),
            Marker::U8 => Ok(self.big_endian(1)? as i64),
            Marker::U16 => Ok(self.big_endian(2)? as i64),
            Marker::U32 => Ok(self.big_endian(4)? as i64),
            Marker::U64 => i64::try_from(self.big_endian(8)?).map_err(|_| wrong),
            Marker::I8 => Ok(i64::from(self.big_endian(1)? as u8 as i8)),
            Marker::I16 => Ok(i64::from(self.big_endian(2)? as u16 as i16)),
            Marker::I32 => Ok(i64::from(self.big_endian(4)? as u32 as i32)),
            Marker::I64 => Ok(self.big_endian(8)? as i64),
            _ => Err(wrong),
        }
    }

    fn str(&mut self, index: u8) -> Result<&'a str, DecodeError> {
        let len = match self.marker()? {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.big_endian(1)?,
            Marker::Str16 => self.big_endian(2)?,
            Marker::Str32 => self.big_endian(4)?,
            _ => return Err(DecodeError::Element(index)),
        };
        std::str::from_utf8(self.take(len as usize)?).map_err(|_| DecodeError::Element(index))
    }

    fn bin(&mut self, index: u8) -> Result<&'a [u8], DecodeError> {
        let len = match self.marker()? {
            Marker::Bin8 => self.big_endian(1)?,
            Marker::Bin16 => self.big_endian(2)?,
            Marker::Bin32 => self.big_endian(4)?,
            _ => return Err(DecodeError::Element(index)),
        };
        self.take(len as usize)
    }

    /// Skips one value of any type, `depth` levels down; later versions' elements are shallow.
    fn skip(&mut self, depth: u8) -> Result<(), DecodeError> {
        if depth > 16 {
            return Err(DecodeError::Element(ELEMENTS as u8));
        }
        let marker = self.marker()?;
        let (bytes, values) = match marker {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixStr(len) => (u64::from(len), 0),
            Marker::Str8 | Marker::Bin8 => (self.big_endian(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.big_endian(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.big_endian(4)?, 0),
            Marker::FixArray(len) => (0, u64::from(len)),
            Marker::Array16 => (0, self.big_endian(2)?),
            Marker::Array32 => (0, self.big_endian(4)?),
            Marker::FixMap(len) => (0, 2 * u64::from(len)),
            Marker::Map16 => (0, 2 * self.big_endian(2)?),
            Marker::Map32 => (0, 2 * self.big_endian(4)?),
            Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::FixExt4 => (5, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::Ext8 => (self.big_endian(1)? + 1, 0),
            Marker::Ext16 => (self.big_endian(2)? + 1, 0),
            Marker::Ext32 => (self.big_endian(4)? + 1, 0),
            Marker::Reserved => return Err(DecodeError::Element(ELEMENTS as u8)),
        };
        self.take(bytes as usize)?;
        for _ in 0..values {
            self.skip(depth + 1)?;
        }
        Ok(())
    }
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
