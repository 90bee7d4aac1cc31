//! Start-up: what is in the directory, what is intact, and where to go on.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::Position;
use super::segment::{self, Item, Scanner, Segment};
use super::snapshot::Snapshot;
use crate::{Error, Result};

/// Bits of a position that count bytes within one run of the process. Each start goes on at the next
/// multiple, so that a position that a power cut took back is never given to another frame.
const RUN_BITS: u32 = 40;

/// What start-up found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments on disk.
    pub segments: usize,
    /// Frames of records read, that is those behind the newest snapshot.
    pub frames: u64,
    /// Records in these frames.
    pub records: u64,
    /// Damaged places between intact frames, which are passed over.
    pub damaged_places: u64,
    /// Bytes in them.
    pub damaged_bytes: u64,
    /// Bytes cut off the end: a frame that was being written when the process or the power ended.
    pub cut_bytes: u64,
}

/// The state to go on with.
pub(super) struct Recovered {
    pub report: Recovery,
    pub segments: Vec<Segment>,
    pub snapshot: Snapshot,
    /// Segments without records, to be removed once the next one carries their snapshot.
    pub empty: Vec<Position>,
    /// Where the segment of this run begins.
    pub next: Position,
}

/// Reads the newest valid snapshot and what follows it. Older segments are not opened: what is wrong in
/// them is found, passed over and counted when they are read.
pub(super) fn recover(dir: &Path) -> Result<Recovered> {
    let failed = |error| Error::io(format!("journal {}", dir.display()), &error);
    let bases = segment::list(dir).map_err(failed)?;
    let mut report = Recovery::default();
    let mut snapshot = Snapshot::default();
    let mut first = 0;
    for (index, &base) in bases.iter().enumerate().rev() {
        if let Some(found) = read_snapshot(dir, base).map_err(failed)? {
            (snapshot, first) = (found, index);
            break;
        }
    }
    let mut empty = Vec::new();
    let mut used = bases.last().copied().unwrap_or(0);
    let newest = bases.last().copied();
    let mut segments = Vec::new();
    for (index, base) in bases.into_iter().enumerate() {
        let found = if index < first {
            older(dir, base).map_err(failed)?
        } else {
            let last = Some(base) == newest;
            match replay(dir, base, last, &mut snapshot, &mut report).map_err(failed)? {
                Some(segment) => segment,
                None => {
                    empty.push(base);
                    continue;
                }
            }
        };
        used = used.max(found.end());
        segments.push(found);
    }
    // A write that could not be taken back may reach beyond the beginning of the next segment.
    for index in 1..segments.len() {
        let next = segments[index].base;
        let segment: &mut Segment = &mut segments[index - 1];
        segment.len = segment.len.min(next - segment.base);
    }
    for consumer in snapshot.consumers.values() {
        used = used.max(consumer.position);
    }
    report.segments = segments.len();
    let next = ((used >> RUN_BITS) + 1) << RUN_BITS;
    Ok(Recovered { report, segments, snapshot, empty, next })
}

fn older(dir: &Path, base: Position) -> std::io::Result<Segment> {
    let metadata = std::fs::metadata(segment::path(dir, base))?;
    let newest = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |age| age.as_nanos() as i64);
    Ok(Segment { base, len: metadata.len(), salt: 0, newest })
}

fn read_snapshot(dir: &Path, base: Position) -> std::io::Result<Option<Snapshot>> {
    let mut scanner = Scanner::open(dir, base)?;
    let mut bytes = Vec::new();
    while let Some(Item::Snapshot { part, last }) = scanner.next()? {
        bytes.extend(part);
        if last {
            return Ok(Snapshot::decode(&bytes).ok());
        }
    }
    Ok(None)
}

/// Takes up what a segment's frames say of producers; none if it holds no records. In the last segment
/// damage at the end is cut off, for that is where a write was under way.
fn replay(
    dir: &Path,
    base: Position,
    last: bool,
    snapshot: &mut Snapshot,
    report: &mut Recovery,
) -> std::io::Result<Option<Segment>> {
    let mut segment = older(dir, base)?;
    let mut scanner = Scanner::open(dir, base)?;
    segment.salt = scanner.salt();
    let mut frames = 0;
    while let Some(item) = scanner.next()? {
        match item {
            Item::Records(frame) => {
                snapshot.note(&frame.header);
                segment.newest = frame.header.received;
                report.records += u64::from(frame.header.records);
                frames += 1;
            }
            Item::Snapshot { .. } => {}
            Item::Damage { position, bytes, tail } if tail && last => {
                let file = OpenOptions::new().write(true).open(segment::path(dir, base))?;
                segment.len = position - base;
                file.set_len(segment.len)?;
                file.sync_all()?;
                report.cut_bytes += bytes;
            }
            Item::Damage { bytes, .. } => {
                report.damaged_places += 1;
                report.damaged_bytes += bytes;
            }
        }
    }
    report.frames += frames;
    Ok((frames > 0).then_some(segment))
}
