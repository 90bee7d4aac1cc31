//! The events of one subscription in the order of their ids: each once, gaps closed by a replay or told.
//!
//! No socket here. Events and answers go in; messages go to the queue, and replays to ask for come out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::queue::{Queue, event_weight};
use super::subscription::Message;
use crate::Result;
use crate::wire::{Event, data};

/// After a replay, gaps within this time are told without another one: who loses events again and again gets too many
/// at once, and more of them would not help.
const REPLAY_PAUSE: Duration = Duration::from_secs(1);
/// Topics whose numbers are remembered.
const MAX_SEQS: usize = 65_536;

/// A replay to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Comes back with the answer.
    pub number: u64,
    pub session: String,
    pub after: u64,
}

/// What has been delivered, and what waits.
pub(super) struct Order {
    queue: Arc<Queue>,
    /// None before the first time in force.
    session: Option<String>,
    /// The newest event delivered.
    last_id: u64,
    /// The newest number delivered of each topic.
    seqs: HashMap<String, u64>,
    /// The present connection is in force.
    synced: bool,
    told_disconnected: bool,
    /// Events that must wait, for the connection to be in force or for a replay.
    held: Vec<Event>,
    held_bytes: usize,
    replay: Option<Replay>,
    replays: u64,
    replayed: Option<Instant>,
}

struct Replay {
    number: u64,
    /// That events are missing has been told.
    told: bool,
    /// Another connection came meanwhile, so that there may be another gap.
    again: bool,
}

impl Order {
    pub fn new(queue: Arc<Queue>) -> Order {
        Order {
            queue,
            session: None,
            last_id: 0,
            seqs: HashMap::new(),
            synced: false,
            told_disconnected: false,
            held: Vec::new(),
            held_bytes: 0,
            replay: None,
            replays: 0,
            replayed: None,
        }
    }

    /// The present connection was in force, in this session.
    pub fn in_force_with(&self) -> Option<&str> {
        self.session.as_deref().filter(|_| self.synced)
    }

    /// The connection is gone.
    pub fn disconnected(&mut self) {
        self.synced = false;
        if self.session.is_none() {
            // Nothing was promised yet, and what comes next may be of another session.
            self.take_held(|_| true);
        } else if !self.told_disconnected {
            self.told_disconnected = true;
            self.queue.push(Message::Disconnected);
        }
    }

    /// A connection is in force: what is published after `id` in this session will come.
    pub fn synced(&mut self, session: &str, id: u64, now: Instant) -> Option<Ask> {
        self.synced = true;
        let restarted = self.session.as_deref().is_some_and(|known| known != session);
        if restarted {
            // What waited for a replay of the old session waits in vain.
            self.replay = None;
            self.release(|event| event.session != session);
        }
        if self.told_disconnected {
            self.told_disconnected = false;
            self.queue.push(Message::Reconnected { restarted });
        }
        if restarted {
            self.seqs.clear();
            self.last_id = 0;
            // Nobody knows any more what the old session had last.
            self.queue.push(Message::Missed(None));
        } else if self.session.is_some() {
            if let Some(replay) = &mut self.replay {
                replay.again = true;
                return None;
            }
        } else {
            self.session = Some(session.to_owned());
            self.release(|_| true);
            self.last_id = self.last_id.max(id);
            self.queue.set_in_force();
            return None;
        }
        self.session = Some(session.to_owned());
        if id <= self.last_id {
            self.release(|_| true);
            return None;
        }
        Some(self.ask(now, restarted))
    }

    /// An event from the connection.
    pub fn event(&mut self, event: Event, now: Instant) -> Option<Ask> {
        if !self.synced || self.replay.is_some() {
            self.hold(event);
            return None;
        }
        if self.session.as_ref() != Some(&event.session) || event.id <= self.last_id {
            return None;
        }
        let soon = self.replayed.is_some_and(|at| now.saturating_duration_since(at) < REPLAY_PAUSE);
        if self.lost_before(&event) > 0 && !soon {
            self.hold(event);
            return Some(self.ask(now, false));
        }
        self.deliver(event);
        None
    }

