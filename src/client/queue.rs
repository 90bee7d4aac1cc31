//! What a subscription has for its reader: bounded, in order, and with its gaps where they belong.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::options::{SubscribeOptions, deadline};
use super::subscription::Message;
use crate::util::guard;
use crate::wire::Event;
use crate::{Error, Result};

/// What an event takes besides its bytes, about.
const OVERHEAD: usize = 256;

/// Filled by the I/O thread, emptied by readers.
pub(super) struct Queue {
    max_events: usize,
    max_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Message>,
    bytes: usize,
    /// What had no room behind the items.
    tail: Tail,
    dropped: u64,
    in_force: bool,
    /// Why it cannot be in force.
    trouble: Option<Error>,
    /// Nothing comes any more.
    closed: Option<Error>,
}

/// All that came while the queue was full, in the fewest words.
#[derive(Default)]
struct Tail {
    missed: u64,
    unknown: bool,
    /// The last news of the connection.
    connection: Option<Message>,
}

impl Queue {
    pub fn new(options: &SubscribeOptions) -> Queue {
        Queue {
            max_events: options.max_events.max(1),
            max_bytes: options.max_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether so many events with so many bytes are within the limits.
    pub fn fits(&self, events: usize, bytes: usize) -> bool {
        events == 0 || (events < self.max_events && bytes < self.max_bytes)
    }

    /// Adds a message. Where there is no room it is counted in the gap at the end.
    pub fn push(&self, message: Message) {
        let mut state = guard(&self.state);
        if state.closed.is_some() {
            return;
        }
        if self.fits(state.items.len(), state.bytes) {
            state.flush_tail();
            state.bytes += weight(&message);
            state.items.push_back(message);
        } else {
            match message {
                Message::Event(_) => {
                    state.tail.missed += 1;
                    state.dropped += 1;
                }
                Message::Missed(Some(count)) => state.tail.missed += count,
                Message::Missed(None) => state.tail.unknown = true,
                connection => state.tail.connection = Some(connection),
            }
        }
        self.changed.notify_all();
    }

    /// The next message, or none after `timeout`; an error when nothing will come any more.
    pub fn pop(&self, timeout: Duration) -> Result<Option<Message>> {
        let until = deadline(timeout);
        let mut state = guard(&self.state);
        loop {
            if let Some(message) = state.pop() {
                return Ok(Some(message));
            }
            if let Some(error) = &state.closed {
                return Err(error.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |r| r.0);
        }
    }

    /// Events that had no room, since the beginning.
    pub fn dropped(&self) -> u64 {
        guard(&self.state).dropped
    }

    /// All events from now on are heard.
    pub fn set_in_force(&self) {
        let mut state = guard(&self.state);
        (state.in_force, state.trouble) = (true, None);
        self.changed.notify_all();
    }

    /// It cannot be in force as things are.
    pub fn set_trouble(&self, error: Error) {
        guard(&self.state).trouble = Some(error);
        self.changed.notify_all();
    }

    /// Nothing comes any more, for this reason.
    pub fn close(&self, error: Error) {
        guard(&self.state).closed.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Waits until it has been in force once; false when the time is over.
    pub fn wait_in_force(&self, timeout: Duration) -> Result<bool> {
        let until = deadline(timeout);
        let mut state = guard(&self.state);
        while !state.in_force {
            if let Some(error) = state.closed.as_ref().or(state.trouble.as_ref()) {
                return Err(error.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            state = self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |r| r.0);
        }
        Ok(true)
    }
}

impl State {
    fn pop(&mut self) -> Option<Message> {
        if self.items.is_empty() {
            self.flush_tail();
        }
        let message = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(weight(&message));
        Some(message)
    }

    fn flush_tail(&mut self) {
        let Tail { missed, unknown, connection } = std::mem::take(&mut self.tail);
        if unknown {
            self.items.push_back(Message::Missed(None));
        }
        if missed > 0 {
            self.items.push_back(Message::Missed(Some(missed)));
        }
        self.items.extend(connection);
    }
}

fn weight(message: &Message) -> usize {
    if let Message::Event(event) = message { event_weight(event) } else { 0 }
}

/// The memory that an event takes, about.
pub(super) fn event_weight(event: &Event) -> usize {
    let fields: usize = event.fields.iter().map(|(name, value)| name.len() + value_weight(value)).sum();
    event.topic.len() + event.payload.len() + fields + OVERHEAD
}

fn value_weight(value: &serde_json::Value) -> usize {
    use serde_json::Value as V;
    32 + match value {
        V::String(text) => text.len(),
        V::Array(values) => values.iter().map(value_weight).sum(),
        V::Object(members) => members.iter().map(|(name, value)| name.len() + value_weight(value)).sum(),
        V::Null | V::Bool(_) | V::Number(_) => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn event(topic: &str, id: u64, seq: u64, session: &str) -> Event {
        Event {
            topic: topic.to_owned(),
            id,
            seq,
            session: session.to_owned(),
            time_ns: 0,
            fields: serde_json::Map::new(),
            payload: b"x".to_vec(),
        }
    }

    fn queue(max_events: usize, max_bytes: usize) -> Queue {
        Queue::new(&SubscribeOptions { timeout: None, max_events, max_bytes })
    }

    /// What there is, ids and gaps in words.
    pub fn drain(queue: &Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop(Duration::ZERO).unwrap())
            .map(|message| match message {
                Message::Event(event) => format!("{}#{}", event.topic, event.id),
                Message::Missed(Some(count)) => format!("missed {count}"),
                Message::Missed(None) => "missed some".to_owned(),
                Message::Disconnected => "disconnected".to_owned(),
                Message::Reconnected { restarted } => format!("reconnected {restarted}"),
            })
            .collect()
    }

    #[test]
    fn a_full_queue_keeps_the_oldest_and_the_gap_stands_behind_them() {
        let queue = queue(2, usize::MAX);
        for id in 1..=5 {
            queue.push(Message::Event(event("a/", id, id, "s")));
        }
        assert_eq!(queue.dropped(), 3);
        // The reader takes one: there is room again, behind the gap.
        assert!(matches!(queue.pop(Duration::ZERO), Ok(Some(Message::Event(event))) if event.id == 1));
        queue.push(Message::Event(event("a/", 6, 6, "s")));
        queue.push(Message::Event(event("a/", 7, 7, "s")));
        assert_eq!(drain(&queue), ["a/#2", "missed 3", "a/#6", "missed 1"]);
    }

    #[test]
    fn news_of_the_connection_is_never_lost_for_good() {
        let queue = queue(1, usize::MAX);
        queue.push(Message::Event(event("a/", 1, 1, "s")));
        for _ in 0..1000 {
            queue.push(Message::Disconnected);
            queue.push(Message::Reconnected { restarted: true });
            queue.push(Message::Missed(None));
        }
        queue.push(Message::Event(event("a/", 2, 2, "s")));
        assert_eq!(drain(&queue), ["a/#1", "missed some", "missed 1", "reconnected true"]);
    }

    #[test]
    fn bytes_count_and_one_event_always_fits() {
        let queue = queue(100, 300);
        let long = Event { payload: vec![0; 1000], ..event("a/", 1, 1, "s") };
        queue.push(Message::Event(long));
        queue.push(Message::Event(event("a/", 2, 2, "s")));
        assert_eq!(drain(&queue), ["a/#1", "missed 1"]);
        queue.close(Error::new(crate::Kind::Closed, "closed"));
        assert_eq!(queue.pop(Duration::from_secs(60)).unwrap_err().kind(), crate::Kind::Closed);
    }
}
