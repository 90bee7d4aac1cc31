//! What a sink tells about itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::journal::Position;

/// How a sink is, and what it did since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Everything before it in the journal is in the files.
    pub position: Position,
    /// How many bytes of the journal are still to be written.
    pub lag_bytes: u64,
    /// How many log files it knows.
    pub files: usize,
    /// Records taken for the files.
    pub written_records: u64,
    /// Records that its `level` or `source` left out.
    pub filtered_records: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Records that the gateway dropped while this sink could not write.
    pub lost_records: u64,
    /// What the journal could not give any more, because it was damaged or removed.
    pub skipped: u64,
    /// Frames whose records could not all be read.
    pub damaged_frames: u64,
    /// Files that got a name with a time stamp.
    pub rotations: u64,
    /// Warnings that were given about it, at most one a minute.
    pub reports: u64,
    /// How it is.
    pub state: Health,
}

/// Whether a sink writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It writes.
    #[default]
    Ok,
    /// It cannot write; it tries again each second, and nothing is lost as long as the journal has room.
    Degraded {
        /// The file and what the system says.
        reason: String,
        /// Since when.
        since: SystemTime,
    },
    /// It ended by a defect in hwgate, and does not come back by itself.
    Failed {
        /// What it says.
        reason: String,
    },
    /// It was stopped.
    Stopped,
}

/// The status, and whoever waits for it to change.
#[derive(Debug, Default)]
pub(super) struct Shared {
    status: Mutex<Status>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Status> {
        // A status is whole after each assignment.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `done`, or the end of the time: then it returns false.
    pub(super) fn wait(&self, until: Instant, done: impl Fn(&Status) -> bool) -> bool {
        let mut status = self.lock();
        while !done(&status) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let (next, _) = self.changed.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner);
            status = next;
        }
        true
    }
}
