//! A warning now and then instead of one a message.

use std::time::{Duration, Instant};

/// Lets one report through each interval and counts those it held back.
#[derive(Debug)]
pub(crate) struct Throttle {
    interval: Duration,
    last: Option<Instant>,
    held: u64,
}

impl Throttle {
    /// One report each `interval`.
    pub const fn every(interval: Duration) -> Throttle {
        Throttle { interval, last: None, held: 0 }
    }

    /// Whether to report now; then gives how many were held back since the last report.
    pub fn pass(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < self.interval) {
            self.held += 1;
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_passes_and_the_rest_is_counted() {
        let mut throttle = Throttle::every(Duration::from_secs(3600));
        assert_eq!(throttle.pass(), Some(0));
        assert_eq!(throttle.pass(), None);
        assert_eq!(throttle.pass(), None);
        throttle.last = None;
        assert_eq!(throttle.pass(), Some(2));
    }
}
