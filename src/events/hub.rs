//! Numbers events, keeps the last ones and queues them for the socket.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::Heard;
use super::ring::{Group, group};
use crate::util::{guard, now};
use crate::wire::data;
use crate::wire::event::Fields;

/// Events and bytes that may wait for the socket's thread, which hands on a million a second and waits for
/// no subscriber; a publisher that is faster for so long waits for it.
const QUEUE_EVENTS: usize = 100_000;
const QUEUE_BYTES: usize = 64 << 20;
/// The longest that a publisher waits for room; then the event is dropped and counted.
const QUEUE_WAIT: Duration = Duration::from_secs(1);
/// Topics with a number each, and bytes kept in all rings together. Beyond, the group that has been silent for
/// longest is forgotten: its topics begin again at seq 1.
const TOPICS: usize = 65_536;
const RING_BYTES: usize = 64 << 20;

/// An event that has its numbers.
#[derive(Debug)]
pub struct Stored {
    /// Counts the events of this run.
    pub id: u64,
    /// Ends with `/`.
    pub topic: String,
    /// The JSON of the second frame.
    pub header: String,
    /// The third frame.
    pub payload: Vec<u8>,
}

impl Stored {
    pub(super) fn bytes(&self) -> usize {
        self.topic.len() + self.header.len() + self.payload.len()
    }

    /// The form in the reply of `events.replay`.
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("topic".to_owned(), self.topic.clone().into());
        object.insert("header".to_owned(), serde_json::from_str(&self.header).unwrap_or_default());
        data::write(&mut object, &self.payload);
        Value::Object(object)
    }
}

/// The numbers that an event got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// In the session, from 1.
    pub id: u64,
    /// In the topic, from 1.
    pub seq: u64,
}

/// What a client asks for that lost events.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The session of the last event that it has; none means this one.
    pub session: Option<String>,
    /// The id of the last event that it has; 0 for none.
    pub after: u64,
    /// Prefixes as in subscriptions; none means all topics.
    pub topics: Vec<String>,
    /// About how long the reply may be.
    pub max_bytes: usize,
}

/// Where events are published. Any thread may do so.
pub struct Hub {
    session: String,
    /// The subscriptions in force.
    pub heard: Heard,
    state: Mutex<State>,
    /// Room in the queue.
    taken: Condvar,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    published: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    last_id: u64,
    /// By the first two levels of the topic.
    groups: HashMap<String, Group>,
    topics: usize,
    ring_bytes: usize,
    /// The newest event of a group that was forgotten as a whole.
    forgotten: u64,
    queue: VecDeque<Arc<Stored>>,
    queue_bytes: usize,
    /// Nobody sends any more, or not yet.
    closed: bool,
}

