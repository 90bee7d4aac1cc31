//! Warnings that do not flood: one a minute.

use std::fmt;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(60);

/// Warnings about one sink.
#[derive(Debug, Default)]
pub(super) struct Reports {
    last: Option<Instant>,
    /// How many were given.
    pub(super) given: u64,
    unsaid: u64,
}

impl Reports {
    /// Warns, unless that was done within the last minute.
    pub(super) fn warn(&mut self, what: fmt::Arguments<'_>) {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            self.unsaid += 1;
            return;
        }
        self.last = Some(Instant::now());
        self.given += 1;
        match std::mem::take(&mut self.unsaid) {
            0 => log::warn!("{what}"),
            unsaid => log::warn!("{what} ({unsaid} more since the last report)"),
        }
    }
}