    /// The answer to a replay.
    pub fn replayed(&mut self, number: u64, result: Result<Value>, now: Instant) -> Option<Ask> {
        let replay = self.replay.as_mut().filter(|replay| replay.number == number)?;
        self.replayed = Some(now);
        let page =
            result.ok().and_then(Page::read).filter(|page| Some(&page.session) == self.session.as_ref());
        let (again, mut told) = (replay.again, replay.told);
        let (mut events, complete, next, newest) = match page {
            Some(page) => (page.events, page.complete, page.next, page.newest),
            None => (Vec::new(), false, None, u64::MAX),
        };
        let next = next.filter(|next| *next > self.last_id);
        // Events that waited may be older than what the gateway still has, and belong between.
        let limit = next.unwrap_or(if again { newest } else { u64::MAX });
        events.extend(self.take_held(|event| event.id <= limit));
        events.sort_by_key(|event| event.id);
        if !complete && !told {
            told = true;
            if !self.has_jump(&events) {
                self.queue.push(Message::Missed(None));
            }
        }
        events.into_iter().for_each(|event| self.deliver(event));
        if let Some(next) = next {
            self.last_id = self.last_id.max(next);
            let ask = self.ask(now, told);
            self.replay.as_mut()?.again = again;
            return Some(ask);
        }
        self.replay = None;
        again.then(|| self.ask(now, false))
    }

    fn ask(&mut self, now: Instant, told: bool) -> Ask {
        self.replays += 1;
        self.replayed = Some(now);
        self.replay = Some(Replay { number: self.replays, told, again: false });
        let session = self.session.clone().unwrap_or_default();
        Ask { number: self.replays, session, after: self.last_id }
    }

    fn hold(&mut self, event: Event) {
        // One that has no room is found missing by its number.
        if self.queue.fits(self.held.len(), self.held_bytes) {
            self.held_bytes += event_weight(&event);
            self.held.push(event);
        }
    }

    /// Takes those of the events that waited.
    fn take_held(&mut self, which: impl Fn(&Event) -> bool) -> Vec<Event> {
        let (taken, kept) = std::mem::take(&mut self.held).into_iter().partition(which);
        self.held = kept;
        self.held_bytes = self.held.iter().map(event_weight).sum();
        taken
    }

    /// Delivers those of the events that waited.
    fn release(&mut self, which: impl Fn(&Event) -> bool) {
        let mut events = self.take_held(which);
        events.sort_by_key(|event| event.id);
        events.into_iter().for_each(|event| self.deliver(event));
    }

    fn deliver(&mut self, event: Event) {
        if event.id <= self.last_id {
            return;
        }
        let lost = self.lost_before(&event);
        if lost > 0 {
            self.queue.push(Message::Missed(Some(lost)));
        }
        self.last_id = event.id;
        if let Some(seq) = self.seqs.get_mut(&event.topic) {
            *seq = event.seq;
        } else {
            if self.seqs.len() >= MAX_SEQS {
                self.seqs.clear();
            }
            self.seqs.insert(event.topic.clone(), event.seq);
        }
        self.queue.push(Message::Event(event));
    }

    /// How many events of its topic are missing before this one. A topic that begins again was forgotten by the gateway.
    fn lost_before(&self, event: &Event) -> u64 {
        self.seqs.get(&event.topic).map_or(0, |seq| event.seq.saturating_sub(seq + 1))
    }

    /// Whether the numbers of these events will tell of a loss.
    fn has_jump(&self, events: &[Event]) -> bool {
        let mut seen = HashSet::new();
        let mut new = events.iter().filter(|event| event.id > self.last_id);
        new.any(|event| seen.insert(&event.topic) && self.lost_before(event) > 0)
    }
}

/// The result of `events.replay`.
struct Page {
    session: String,
    complete: bool,
    newest: u64,
    next: Option<u64>,
    events: Vec<Event>,
}

impl Page {
    fn read(mut result: Value) -> Option<Page> {
        let Value::Array(events) = result["events"].take() else { return None };
        Some(Page {
            session: result["session"].as_str()?.to_owned(),
            complete: result["complete"].as_bool()?,
            newest: result["newest"].as_u64()?,
            next: result["next"].as_u64(),
            events: events.into_iter().filter_map(read_event).collect(),
        })
    }
}

fn read_event(event: Value) -> Option<Event> {
    let Value::Object(mut event) = event else { return None };
    let Some(Value::String(topic)) = event.remove("topic") else { return None };
    let Some(Value::Object(header)) = event.remove("header") else { return None };
    Event::from_header(topic, header, data::find(&event)?).ok()
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
