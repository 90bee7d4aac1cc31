//! Counts of a forwarder. They add up at any moment: in = out + dropped.

use serde_json::{Value, json};

/// Kept by the forwarder's thread for itself, and copied out for others when it has come round.
#[derive(Clone, Default)]
pub(super) struct Counts {
    /// Messages that came in.
    pub received: u64,
    /// Their bytes, all frames together.
    pub bytes: u64,
    /// Passed on to everyone who had subscribed to them, be it nobody.
    pub passed: u64,
    /// At least one subscriber did not get it, since its queue was full.
    pub slow: u64,
    /// Came while the forwarder was paused.
    pub paused: u64,
    /// Subscribers that did not get a message, summed over the messages.
    pub lost: u64,
    /// How often everyone waited for a slow subscriber.
    pub waits: u64,
    /// Messages shown by the monitor.
    pub shown: u64,
    /// As `lost`, of the monitor.
    pub monitor_lost: u64,
    pub watchers: usize,
    pub publishers: usize,
    pub subscribers: usize,
}

impl Counts {
    /// Adds the members to the forwarder's `stats`.
    pub fn write(&self, stats: &mut Value, monitor: bool) {
        stats["in"] = json!(self.received);
        stats["in_bytes"] = json!(self.bytes);
        stats["out"] = json!(self.passed);
        stats["dropped"] = json!({"slow": self.slow, "paused": self.paused});
        stats["lost"] = json!(self.lost);
        stats["waits"] = json!(self.waits);
        stats["publishers"] = json!(self.publishers);
        stats["subscribers"] = json!(self.subscribers);
        stats["monitor"] = match monitor {
            true => json!({"out": self.shown, "lost": self.monitor_lost, "subscribers": self.watchers}),
            false => Value::Null,
        };
    }
}
