//! What a client and its subscriptions can be told at the start. All have defaults.

use std::time::{Duration, Instant};

/// For [`Client::new`](super::Client::new).
#[derive(Clone, Debug)]
pub struct Options {
    /// The `commands` endpoint; none means `HWGATE_URL`, else [`DEFAULT_URL`](super::DEFAULT_URL).
    pub url: Option<String>,
    /// Requests that may wait while no gateway is connected, 1,000 by default; 0 makes each fail at once then.
    pub max_waiting: usize,
    /// After so long without a sign of life the gateway counts as gone, 10 s by default; 100 ms to an hour.
    pub dead_after: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { url: None, max_waiting: 1000, dead_after: Duration::from_secs(10) }
    }
}

/// For [`Client::subscribe`](super::Client::subscribe).
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// How long to wait until the subscription is in force, 10 s by default; none does not wait at all, for
    /// programs that start before the gateway.
    pub timeout: Option<Duration>,
    /// Events that may wait for the reader, 100,000 by default; at least 1.
    pub max_events: usize,
    /// Bytes that these may have together, 64 MiB by default. One event is taken whatever its length.
    pub max_bytes: usize,
}

impl Default for SubscribeOptions {
    fn default() -> SubscribeOptions {
        SubscribeOptions { timeout: Some(Duration::from_secs(10)), max_events: 100_000, max_bytes: 64 << 20 }
    }
}

impl SubscribeOptions {
    /// The defaults, but without waiting.
    pub fn later() -> SubscribeOptions {
        SubscribeOptions { timeout: None, ..SubscribeOptions::default() }
    }
}

/// When a wait ends that begins now. A caller may give any duration; more than a year is a year.
pub(super) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(365 * 24 * 3600))
}