impl Hub {
    /// A hub whose events carry this session.
    pub fn new(session: impl Into<String>) -> Hub {
        Hub {
            session: session.into(),
            heard: Heard::default(),
            state: Mutex::new(State { closed: true, ..State::default() }),
            taken: Condvar::new(),
            wake: OnceLock::new(),
            published: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Names this run of the gateway.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Publishes an event. Its topic must have been checked by [`crate::wire::event::topic`] or be built of
    /// [`crate::wire::event::level`]s.
    ///
    /// Waits only while more events are queued than the socket's thread can hand on, at most a second.
    pub fn publish(&self, topic: &str, fields: &Fields, payload: impl Into<Vec<u8>>) -> Published {
        let payload = payload.into();
        let mut state = guard(&self.state);
        if !state.closed && (state.queue.len() >= QUEUE_EVENTS || state.queue_bytes >= QUEUE_BYTES) {
            let full = |state: &mut State| {
                !state.closed && (state.queue.len() >= QUEUE_EVENTS || state.queue_bytes >= QUEUE_BYTES)
            };
            state = self
                .taken
                .wait_timeout_while(state, QUEUE_WAIT, full)
                .map_or_else(|e| e.into_inner().0, |r| r.0);
        }
        let (published, event) = state.number(topic, fields, payload, &self.session);
        let full = state.queue.len() >= QUEUE_EVENTS || state.queue_bytes >= QUEUE_BYTES;
        let first = state.queue.is_empty();
        if state.closed {
            // Without a socket events are for replay only.
        } else if full {
            // It stays in the ring: its gap can be closed by a replay.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            state.queue_bytes += event.bytes();
            state.queue.push_back(event);
        }
        let wake = first && !state.closed;
        drop(state);
        self.published.fetch_add(1, Ordering::Relaxed);
        if let Some(waker) = self.wake.get().filter(|_| wake) {
            waker();
        }
        published
    }

    /// From now on events are queued, and `wake` is called when the first one is.
    pub fn open(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
        guard(&self.state).closed = false;
    }

    /// Nothing is queued any more; publishers that wait go on.
    pub fn close(&self) {
        guard(&self.state).closed = true;
        self.taken.notify_all();
    }

    /// Takes all that is queued.
    pub fn take(&self, into: &mut VecDeque<Arc<Stored>>) {
        let mut state = guard(&self.state);
        into.clear();
        std::mem::swap(&mut state.queue, into);
        state.queue_bytes = 0;
        drop(state);
        self.taken.notify_all();
    }

    /// The events that a client has lost, as far as they are kept: the result of `events.replay`.
    pub fn replay(&self, replay: &Replay) -> Value {
        let same = replay.session.as_ref().is_none_or(|session| *session == self.session);
        let after = if same { replay.after } else { 0 };
        let wanted = |topic: &str| {
            replay.topics.is_empty() || replay.topics.iter().any(|prefix| topic.starts_with(prefix.as_str()))
        };
        let state = guard(&self.state);
        let mut events: Vec<Arc<Stored>> =
            state.groups.values().flat_map(|group| group.after(after, wanted)).cloned().collect();
        let lost =
            state.forgotten > after || state.groups.values().any(|group| group.lost_after(after, wanted));
        let newest = state.last_id;
        drop(state);
        events.sort_unstable_by_key(|event| event.id);
        let mut bytes = 0;
        let fit = events
            .iter()
            .take_while(|event| {
                bytes += event.bytes();
                bytes <= replay.max_bytes
            })
            .count()
            // One that is longer than the reply may be is still better than never getting on.
            .max(1.min(events.len()));
        let next = (fit < events.len()).then(|| events[fit - 1].id);
        json!({
            "session": self.session,
            "complete": same && !lost,
            "newest": newest,
            "next": next,
            "events": events[..fit].iter().map(|event| event.to_json()).collect::<Vec<_>>(),
        })
    }

    /// For `stats`.
    pub fn stats(&self) -> Value {
        let state = guard(&self.state);
        json!({
            "published": self.published.load(Ordering::Relaxed),
            "dropped": self.dropped.load(Ordering::Relaxed),
            "queued": state.queue.len(),
            "topics": state.topics,
            "ring_bytes": state.ring_bytes,
            "subscriptions": self.heard.count(),
        })
    }

    /// Waits until everything published so far was taken by the socket's thread, at most until `deadline`.
    pub fn drain(&self, deadline: Instant) {
        let state = guard(&self.state);
        let left = deadline.saturating_duration_since(Instant::now());
        drop(self.taken.wait_timeout_while(state, left, |state| !state.closed && !state.queue.is_empty()));
    }
}

impl State {
    fn number(
        &mut self,
        topic: &str,
        fields: &Fields,
        payload: Vec<u8>,
        session: &str,
    ) -> (Published, Arc<Stored>) {
        self.last_id += 1;
        let id = self.last_id;
        let name = group(topic);
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_owned(), Group::default());
        }
        let group = self.groups.get_mut(name).expect("it was just made sure of");
        let (seq, new) = group.number(topic);
        let header = fields.header(id, seq, session, now());
        let event = Arc::new(Stored { id, topic: topic.to_owned(), header, payload });
        let before = group.bytes();
        group.keep(event.clone());
        self.ring_bytes = self.ring_bytes + group.bytes() - before;
        self.topics += usize::from(new);
        if self.topics > TOPICS || self.ring_bytes > RING_BYTES {
            self.forget_the_most_silent();
        }
        (Published { id, seq }, event)
    }

