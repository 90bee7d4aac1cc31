//! Warnings that do not flood: one a minute.

use std::fmt;
use std::time::Duration;

use crate::throttle::Throttle;

/// Warnings about one sink.
#[derive(Debug)]
pub(super) struct Reports {
    throttle: Throttle,
    /// How many were given.
    pub(super) given: u64,
}

impl Default for Reports {
    fn default() -> Self {
        Reports { throttle: Throttle::every(Duration::from_secs(60)), given: 0 }
    }
}

impl Reports {
    /// Warns, unless that was done within the last minute.
    pub(super) fn warn(&mut self, what: fmt::Arguments<'_>) {
        let Some(unsaid) = self.throttle.pass() else { return };
        self.given += 1;
        match unsaid {
            0 => log::warn!("{what}"),
            unsaid => log::warn!("{what} ({unsaid} more since the last report)"),
        }
    }
}
