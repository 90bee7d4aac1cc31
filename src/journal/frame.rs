//! A frame: one batch on disk, intact or not.
//!
//! All integers are little-endian. `CRC32C` is the Castagnoli polynomial of RFC 3720.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `HWGF` |
//! | 4 | 4 | salt of the segment |
//! | 8 | 4 | length of the body |
//! | 12 | 2 | length of the header |
//! | 14 | 1 | kind: 0 records, 1 part of a snapshot, 2 last part of a snapshot |
//! | 15 | 1 | 0 |
//! | 16 | 4 | CRC32C over the frame's position (8 bytes), bytes 0-15 and the header |
//! | 20 | h | header, for kind 0 as in [`Header`] |
//! | 20+h | b | body: records, see [`crate::wire::record`] |
//! | 20+h+b | 4 | CRC32C over the body |
//!
//! The position is part of the sum, so that a copy of a frame inside somebody's message is no frame.

use super::Position;

/// What a frame begins with.
pub const MAGIC: [u8; 4] = *b"HWGF";
/// Bytes before the header.
pub const PREFIX: usize = 20;
/// Bytes behind the body.
const SUFFIX: usize = 4;
/// Bytes of [`Header`] before the client's name.
const FIXED_HEADER: usize = 52;
/// No header is longer; a longer length is damage.
pub const MAX_HEADER: usize = FIXED_HEADER + 256;
/// No body is longer; a longer length is damage. Batches aim at 64 KiB, one record may be larger.
pub const MAX_BODY: usize = 64 << 20;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Records of one client.
    Records = 0,
    /// A part of the snapshot at the head of a segment, more follow.
    Snapshot = 1,
    /// The last part of the snapshot.
    SnapshotEnd = 2,
}

/// What precedes the records of a frame.
///
/// On disk: `received` (8), `producer` (16), `epoch` (8), `first_seq` (8), `last_seq` (8), `records`
/// (4), then the client's name as UTF-8 of at most 255 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Nanoseconds since 1970-01-01 UTC by the server's clock when the first record came.
    pub received: i64,
    /// Who numbers the records; all zero for plain clients, which do not.
    pub producer: [u8; 16],
    /// The producer's epoch.
    pub epoch: u64,
    /// The sequence number of the first record.
    pub first_seq: u64,
    /// The last sequence number that the frame accounts for.
    pub last_seq: u64,
    /// How many records the body holds.
    pub records: u32,
    /// The authenticated name of the client, or empty.
    pub client: String,
}

impl Header {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.received.to_le_bytes());
        out.extend(self.producer);
        out.extend(self.epoch.to_le_bytes());
        out.extend(self.first_seq.to_le_bytes());
        out.extend(self.last_seq.to_le_bytes());
        out.extend(self.records.to_le_bytes());
        let name = self.client.floor_char_boundary(MAX_HEADER - FIXED_HEADER - 1);
        out.extend(&self.client.as_bytes()[..name]);
    }

    fn decode(bytes: &[u8]) -> Option<Header> {
        let (fixed, client) = bytes.split_at_checked(FIXED_HEADER)?;
        let number = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        Some(Header {
            received: number(0) as i64,
            producer: fixed[8..24].try_into().ok()?,
            epoch: number(24),
            first_seq: number(32),
            last_seq: number(40),
            records: u32::from_le_bytes(fixed[48..52].try_into().ok()?),
            client: std::str::from_utf8(client).ok()?.to_owned(),
        })
    }
}

/// One intact frame with its place in the journal.
#[derive(Debug)]
pub struct Frame {
    /// Where it begins.
    pub position: Position,
    /// Where it ends; the next frame is there or later.
    pub end: Position,
    /// What precedes the records.
    pub header: Header,
    bytes: Vec<u8>,
    body: std::ops::Range<usize>,
}

impl Frame {
    /// The records, see [`crate::wire::record::records`].
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }

    /// The frame as it is on disk.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes the frame of `body` that stands at `position` in the segment with `salt`.
    pub(super) fn new(position: Position, salt: u32, header: &Header, body: &[u8]) -> Frame {
        let mut fields = Vec::with_capacity(FIXED_HEADER + header.client.len());
        header.encode(&mut fields);
        let bytes = encode(position, salt, FrameKind::Records, &fields, body);
        let start = PREFIX + fields.len();
        Frame {
            position,
            end: position + bytes.len() as u64,
            header: header.clone(),
            bytes,
            body: start..start + body.len(),
        }
    }

    /// The frame of records in `bytes`, whose lengths [`Prefix::parse`] gave.
    pub(super) fn parse(position: Position, prefix: &Prefix, bytes: Vec<u8>) -> Option<Frame> {
        let body = prefix.check(&bytes)?;
        let header = Header::decode(&bytes[PREFIX..body.start])?;
        Some(Frame { position, end: position + bytes.len() as u64, header, bytes, body })
    }
}

