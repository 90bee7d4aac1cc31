//! Segment files: their names, their head, and reading frames out of them whatever their state.
//!
//! A segment is named after the position of its first byte, as 20 digits and `.seg`. It begins with 64
//! bytes: magic `HWGJRNL1`, salt (4), position (8), creation time in ns (8), CRC32C of these 28 bytes
//! (4), zeros. Then come the frames of the snapshot, then frames of records.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Position;
use super::frame::{self, Frame, FrameKind, MAGIC, MAX_HEADER, PREFIX, Prefix};
use super::snapshot::Snapshot;
use crate::util::sync_dir;

const FILE_MAGIC: [u8; 8] = *b"HWGJRNL1";
/// Bytes before the first frame.
pub const FILE_HEADER: usize = 64;
/// Snapshots are cut into bodies of this size.
const SNAPSHOT_PART: usize = 64 << 10;
/// How much is read from a file at once.
const WINDOW: usize = 256 << 10;

/// A segment that is on disk.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The position of its first byte.
    pub base: Position,
    /// Bytes in it.
    pub len: u64,
    /// What all its frames carry.
    pub salt: u32,
    /// When its newest frame came, in nanoseconds since 1970.
    pub newest: i64,
}

impl Segment {
    /// The position behind its last byte.
    pub fn end(&self) -> Position {
        self.base + self.len
    }
}

/// Where the segment at `base` is.
pub fn path(dir: &Path, base: Position) -> PathBuf {
    dir.join(format!("{base:020}.seg"))
}