    /// Forgets an eighth of the groups, so that it need not be done for each event.
    fn forget_the_most_silent(&mut self) {
        let mut ids: Vec<u64> = self.groups.values().map(|group| group.last_id).collect();
        let at = ids.len() / 8;
        let (_, &mut oldest_kept, _) = ids.select_nth_unstable(at);
        // Never the one that has just published.
        let limit = oldest_kept.max(1).min(self.last_id - 1);
        self.groups.retain(|_, group| group.last_id > limit);
        self.forgotten = self.forgotten.max(limit);
        self.topics = self.groups.values().map(Group::topics).sum();
        self.ring_bytes = self.groups.values().map(Group::bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(reply: &Value) -> Vec<u64> {
        reply["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["header"]["id"].as_u64().unwrap())
            .collect()
    }

    fn ask(after: u64, topics: &[&str]) -> Replay {
        let topics = topics.iter().map(|topic| topic.to_string()).collect();
        Replay { session: None, after, topics, max_bytes: 1 << 20 }
    }

    #[test]
    fn events_are_numbered_kept_and_queued() {
        let hub = Hub::new("s");
        let woken = Arc::new(AtomicU64::new(0));
        let counter = woken.clone();
        hub.open(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(hub.publish("app/a/", &Fields::none(), "1"), Published { id: 1, seq: 1 });
        assert_eq!(hub.publish("app/b/", &Fields::none(), "2"), Published { id: 2, seq: 1 });
        assert_eq!(hub.publish("app/a/", &Fields::none(), "3"), Published { id: 3, seq: 2 });
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        let mut queue = VecDeque::new();
        hub.take(&mut queue);
        assert_eq!(queue.iter().map(|event| event.id).collect::<Vec<_>>(), [1, 2, 3]);
        let reply = hub.replay(&ask(1, &["app/"]));
        assert_eq!(
            (ids(&reply), &reply["complete"], &reply["next"]),
            (vec![2, 3], &json!(true), &Value::Null)
        );
        assert_eq!(ids(&hub.replay(&ask(0, &["app/a/"]))), [1, 3]);
        let other = hub.replay(&Replay { session: Some("old".into()), ..ask(9, &[]) });
        assert_eq!((ids(&other), &other["complete"]), (vec![1, 2, 3], &json!(false)));
        let short = hub.replay(&Replay { max_bytes: 1, ..ask(0, &[]) });
        assert_eq!((ids(&short), &short["next"]), (vec![1], &json!(1)));
    }

    #[test]
    fn a_ring_tells_of_what_it_forgot_and_of_which_topic() {
        let hub = Hub::new("s");
        hub.publish("serial/a/rx/", &Fields::none(), "first");
        for _ in 0..1000 {
            hub.publish("serial/a/tx/", &Fields::none(), "x");
        }
        hub.publish("app/x/", &Fields::none(), "y");
        let reply = hub.replay(&ask(0, &["serial/a/rx/"]));
        assert_eq!((ids(&reply).len(), &reply["complete"]), (0, &json!(false)));
        assert_eq!(hub.replay(&ask(0, &["serial/a/tx/"]))["complete"], true);
        assert_eq!(hub.replay(&ask(0, &["app/"]))["complete"], true);
        hub.publish("app/x/", &Fields::none(), vec![0; 2 << 20]);
        assert_eq!(hub.replay(&ask(0, &["app/"]))["complete"], false);
    }

    #[test]
    fn many_topics_do_not_grow_without_bound() {
        let hub = Hub::new("s");
        for n in 0..TOPICS + 10 {
            hub.publish(&format!("log/{n}/info/"), &Fields::none(), "");
        }
        let topics = hub.stats()["topics"].as_u64().unwrap() as usize;
        assert!(topics > TOPICS / 2 && topics <= TOPICS, "{topics}");
        assert_eq!(hub.replay(&ask(5, &["log/1/"]))["complete"], false);
        // The first is forgotten and begins again, the last goes on.
        assert_eq!(hub.publish("log/0/info/", &Fields::none(), "").seq, 1);
        assert_eq!(hub.publish(&format!("log/{}/info/", TOPICS + 9), &Fields::none(), "").seq, 2);
    }
}
