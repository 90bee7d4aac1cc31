//! Following the journal: from memory while the reader keeps up, from disk when it is behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::segment::{Item, Scanner};
use super::{Frame, Journal, Position};
use crate::util::guard;
use crate::{Error, Result};

/// Reads frames in order, from a position on. One thread at a time.
pub struct Reader {
    journal: Arc<Journal>,
    position: Position,
    /// The segment being read from disk, by its base.
    scanner: Option<(Position, Scanner)>,
    wakes: u64,
    skipped: u64,
}

/// Where the next frame is to be had.
enum Source {
    Memory(Arc<Frame>),
    Disk { base: Position, end: Position },
    None,
}

impl Reader {
    pub(super) fn new(journal: Arc<Journal>, position: Position) -> Reader {
        let wakes = guard(&journal.shared).wakes;
        Reader { journal, position, scanner: None, wakes, skipped: 0 }
    }

    /// The next frame. Waits up to `timeout` for one; none when none came, when
    /// [`Journal::wake`] was called, or when the journal is closed and read to its end.
    ///
    /// # Errors
    /// IO when the segment cannot be read; the next call tries again.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Arc<Frame>>> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.source(deadline) {
                Source::None => return Ok(None),
                Source::Memory(frame) => {
                    self.scanner = None;
                    self.position = frame.end;
                    return Ok(Some(frame));
                }
                Source::Disk { base, end } => {
                    if let Some(frame) = self.read_disk(base, end)? {
                        return Ok(Some(frame));
                    }
                }
            }
        }
    }

    /// The position of the next frame, or before it.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Bytes passed over: damaged ones, and those that retention removed before they were read.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn source(&mut self, deadline: Instant) -> Source {
        let mut shared = guard(&self.journal.shared);
        loop {
            if self.position < shared.end {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if shared.wakes != self.wakes || left.is_zero() || shared.closed {
                self.wakes = shared.wakes;
                return Source::None;
            }
            shared = self.journal.grown.wait_timeout(shared, left).map_or_else(|e| e.into_inner().0, |r| r.0);
        }
        if self.position >= shared.recent_from {
            let index = shared.recent.partition_point(|frame| frame.position < self.position);
            return match shared.recent.get(index) {
                Some(frame) => Source::Memory(frame.clone()),
                None => {
                    // Only the head of a new segment lies between here and the end.
                    self.position = shared.end;
                    Source::None
                }
            };
        }
        let segments = &shared.segments;
        let index = segments.partition_point(|segment| segment.end() <= self.position);
        match segments.get(index) {
            Some(segment) => {
                if index == 0 && self.position < segment.base {
                    // Known to be gone only where it lay in the run before this segment's; a jump
                    // between runs holds nothing.
                    self.skipped += if self.position >> 40 == segment.base >> 40 {
                        segment.base - self.position
                    } else {
                        0
                    };
                }
                Source::Disk { base: segment.base, end: segment.end() }
            }
            None => Source::None,
        }
    }

    /// The next frame of the segment; none when it has no more, after which the position is behind it.
    fn read_disk(&mut self, base: Position, end: Position) -> Result<Option<Arc<Frame>>> {
        let dir = &self.journal.options.dir;
        let failed = |error| Error::io(format!("journal {}", dir.display()), &error);
        let scanner = match &mut self.scanner {
            Some((open, scanner)) if *open == base => scanner,
            other => {
                let mut scanner = match Scanner::open(dir, base) {
                    Ok(scanner) => scanner,
                    // Removed by retention between the look and the opening.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        self.position = self.position.max(end);
                        return Ok(None);
                    }
                    Err(error) => return Err(failed(error)),
                };
                scanner.seek(self.position);
                &mut other.insert((base, scanner)).1
            }
        };
        scanner.set_limit(end);
        loop {
            match scanner.next().map_err(failed)? {
                Some(Item::Records(frame)) => {
                    self.position = frame.end;
                    return Ok(Some(Arc::new(frame)));
                }
                Some(Item::Snapshot { .. }) => {}
                Some(Item::Damage { position, bytes, .. }) => {
                    self.skipped += bytes;
                    log::warn!("journal: {bytes} damaged bytes at {position} passed over");
                }
                None => {
                    self.position = self.position.max(end);
                    self.scanner = None;
                    return Ok(None);
                }
            }
        }
    }
}