/// The positions of all segments in `dir`, oldest first.
pub fn list(dir: &Path) -> io::Result<Vec<Position>> {
    let mut bases = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(digits) = name.to_str().and_then(|name| name.strip_suffix(".seg")) else { continue };
        if digits.len() == 20 {
            bases.extend(digits.parse::<Position>());
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Makes a segment and syncs it, snapshot included, before anything is appended to it.
pub fn create(dir: &Path, base: Position, snapshot: &Snapshot, now: i64) -> io::Result<(File, Segment)> {
    let salt = uuid::Uuid::new_v4().as_fields().0;
    let mut bytes = Vec::with_capacity(FILE_HEADER + 256);
    bytes.extend(FILE_MAGIC);
    bytes.extend(salt.to_le_bytes());
    bytes.extend(base.to_le_bytes());
    bytes.extend(now.to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(FILE_HEADER, 0);
    let encoded = snapshot.encode();
    let parts = encoded.chunks(SNAPSHOT_PART).count();
    for (index, part) in encoded.chunks(SNAPSHOT_PART).enumerate() {
        let kind = if index + 1 == parts { FrameKind::SnapshotEnd } else { FrameKind::Snapshot };
        let position = base + bytes.len() as u64;
        bytes.extend(frame::encode(position, salt, kind, &[], part));
    }

    let path = path(dir, base);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        sync_dir(dir)?;
        Ok(file)
    });
    match written {
        Ok(file) => Ok((file, Segment { base, len: bytes.len() as u64, salt, newest: now })),
        Err(error) => {
            // Half a segment helps nobody and, on a full disk, takes what little is left.
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// What a [`Scanner`] found next.
pub enum Item {
    /// A frame of records.
    Records(Frame),
    /// A part of the snapshot, and whether it is the last.
    Snapshot { part: Vec<u8>, last: bool },
    /// Bytes that belong to no frame; `tail` when none follows.
    Damage { position: Position, bytes: u64, tail: bool },
}

/// Reads the frames of one segment in order, passing over damage.
pub struct Scanner {
    file: File,
    base: Position,
    salt: u32,
    at: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Scanner {
    /// Opens the segment at `base`; a damaged file header costs nothing but the salt, which is then
    /// taken from the first thing that looks like a frame.
    pub fn open(dir: &Path, base: Position) -> io::Result<Scanner> {
        let file = File::open(path(dir, base))?;
        let limit = file.metadata()?.len();
        let mut scanner = Scanner { file, base, salt: 0, at: 0, limit, window: Vec::new(), window_at: 0 };
        let head = scanner.peek(FILE_HEADER)?;
        let intact = head.len() == FILE_HEADER
            && head[..8] == FILE_MAGIC
            && head[12..20] == base.to_le_bytes()
            && head[28..32] == crc32c::crc32c(&head[..28]).to_le_bytes();
        if intact {
            scanner.salt = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        } else {
            scanner.salt = scanner.salt_of_first_frame()?;
        }
        scanner.at = limit.min(FILE_HEADER as u64);
        Ok(scanner)
    }

    /// The salt of the segment.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// The position of the next byte to look at.
    pub fn position(&self) -> Position {
        self.base + self.at
    }

    /// Goes to `position`, which should be that of a frame.
    pub fn seek(&mut self, position: Position) {
        self.at =
            position.saturating_sub(self.base).clamp(FILE_HEADER as u64, self.limit.max(FILE_HEADER as u64));
    }

    /// Looks no further than `position`; the file may have grown up to there.
    pub fn set_limit(&mut self, position: Position) {
        self.limit = position.saturating_sub(self.base);
    }

    /// The next frame or damage; none at the limit.
    pub fn next(&mut self) -> io::Result<Option<Item>> {
        if self.at >= self.limit {
            return Ok(None);
        }
        if let Some(item) = self.frame_here()? {
            return Ok(Some(item));
        }
        let start = self.at;
        while self.at < self.limit {
            self.at += 1;
            let window = self.held()?;
            if window.is_empty() {
                // Cut off by somebody since the limit was set.
                break;
            }
            match memchr::memmem::find(window, &MAGIC) {
                Some(offset) => {
                    self.at += offset as u64;
                    let here = self.at;
                    if self.frame_here()?.is_some() {
                        self.at = here;
                        let position = self.base + start;
                        return Ok(Some(Item::Damage { position, bytes: here - start, tail: false }));
                    }
                }
                // A magic may lie across the edge of the window.
                None => self.at += (window.len() as u64).saturating_sub(MAGIC.len() as u64),
            }
        }
        self.at = self.limit;
        Ok(Some(Item::Damage { position: self.base + start, bytes: self.limit - start, tail: true }))
    }

    /// The frame that begins at the next byte, if one does; then goes behind it.
    fn frame_here(&mut self) -> io::Result<Option<Item>> {
        let (position, salt) = (self.position(), self.salt);
        let Some(prefix) = Prefix::parse(position, salt, self.peek(PREFIX + MAX_HEADER)?) else {
            return Ok(None);
        };
        let len = prefix.frame_len();
        let bytes = self.peek(len)?;
        if bytes.len() < len {
            return Ok(None);
        }
        let bytes = bytes[..len].to_vec();
        let item = match prefix.kind {
            FrameKind::Records => match Frame::parse(position, &prefix, bytes) {
                Some(frame) => Item::Records(frame),
                None => return Ok(None),
            },
            kind => match prefix.check(&bytes) {
                Some(body) => {
                    Item::Snapshot { part: bytes[body].to_vec(), last: kind == FrameKind::SnapshotEnd }
                }
                None => return Ok(None),
            },
        };
        self.at += len as u64;
        Ok(Some(item))
    }

    /// All that is in memory from the next byte on, at least enough for the head of a frame.
    fn held(&mut self) -> io::Result<&[u8]> {
        let at_least = self.peek(PREFIX + MAX_HEADER)?.len();
        let start = (self.at.saturating_sub(self.window_at)) as usize;
        let end = self.window.len().min(self.limit.saturating_sub(self.window_at) as usize);
        Ok(if at_least == 0 { &[] } else { &self.window[start..end.max(start)] })
    }

    /// Up to `len` bytes from the next one on; fewer at the limit.
    fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        let len = len.min(self.limit.saturating_sub(self.at) as usize);
        let held = self.window_at + self.window.len() as u64;
        if self.at < self.window_at || self.at + len as u64 > held {
            let wanted = len.max(WINDOW).min(self.limit.saturating_sub(self.at) as usize);
            self.window.resize(wanted, 0);
            self.window_at = self.at;
            self.file.seek(SeekFrom::Start(self.at))?;
            let mut read = 0;
            while read < wanted {
                match self.file.read(&mut self.window[read..]) {
                    Ok(0) => break,
                    Ok(count) => read += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.window.truncate(read);
        }
        let start = (self.at - self.window_at) as usize;
        let end = (start + len).min(self.window.len());
        Ok(&self.window[start.min(end)..end])
    }

    fn salt_of_first_frame(&mut self) -> io::Result<u32> {
        self.at = 0;
        while self.at < self.limit {
            let window = self.peek(WINDOW)?;
            let Some(offset) = memchr::memmem::find(window, &MAGIC) else {
                self.at += (window.len() as u64).saturating_sub(MAGIC.len() as u64).max(1);
                continue;
            };
            self.at += offset as u64;
            let position = self.position();
            let bytes = self.peek(PREFIX + MAX_HEADER)?;
            if let Some(salt) = bytes.get(4..8).and_then(|salt| salt.try_into().ok()).map(u32::from_le_bytes)
                && Prefix::parse(position, salt, bytes).is_some()
            {
                return Ok(salt);
            }
            self.at += 1;
        }
        Ok(0)
    }
}