/// The bytes of a frame.
pub(super) fn encode(position: Position, salt: u32, kind: FrameKind, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX + header.len() + body.len() + SUFFIX);
    bytes.extend(MAGIC);
    bytes.extend(salt.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend([kind as u8, 0]);
    bytes.extend(head_sum(position, &bytes, header).to_le_bytes());
    bytes.extend(header);
    bytes.extend(body);
    bytes.extend(crc32c::crc32c(body).to_le_bytes());
    bytes
}

fn head_sum(position: Position, prefix: &[u8], header: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&position.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &prefix[..PREFIX - 4]), header)
}

/// The first bytes of a frame with a valid sum: lengths that can be trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub kind: FrameKind,
    header: usize,
    body: usize,
}

impl Prefix {
    /// Reads the prefix of a frame at `position` from `bytes`, which must hold its header too.
    pub fn parse(position: Position, salt: u32, bytes: &[u8]) -> Option<Prefix> {
        if bytes.len() < PREFIX || bytes[..4] != MAGIC || bytes[4..8] != salt.to_le_bytes() {
            return None;
        }
        let body = u32::from_le_bytes(bytes[8..12].try_into().ok()?) as usize;
        let header = usize::from(u16::from_le_bytes(bytes[12..14].try_into().ok()?));
        let kind = match bytes[14] {
            0 => FrameKind::Records,
            1 => FrameKind::Snapshot,
            2 => FrameKind::SnapshotEnd,
            _ => return None,
        };
        if header > MAX_HEADER || body > MAX_BODY || bytes.len() < PREFIX + header {
            return None;
        }
        let sum = u32::from_le_bytes(bytes[16..20].try_into().ok()?);
        let known = head_sum(position, bytes, &bytes[PREFIX..PREFIX + header]);
        (sum == known).then_some(Prefix { kind, header, body })
    }

    /// The length of the whole frame.
    pub fn frame_len(&self) -> usize {
        PREFIX + self.header + self.body + SUFFIX
    }

    /// Where the body is in the frame's bytes, if its sum is right.
    pub fn check(&self, bytes: &[u8]) -> Option<std::ops::Range<usize>> {
        let body = PREFIX + self.header..PREFIX + self.header + self.body;
        let sum = bytes.get(body.end..body.end + SUFFIX)?;
        (crc32c::crc32c(&bytes[body.clone()]).to_le_bytes() == sum).then_some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let header = Header { received: 5, records: 1, client: "kiosk".into(), ..Header::default() };
        Frame::new(1000, 7, &header, b"body")
    }

    #[test]
    fn a_frame_reads_back() {
        let frame = frame();
        let prefix = Prefix::parse(1000, 7, frame.bytes()).unwrap();
        assert_eq!(prefix.frame_len(), frame.bytes().len());
        let again = Frame::parse(1000, &prefix, frame.bytes().to_vec()).unwrap();
        assert_eq!(again.header, frame.header);
        assert_eq!(again.body(), b"body");
        assert_eq!(again.end, 1000 + frame.bytes().len() as u64);
    }

    #[test]
    fn any_flipped_bit_another_salt_or_place_is_no_frame() {
        let frame = frame();
        let intact = |position, salt, bytes: &[u8]| {
            Prefix::parse(position, salt, bytes)
                .and_then(|prefix| Frame::parse(position, &prefix, bytes.to_vec()))
                .is_some()
        };
        assert!(intact(1000, 7, frame.bytes()));
        assert!(!intact(1001, 7, frame.bytes()));
        assert!(!intact(1000, 8, frame.bytes()));
        for bit in 0..frame.bytes().len() * 8 {
            let mut bytes = frame.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Byte 15 is in the sum, too: no bit may change unseen.
            assert!(!intact(1000, 7, &bytes), "bit {bit}");
        }
        for cut in 0..frame.bytes().len() {
            assert!(!intact(1000, 7, &frame.bytes()[..cut]));
        }
    }
}
