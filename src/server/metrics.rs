//! Counts of a channel that logs. They add up: received = written + dropped, once nothing is pending.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::wire::TextRule;

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Drop {
    /// More than two frames.
    Frames,
    /// No text at all.
    Empty,
    /// Longer than `[intake] max_text`.
    TooLarge,
    /// The journal could not take it.
    DiskFull,
    /// A defect: handling it panicked.
    Internal,
}

impl Drop {
    pub const ALL: [Drop; 5] = [Drop::Frames, Drop::Empty, Drop::TooLarge, Drop::DiskFull, Drop::Internal];

    pub const fn name(self) -> &'static str {
        ["frames", "empty", "too_large", "disk_full", "internal"][self as usize]
    }
}

const RULES: [&str; 6] = ["declared", "bom", "utf8", "utf16le", "utf8_escaped", "bytes"];

/// Counts of a channel that logs. Written by its thread, read by anyone.
#[derive(Default)]
pub(super) struct LogMetrics {
    received: AtomicU64,
    bytes: AtomicU64,
    written: AtomicU64,
    dropped: [AtomicU64; Drop::ALL.len()],
    text: [AtomicU64; RULES.len()],
}

/// One thread writes, so a load and a store do; a locked addition for each message would cost more.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

impl LogMetrics {
    pub fn received(&self, bytes: usize) {
        add(&self.received, 1);
        add(&self.bytes, bytes as u64);
    }

    pub fn text(&self, rule: TextRule) {
        add(&self.text[rule.number() as usize - 1], 1);
    }

    pub fn written(&self, records: u64) {
        add(&self.written, records);
    }

    pub fn dropped(&self, reason: Drop, count: u64) {
        add(&self.dropped[reason as usize], count);
    }

    /// How many messages were taken in so far.
    pub fn taken(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How many of them are in the journal or dropped.
    pub fn done(&self) -> u64 {
        let dropped: u64 = self.dropped.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        self.written.load(Ordering::Relaxed) + dropped
    }

    pub fn to_json(&self) -> Value {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        fn named<'a>(names: &[&str], counters: impl IntoIterator<Item = &'a AtomicU64>) -> Value {
            let counts = counters.into_iter().map(|counter| json!(counter.load(Ordering::Relaxed)));
            names.iter().map(|name| name.to_string()).zip(counts).collect()
        }
        // Read in this order, so that what is in the batch now shows as pending and never as negative.
        let text = named(&RULES, &self.text);
        let dropped = named(&Drop::ALL.map(Drop::name), &self.dropped);
        let lost: u64 = self.dropped.iter().map(get).sum();
        let written = get(&self.written);
        let received = get(&self.received);
        json!({
            "received": received,
            "bytes": get(&self.bytes),
            "written": written,
            "pending": received.saturating_sub(written + lost),
            "dropped": dropped,
            "text": text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_have_their_names() {
        let metrics = LogMetrics::default();
        for _ in 0..5 {
            metrics.received(10);
        }
        metrics.text(TextRule::Bytes);
        metrics.written(2);
        metrics.dropped(Drop::TooLarge, 2);
        let json = metrics.to_json();
        assert_eq!(json["received"], 5);
        assert_eq!(json["bytes"], 50);
        assert_eq!(json["pending"], 1);
        assert_eq!(json["dropped"]["too_large"], 2);
        assert_eq!(json["text"]["bytes"], 1);
        for number in 2..=6 {
            assert_eq!(RULES[number as usize - 1], TextRule::from_number(number).unwrap().name());
        }
    }
}
