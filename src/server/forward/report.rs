//! When to tell people that messages are dropped, and how many they were.

use std::time::{Duration, Instant};

use super::counts::Counts;
use crate::throttle::Throttle;

/// Subscribers are no longer too slow when nothing was lost for so long.
const CALM: Duration = Duration::from_secs(5);
/// How often losses are told of while they go on.
const REPORT: Duration = Duration::from_secs(60);

/// What was told so far.
pub(super) struct Report {
    /// When the last message was lost to a slow subscriber; none while all is well.
    slow_at: Option<Instant>,
    /// Counts when they were last looked at, and last told of.
    slow: (u64, u64),
    paused: u64,
    going_on: Throttle,
}

impl Default for Report {
    fn default() -> Report {
        Report { slow_at: None, slow: (0, 0), paused: 0, going_on: Throttle::every(REPORT) }
    }
}

impl Report {
    /// Whether subscribers are too slow, when that has changed.
    pub fn slow(&mut self, count: u64, end: bool) -> Option<bool> {
        let was = self.slow_at.is_some();
        if count > self.slow.0 {
            self.slow.0 = count;
            self.slow_at = Some(Instant::now());
        }
        if end || self.slow_at.is_some_and(|at| at.elapsed() >= CALM) {
            self.slow_at = None;
        }
        let is = self.slow_at.is_some();
        (is != was).then_some(is)
    }

    /// What is to be said now: that losses have begun, go on, or how many they were.
    pub fn lines(&mut self, counts: &Counts, paused: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let lost = self.slow.0 - self.slow.1;
        if lost > 0 && self.slow_at.is_none() {
            self.slow.1 = self.slow.0;
            lines.push(format!("{lost} messages were not passed on to subscribers that were too slow"));
        } else if lost > 0 && self.going_on.pass().is_some() {
            lines.push(format!("a subscriber is too slow: {lost} messages lost to it so far"));
        }
        let dropped = counts.paused - self.paused;
        if dropped > 0 && !paused {
            self.paused = counts.paused;
            lines.push(format!("{dropped} messages were dropped while paused"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_told_and_at_the_end_how_many() {
        let mut report = Report::default();
        let counts = |slow, paused| Counts { slow, paused, ..Counts::default() };
        assert_eq!(report.slow(0, false), None);
        assert_eq!(report.lines(&counts(0, 0), false), Vec::<String>::new());
        assert_eq!(report.slow(3, false), Some(true));
        assert_eq!(report.lines(&counts(3, 0), false).len(), 1);
        assert_eq!(report.slow(9, false), None);
        assert_eq!(report.lines(&counts(9, 5), true), Vec::<String>::new());
        assert_eq!(report.slow(9, true), Some(false));
        let lines = report.lines(&counts(9, 7), false);
        assert!(lines[0].starts_with("9 messages were not passed on"), "{lines:?}");
        assert_eq!(lines[1], "7 messages were dropped while paused");
        assert_eq!(report.lines(&counts(9, 7), false), Vec::<String>::new());
    }
}
