//! The log: its files and its newest records.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Called, Method, Outcome, Wait, default_timeout_ms, later};
use crate::config::Durability;
use crate::journal::Position;
use crate::server::state::Shared;
use crate::wire::record::records;
use crate::wire::rpc::{Fault, Params};
use crate::wire::{Level, Record, text};
use crate::{Error, Kind};

pub(super) const METHODS: &[Method] = &[
    ("log.flush", log_flush),
    ("log.rotate", log_rotate),
    ("log.reopen", log_reopen),
    ("log.list", log_list),
    ("log.tail", log_tail),
];

fn log_flush(_: &Shared, method: &str, params: Params) -> Called {
    let wait: Wait = params.read(method)?;
    later(move |shared| {
        let deadline = Instant::now() + wait.timeout();
        // What `stats` has counted as received is covered, though it may be in a batch for 2 ms.
        let forwards = shared.forwards.iter().filter_map(|forward| forward.log.as_ref());
        for channel in std::iter::once(&shared.intake).chain(forwards) {
            let taken = channel.taken();
            while channel.done() < taken {
                if Instant::now() >= deadline {
                    return Err(Error::new(Kind::Timeout, "log.flush: messages are still on the way").into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let position = shared.journal.end();
        let left = || deadline.saturating_duration_since(Instant::now());
        shared.sinks.flush(position, left())?;
        let durable = shared.config().journal.durability == Durability::Fsynced;
        if durable && !shared.journal.wait_durable(position, left()) {
            return Err(Error::new(Kind::Timeout, "log.flush: the journal is not synced yet").into());
        }
        Ok(json!({"position": position}))
    })
}

#[derive(Deserialize)]
struct Rotate {
    /// The sink's path as in the settings; all sinks without it.
    log: Option<String>,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn log_rotate(_: &Shared, method: &str, params: Params) -> Called {
    let rotate: Rotate = params.read(method)?;
    later(move |shared| {
        let wait = Wait { timeout_ms: rotate.timeout_ms };
        let files = shared.sinks.rotate(rotate.log.as_deref(), wait.timeout())?;
        Ok(json!({"files": files}))
    })
}

fn log_reopen(_: &Shared, method: &str, params: Params) -> Called {
    let wait: Wait = params.read(method)?;
    later(move |shared| {
        shared.sinks.reopen(wait.timeout())?;
        Ok(json!({}))
    })
}

fn log_list(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    Ok(Outcome::Now(json!({"logs": shared.sinks.status(&shared.journal)})))
}

#[derive(Deserialize)]
struct Tail {
    /// How many records, 1 to 10,000.
    #[serde(default = "default_tail")]
    records: usize,
    /// The least level.
    level: Option<String>,
    /// Only this source.
    source: Option<String>,
}

fn default_tail() -> usize {
    100
}

/// A reply of this many bytes of text is long enough; older records are left out.
const TAIL_BYTES: usize = 4 << 20;
/// Older segments are not looked at after this time.
const TAIL_TIME: Duration = Duration::from_secs(5);

fn log_tail(_: &Shared, method: &str, params: Params) -> Called {
    let tail: Tail = params.read(method)?;
    if !(1..=10_000).contains(&tail.records) {
        return Err(Fault::invalid_params("log.tail: records must be 1 to 10000"));
    }
    let least = match tail.level.as_deref() {
        None => Level::Trace,
        Some(name) => Level::parse(name)
            .ok_or_else(|| Fault::invalid_params(format!("log.tail: level: no level is called {name:?}")))?,
    };
    later(move |shared| {
        let wanted = |record: &Record<'_>| {
            record.level >= least && tail.source.as_ref().is_none_or(|source| source == record.source)
        };
        let deadline = Instant::now() + TAIL_TIME;
        let mut end = shared.journal.end();
        let mut found = VecDeque::new();
        let mut room = TAIL_BYTES;
        // From the back, segment by segment, until there is enough.
        for start in shared.journal.segment_starts().into_iter().rev() {
            let most = tail.records - found.len();
            for (bytes, record) in newest(shared, start..end, most, room, wanted)?.into_iter().rev() {
                room = room.saturating_sub(bytes);
                found.push_front(record);
            }
            if found.len() >= tail.records || room == 0 || Instant::now() >= deadline {
                break;
            }
            end = start;
        }
        Ok(json!({"records": found}))
    })
}

/// The newest records that are wanted between two positions, oldest first, each with the length of its text.
fn newest(
    shared: &Shared,
    range: std::ops::Range<Position>,
    most: usize,
    room: usize,
    wanted: impl Fn(&Record<'_>) -> bool,
) -> std::result::Result<VecDeque<(usize, Value)>, Error> {
    let mut reader = shared.journal.reader(range.start);
    let mut last: VecDeque<(usize, Value)> = VecDeque::new();
    let mut bytes = 0;
    while let Some(frame) = reader.next(Duration::ZERO)?.filter(|frame| frame.position < range.end) {
        // What cannot be read is counted by the sinks.
        for record in records(frame.body()).map_while(std::result::Result::ok).filter(&wanted) {
            let text = text::decode(record.rule, record.text).text;
            bytes += text.len();
            last.push_back((
                text.len(),
                json!({
                    "time_ns": record.time.to_string(),
                    "level": record.level.name(),
                    "source": record.source,
                    "host": record.host,
                    "pid": record.pid,
                    "text": text,
                    "fields": serde_json::from_str::<Value>(record.fields).unwrap_or_default(),
                }),
            ));
            while last.len() > most || bytes > room {
                bytes -= last.pop_front().map_or(0, |(len, _)| len);
            }
        }
    }
    Ok(last)
}
