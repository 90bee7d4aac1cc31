//! Log records as events, on `log/<source>/<level>/`: only while somebody listens to them by name.
//!
//! One thread follows the journal as a sink does, from the moment of the first such subscription. So all channels
//! that log are heard, and none of them does anything for it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::value::RawValue;

use super::state::Shared;
use crate::journal::{Frame, Position, Reader};
use crate::util::guard;
use crate::wire::event::{self, Fields};
use crate::wire::record::records;
use crate::wire::{Level, Record, text};
use crate::{Error, Kind, Result};

/// What the topics of log records begin with.
const TOPICS: &str = "log/";
/// The longest the thread waits before it looks whether the gateway stops, or nobody listens any more.
const WAIT: Duration = Duration::from_millis(200);
/// So far behind, the thread passes over records: live means now, the journal has the rest.
const BEHIND: u64 = 64 << 20;
/// Sources and levels whose topics are remembered.
const REMEMBERED: usize = 1000;

/// Where the thread is told that somebody listens.
#[derive(Default)]
pub(super) struct Live {
    /// Where to begin; none while nobody listens.
    from: Mutex<Option<Position>>,
    begun: Condvar,
}

impl Live {
    /// Notes a subscription. What is appended to the journal after this call is published.
    pub fn subscribed(&self, shared: &Shared) {
        let mut from = guard(&self.from);
        if from.is_none() && shared.hub.heard.below(TOPICS) {
            *from = Some(shared.journal.end());
            self.begun.notify_all();
        }
    }

    /// Where to begin, once somebody listens; none after [`WAIT`].
    fn wait(&self) -> Option<Position> {
        let from = guard(&self.from);
        *self
            .begun
            .wait_timeout_while(from, WAIT, |from| from.is_none())
            .map_or_else(|e| e.into_inner().0, |r| r.0)
    }

    /// Ends the listening if nobody listens any more; whether it ended.
    fn ended(&self, shared: &Shared) -> bool {
        let mut from = guard(&self.from);
        let ended = !shared.hub.heard.below(TOPICS);
        if ended {
            *from = None;
        }
        ended
    }
}

/// Starts the thread; it ends when the gateway stops and the journal is read to its end.
pub(super) fn spawn(shared: &Arc<Shared>) -> Result<JoinHandle<()>> {
    let shared = shared.clone();
    std::thread::Builder::new()
        .name("live-log".into())
        .spawn(move || run(&shared))
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the live log thread: {error}")))
}

fn run(shared: &Shared) {
    while shared.stopping().is_none() {
        if let Some(from) = shared.live.wait() {
            let mut publisher =
                Publisher { shared, reader: shared.journal.reader(from), topics: Topics::default() };
            // A record whose handling panics is a defect; the thread begins again behind it.
            while catch_unwind(AssertUnwindSafe(|| publisher.follow())).is_err() {
                log::error!("events: a defect: a log record could not be published");
            }
        }
    }
}

struct Publisher<'a> {
    shared: &'a Shared,
    reader: Reader,
    topics: Topics,
}

impl Publisher<'_> {
    /// Publishes until nobody listens or the gateway has stopped.
    fn follow(&mut self) {
        while !self.shared.live.ended(self.shared) {
            match self.reader.next(WAIT) {
                Ok(Some(frame)) => self.publish(&frame),
                Ok(None) if self.shared.stopping().is_some() => return,
                Ok(None) => {}
                Err(error) => {
                    log::warn!("events: live log records are passed over: {error}");
                    self.reader = self.shared.journal.reader(self.shared.journal.end());
                }
            }
            let behind = self.shared.journal.backlog(self.reader.position());
            if behind > BEHIND {
                log::warn!(
                    "events: {behind} bytes of live log records are passed over: there are too many at once"
                );
                self.reader = self.shared.journal.reader(self.shared.journal.end());
                let fields = Fields::none().with("skipped_bytes", behind);
                self.shared.hub.publish("gateway/state/", &fields, "live_log_skipped");
            }
        }
    }

    fn publish(&mut self, frame: &Frame) {
        let heard = &self.shared.hub.heard;
        self.topics.refresh(heard.changes());
        // What cannot be read is counted by the sinks.
        for record in records(frame.body()).map_while(std::result::Result::ok) {
            let Some(topic) = self.topics.heard(&record, |topic| heard.by_name(topic)) else { continue };
            let text = text::decode(record.rule, record.text).text;
            self.shared.hub.publish(topic, &fields(&record), text.as_bytes());
        }
    }
}

fn fields(record: &Record<'_>) -> Fields {
    let fields = Fields::none()
        .with("level", record.level.name())
        .with("source", record.source)
        .with("host", record.host)
        .with("log_time_ns", record.time.to_string());
    let fields = match record.pid {
        Some(pid) => fields.with("pid", pid),
        None => fields,
    };
    match serde_json::from_str::<&RawValue>(record.fields) {
        Ok(object) => fields.with("fields", object),
        Err(_) => fields,
    }
}

/// The topics of sources and levels, as far as they are heard.
#[derive(Default)]
struct Topics {
    known: HashMap<String, [Option<Known>; 6]>,
    changes: u64,
}

enum Known {
    Heard(String),
    Unheard,
}

impl Topics {
    /// Forgets what was found out before subscriptions changed.
    fn refresh(&mut self, changes: u64) {
        if self.changes != changes || self.known.len() >= REMEMBERED {
            self.known.clear();
            self.changes = changes;
        }
    }

    /// The topic of this record, if it is heard.
    fn heard(&mut self, record: &Record<'_>, heard: impl FnOnce(&str) -> bool) -> Option<&str> {
        if !self.known.contains_key(record.source) {
            self.known.insert(record.source.to_owned(), Default::default());
        }
        let levels = self.known.get_mut(record.source)?;
        let known = levels[record.level as usize].get_or_insert_with(|| {
            let topic = topic(record.source, record.level);
            if heard(&topic) { Known::Heard(topic) } else { Known::Unheard }
        });
        match known {
            Known::Heard(topic) => Some(topic),
            Known::Unheard => None,
        }
    }
}

/// `log/<source>/<level>/`; a source with no name is `-`.
fn topic(source: &str, level: Level) -> String {
    let source = if source.is_empty() { "-".to_owned() } else { event::level(source) };
    // Escaped it may have three times its length, which is more than a topic may have.
    let shown = source.floor_char_boundary(event::TOPIC_BYTES - 32);
    format!("{TOPICS}{}/{}/", &source[..shown], level.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_level_of_the_topic() {
        assert_eq!(topic("door", Level::Warn), "log/door/warn/");
        assert_eq!(topic("a/b c", Level::Info), "log/a%2Fb%20c/info/");
        assert_eq!(topic("", Level::Error), "log/-/error/");
        assert!(topic(&"/".repeat(1024), Level::Critical).len() <= event::TOPIC_BYTES);
    }
}
