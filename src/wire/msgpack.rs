//! Reading MessagePack where it lies, without copying: the few forms that records, snapshots and
//! messages have. Written with `rmp::encode`, whose decoder reads from a stream and cannot borrow.
//! Format: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

use rmp::Marker;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a value.
    Truncated,
    /// An element has a type or value that it cannot have; its index.
    Element(u8),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the value is cut off"),
            DecodeError::Element(index) => {
                write!(f, "element {index} is not what it should be")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads MessagePack without copying. `rmp::decode` gives lengths and integers from a reader, not
/// borrowed slices from a batch, so the few forms a record has are read here.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    /// What has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn peek(&self) -> Result<Marker, DecodeError> {
        self.rest.first().map(|&byte| Marker::from_u8(byte)).ok_or(DecodeError::Truncated)
    }

    #[inline]
    pub(crate) fn marker(&mut self) -> Result<Marker, DecodeError> {
        Ok(Marker::from_u8(self.take(1)?[0]))
    }

    #[inline]
    fn big_endian(&mut self, bytes: usize) -> Result<u64, DecodeError> {
        Ok(self.take(bytes)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    #[inline]
    pub(crate) fn array_len(&mut self) -> Result<u32, DecodeError> {
        match self.marker()? {
            Marker::FixArray(len) => Ok(len.into()),
            Marker::Array16 => Ok(self.big_endian(2)? as u32),
            Marker::Array32 => Ok(self.big_endian(4)? as u32),
            _ => Err(DecodeError::Element(0)),
        }
    }

    #[inline]
    pub(crate) fn int(&mut self, index: u8) -> Result<i64, DecodeError> {
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

    pub(crate) fn str(&mut self, index: u8) -> Result<&'a str, DecodeError> {
        self.str_like(index, "")
    }

    /// A string that is probably `like`.
    #[inline]
    pub(crate) fn str_like(&mut self, index: u8, like: &'a str) -> Result<&'a str, DecodeError> {
        let len = match self.marker()? {
            Marker::FixStr(len) => len.into(),
            Marker::Str8 => self.big_endian(1)?,
            Marker::Str16 => self.big_endian(2)?,
            Marker::Str32 => self.big_endian(4)?,
            _ => return Err(DecodeError::Element(index)),
        };
        let bytes = self.take(len as usize)?;
        if bytes == like.as_bytes() {
            return Ok(like);
        }
        std::str::from_utf8(bytes).map_err(|_| DecodeError::Element(index))
    }

    #[inline]
    pub(crate) fn bin(&mut self, index: u8) -> Result<&'a [u8], DecodeError> {
        let len = match self.marker()? {
            Marker::Bin8 => self.big_endian(1)?,
            Marker::Bin16 => self.big_endian(2)?,
            Marker::Bin32 => self.big_endian(4)?,
            _ => return Err(DecodeError::Element(index)),
        };
        self.take(len as usize)
    }

    /// Skips one value of any type, `depth` levels down; later versions' elements are shallow.
    pub(crate) fn skip(&mut self, depth: u8) -> Result<(), DecodeError> {
        if depth > 16 {
            return Err(DecodeError::Element(u8::MAX));
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
            Marker::Reserved => return Err(DecodeError::Element(u8::MAX)),
        };
        self.take(bytes as usize)?;
        for _ in 0..values {
            self.skip(depth + 1)?;
        }
        Ok(())
    }
}
