//! What each method does. Names and parameters are listed in docs/PROTOCOL.md.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::state::Shared;
use crate::config::Durability;
use crate::journal::Position;
use crate::util::now;
use crate::wire::record::records;
use crate::wire::rpc::{Fault, Params};
use crate::wire::{Level, Record, text};
use crate::{Error, Kind};

/// What a method may do after its parameters were read.
pub(super) type Work = Box<dyn FnOnce(&Shared) -> Answer + Send>;
type Answer = std::result::Result<Value, Fault>;

/// The answer, or the work that gives it.
pub(super) enum Outcome {
    Now(Value),
    /// May wait for files or sinks, and runs on a thread of its own.
    Later(Work),
}

type Call = fn(&Shared, &str, Params) -> std::result::Result<Outcome, Fault>;

/// Every method, in the order of the documentation.
const METHODS: &[(&str, Call)] = &[
    ("hello", hello),
    ("ping", ping),
    ("stats", stats),
    ("config.reload", config_reload),
    ("shutdown", shutdown),
    ("log.flush", log_flush),
    ("log.rotate", log_rotate),
    ("log.reopen", log_reopen),
    ("log.list", log_list),
    ("log.tail", log_tail),
];

/// The longest a method waits, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Calls a method.
pub(super) fn call(shared: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    match METHODS.iter().find(|(name, _)| *name == method) {
        Some((name, call)) => call(shared, name, params),
        None => {
            let names: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
            Err(Fault::method_not_found(method, &names))
        }
    }
}

fn later(work: impl FnOnce(&Shared) -> Answer + Send + 'static) -> std::result::Result<Outcome, Fault> {
    Ok(Outcome::Later(Box::new(work)))
}

fn hello(shared: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    params.none(method)?;
    let config = shared.config();
    let endpoints: serde_json::Map<String, Value> = shared
        .endpoints
        .iter()
        .map(|(name, endpoint)| {
            (name.clone(), json!(advertised(endpoint, config.endpoints.advertise.as_deref())))
        })
        .collect();
    Ok(Outcome::Now(json!({
        "name": shared.name,
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "session": shared.session,
        "host": gethostname::gethostname().to_string_lossy(),
        "pid": std::process::id(),
        "time_ns": now().to_string(),
        "config": config.file,
        "endpoints": endpoints,
        "limits": {"max_text": config.intake.max_text, "max_message": config.intake.max_message},
        "features": ["logs"],
        "curve": null,
    })))
}

/// The endpoint as clients shall use it: with the host of `advertise`, where it is set.
fn advertised(endpoint: &str, advertise: Option<&str>) -> String {
    match (advertise, endpoint.rsplit_once(':')) {
        (Some(host), Some((_, port))) if endpoint.starts_with("tcp://") => format!("tcp://{host}:{port}"),
        _ => endpoint.to_owned(),
    }
}

fn ping(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    params.none(method)?;
    Ok(Outcome::Now(json!({"time_ns": now().to_string()})))
}

fn stats(shared: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    params.none(method)?;
    let sinks = shared.sinks.status(&shared.journal);
    let degraded = shared.degraded().or_else(|| shared.sinks.degraded());
    Ok(Outcome::Now(json!({
        "name": shared.name,
        "version": env!("CARGO_PKG_VERSION"),
        "session": shared.session,
        "pid": std::process::id(),
        "uptime_ms": shared.started.elapsed().as_millis() as u64,
        "state": if degraded.is_some() { "degraded" } else { "ok" },
        "reason": degraded,
        "config": shared.config().file,
        "intake": shared.intake.to_json(),
        "journal": shared.journal.stats(),
        "recovery": {
            "records": shared.recovery.records,
            "damaged_places": shared.recovery.damaged_places,
            "damaged_bytes": shared.recovery.damaged_bytes,
            "cut_bytes": shared.recovery.cut_bytes,
        },
        "sinks": sinks,
    })))
}

fn config_reload(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    params.none(method)?;
    later(|shared| {
        let done = shared.reload()?;
        log::info!("{done}");
        Ok(json!({"message": done.to_string(), "needs_restart": done.waiting}))
    })
}

fn shutdown(shared: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    params.none(method)?;
    shared.request_shutdown();
    Ok(Outcome::Now(json!({"stopping": true})))
}

#[derive(Deserialize)]
struct Wait {
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    10_000
}

impl Wait {
    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.min(MAX_TIMEOUT_MS))
    }
}

fn log_flush(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    let wait: Wait = params.read(method)?;
    later(move |shared| {
        let deadline = Instant::now() + wait.timeout();
        // What `stats` has counted as received is covered, though it may be in a batch for 2 ms.
        let taken = shared.intake.taken();
        while shared.intake.done() < taken && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
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

fn log_rotate(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    let rotate: Rotate = params.read(method)?;
    later(move |shared| {
        let wait = Wait { timeout_ms: rotate.timeout_ms };
        let files = shared.sinks.rotate(rotate.log.as_deref(), wait.timeout())?;
        Ok(json!({"files": files}))
    })
}

fn log_reopen(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
    let wait: Wait = params.read(method)?;
    later(move |shared| {
        shared.sinks.reopen(wait.timeout())?;
        Ok(json!({}))
    })
}

fn log_list(shared: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
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

fn log_tail(_: &Shared, method: &str, params: Params) -> std::result::Result<Outcome, Fault> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertise_replaces_the_host_only() {
        assert_eq!(advertised("tcp://0.0.0.0:10000", Some("kiosk-7")), "tcp://kiosk-7:10000");
        assert_eq!(advertised("tcp://[::]:10000", Some("kiosk-7")), "tcp://kiosk-7:10000");
        assert_eq!(advertised("ipc:///run/x", Some("kiosk-7")), "ipc:///run/x");
        assert_eq!(advertised("tcp://127.0.0.1:1", None), "tcp://127.0.0.1:1");
    }
}
