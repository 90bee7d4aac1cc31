//! The last events of each group of topics, for clients that lost some.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::hub::Stored;

/// Events kept of a group.
const EVENTS: usize = 1000;
/// Bytes kept of a group.
const BYTES: usize = 1 << 20;

/// The topics with the same first two levels, such as `serial/scanner/`: their numbers and last events.
#[derive(Default)]
pub(super) struct Group {
    /// By topic.
    topics: HashMap<String, Topic>,
    events: VecDeque<Arc<Stored>>,
    bytes: usize,
    /// The newest event, also of those no longer kept.
    pub(super) last_id: u64,
}

#[derive(Default)]
struct Topic {
    seq: u64,
    /// The newest event of this topic that is no longer kept; 0 if all are.
    forgotten: u64,
}

impl Group {
    /// The number of the next event of this topic, from 1; and whether the topic is new here.
    pub fn number(&mut self, topic: &str) -> (u64, bool) {
        if let Some(known) = self.topics.get_mut(topic) {
            known.seq += 1;
            return (known.seq, false);
        }
        self.topics.insert(topic.to_owned(), Topic { seq: 1, forgotten: 0 });
        (1, true)
    }

    /// Keeps an event and forgets the oldest beyond the limits.
    pub fn keep(&mut self, event: Arc<Stored>) {
        self.last_id = event.id;
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > EVENTS || self.bytes > BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes();
            if let Some(topic) = self.topics.get_mut(&oldest.topic) {
                topic.forgotten = oldest.id;
            }
        }
    }

    /// The events after `after` whose topic is wanted, oldest first.
    pub fn after(&self, after: u64, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &Arc<Stored>> {
        let from = self.events.partition_point(|event| event.id <= after);
        self.events.range(from..).filter(move |event| wanted(&event.topic))
    }

    /// Whether an event after `after` of a topic that is wanted is no longer kept.
    pub fn lost_after(&self, after: u64, wanted: impl Fn(&str) -> bool) -> bool {
        self.topics.iter().any(|(name, topic)| topic.forgotten > after && wanted(name))
    }

    pub fn topics(&self) -> usize {
        self.topics.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The group of a topic: its first two levels.
pub(super) fn group(topic: &str) -> &str {
    let mut slashes = topic.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    slashes.nth(1).map_or(topic, |(at, _)| &topic[..=at])
}
