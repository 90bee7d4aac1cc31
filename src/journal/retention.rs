//! What may go: segments that are too old or too many, as far as every consumer has read them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Journal;
use super::segment;
use super::store::Writer;
use crate::util::{guard, now};
use crate::{Error, Kind, Result};

/// How long an append waits for a consumer that is a little behind when the journal is full.
const ROOM: Duration = Duration::from_millis(200);

impl Journal {
    /// Makes room, and waits for it a moment where a consumer is only a little behind.
    pub(super) fn wait_for_room(&self, writer: &mut Writer, bytes: u64) -> Result<()> {
        let deadline = Instant::now() + ROOM;
        loop {
            let made = self.make_room(bytes);
            if made.is_ok() || writer.full || Instant::now() >= deadline {
                writer.full = made.is_err();
                return made;
            }
            // Consumers note their position when they come round.
            self.wake();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes segments until `bytes` more fit, or says why they do not.
    fn make_room(&self, bytes: u64) -> Result<()> {
        loop {
            let total: u64 = guard(&self.shared).segments.iter().map(|segment| segment.len).sum();
            if total + bytes <= self.options.max_bytes {
                return Ok(());
            }
            if !self.remove_oldest() {
                let holder = self.slowest_consumer().unwrap_or_default();
                return Err(Error::new(
                    Kind::DiskFull,
                    format!(
                        "journal {}: full ({} bytes), log {holder} has not written what would have to go; \
                         look at its state, or raise [journal] max_bytes",
                        self.options.dir.display(),
                        self.options.max_bytes
                    ),
                ));
            }
        }
    }

    fn slowest_consumer(&self) -> Option<String> {
        let shared = guard(&self.shared);
        let consumers = &shared.snapshot.consumers;
        let slowest = shared.holding.iter().min_by_key(|&name| consumers.get(name).map(|c| c.position))?;
        Some(slowest.clone())
    }

    /// Removes segments that are too old or too many, as far as consumers have read them.
    pub(super) fn retain(&self) {
        let oldest_kept = now() - self.options.max_age.as_nanos().min(i64::MAX as u128) as i64;
        loop {
            {
                let shared = guard(&self.shared);
                let total: u64 = shared.segments.iter().map(|segment| segment.len).sum();
                let Some(oldest) = shared.segments.front() else { return };
                if total <= self.options.max_bytes && oldest.newest >= oldest_kept {
                    return;
                }
            }
            if !self.remove_oldest() {
                return;
            }
        }
    }

    /// Removes the oldest segment if every holding consumer is past it and it is not the active one.
    pub(super) fn remove_oldest(&self) -> bool {
        let mut shared = guard(&self.shared);
        let Some(oldest) = shared.segments.front() else { return false };
        let end = oldest.end();
        let base = oldest.base;
        let consumers = &shared.snapshot.consumers;
        let held = shared
            .holding
            .iter()
            .any(|name| consumers.get(name).is_some_and(|consumer| consumer.position < end));
        if held || shared.segments.len() < 2 {
            return false;
        }
        if std::fs::remove_file(segment::path(&self.options.dir, base)).is_err() {
            return false;
        }
        shared.segments.pop_front();
        self.counters.removed_segments.fetch_add(1, Ordering::Relaxed);
        true
    }
}
