//! The one thread that syncs: at most one sync at a time, begun no later than
//! [`Options::sync_interval`](super::Options::sync_interval) after the first byte that is not synced.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Journal, Position};
use crate::util::guard;
use crate::{Error, Kind, Result};

/// How often old segments are looked for.
const RETENTION_INTERVAL: Duration = Duration::from_secs(10);

/// What was written and what of it is synced.
pub(super) struct SyncState {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    /// Files with bytes that are not synced, oldest first.
    dirty: Vec<Arc<File>>,
    dirty_since: Option<Instant>,
    urgent: bool,
    written: Position,
    durable: Position,
    /// What was written before this when a sync failed may not be on the disk, whatever comes later.
    doubtful: Position,
    /// A sync failed and the writer has not begun a new segment yet.
    failed: bool,
    stopping: bool,
    syncs: u64,
    failures: u64,
    last_us: u64,
}

impl SyncState {
    pub fn new(end: Position) -> SyncState {
        let inner = Inner {
            dirty: Vec::new(),
            dirty_since: None,
            urgent: false,
            written: end,
            durable: end,
            doubtful: 0,
            failed: false,
            stopping: false,
            syncs: 0,
            failures: 0,
            last_us: 0,
        };
        SyncState { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Notes that `file` was written up to `end`.
    pub fn written(&self, file: &Arc<File>, end: Position, urgent: bool) {
        let mut inner = guard(&self.inner);
        inner.written = end;
        if !inner.dirty.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            inner.dirty.push(file.clone());
        }
        let first = inner.dirty_since.is_none();
        if first {
            inner.dirty_since = Some(Instant::now());
        }
        // The thread waits for one of these two only; waking it for each frame would cost more than
        // writing the frame.
        if first || (urgent && !inner.urgent) {
            inner.urgent |= urgent;
            self.changed.notify_all();
        }
    }

    /// Whether a sync failed since the last call. The file it failed on must not be trusted again:
    /// the kernel may have dropped the pages and will report success next time.
    pub fn take_failure(&self) -> bool {
        std::mem::take(&mut guard(&self.inner).failed)
    }

    pub fn durable(&self) -> Position {
        guard(&self.inner).durable
    }

    pub fn syncs(&self) -> u64 {
        guard(&self.inner).syncs
    }

    pub fn failures(&self) -> u64 {
        guard(&self.inner).failures
    }

    pub fn last_us(&self) -> u64 {
        guard(&self.inner).last_us
    }

    pub fn stop(&self) {
        guard(&self.inner).stopping = true;
        self.changed.notify_all();
    }

    /// Waits until `position` is durable; false at the deadline, or when a sync of it failed.
    pub fn wait(&self, position: Position, deadline: Instant) -> bool {
        let mut inner = guard(&self.inner);
        while inner.durable < position || position <= inner.doubtful {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || position <= inner.doubtful || inner.stopping {
                return false;
            }
            inner = self.changed.wait_timeout(inner, left).map_or_else(|e| e.into_inner().0, |r| r.0);
        }
        true
    }

    /// Waits until a sync is due and gives what to sync; none when there is nothing left and the
    /// journal closes, or (with `idle`) when retention wants its turn.
    fn due(&self, interval: Duration) -> Due {
        let mut inner = guard(&self.inner);
        loop {
            let left = match inner.dirty_since {
                Some(_) if inner.urgent || inner.stopping => Duration::ZERO,
                Some(since) => interval.saturating_sub(since.elapsed()),
                None if inner.stopping => return Due::Stop,
                None => RETENTION_INTERVAL,
            };
            if left.is_zero() {
                inner.dirty_since = None;
                inner.urgent = false;
                return Due::Sync(std::mem::take(&mut inner.dirty), inner.written);
            }
            let idle = inner.dirty_since.is_none();
            let (again, timeout) =
                self.changed.wait_timeout(inner, left).unwrap_or_else(std::sync::PoisonError::into_inner);
            inner = again;
            if idle && timeout.timed_out() {
                return Due::Idle;
            }
        }
    }

    fn done(&self, result: std::io::Result<()>, written: Position, took: Duration) {
        let mut inner = guard(&self.inner);
        inner.syncs += 1;
        inner.last_us = took.as_micros() as u64;
        match result {
            Ok(()) => inner.durable = written,
            Err(error) => {
                inner.failures += 1;
                inner.failed = true;
                inner.doubtful = written;
                log::error!("journal: sync failed: {error}; going on in a new segment");
            }
        }
        drop(inner);
        self.changed.notify_all();
    }
}

enum Due {
    Sync(Vec<Arc<File>>, Position),
    Idle,
    Stop,
}

/// Starts the thread; it ends with [`SyncState::stop`]. It keeps no journal alive.
pub(super) fn spawn(journal: &Arc<Journal>) -> Result<JoinHandle<()>> {
    let state = journal.sync.clone();
    let interval = journal.options.sync_interval;
    let journal = Arc::downgrade(journal);
    std::thread::Builder::new()
        .name("journal-sync".into())
        .spawn(move || {
            // A defect here must not end the syncing.
            while catch_unwind(AssertUnwindSafe(|| run(&state, interval, &journal))).is_err() {
                log::error!("journal: a defect: the sync thread panicked; it goes on");
            }
        })
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the sync thread: {error}")))
}

fn run(state: &SyncState, interval: Duration, journal: &Weak<Journal>) {
    let mut retained = Instant::now();
    loop {
        match state.due(interval) {
            Due::Sync(files, written) => {
                let start = Instant::now();
                let result = files.iter().try_for_each(|file| file.sync_data());
                state.done(result, written, start.elapsed());
            }
            Due::Idle => {}
            Due::Stop => return,
        }
        if retained.elapsed() >= RETENTION_INTERVAL {
            retained = Instant::now();
            if let Some(journal) = journal.upgrade() {
                journal.retain();
            }
        }
    }
}
