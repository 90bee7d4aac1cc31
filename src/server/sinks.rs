//! The set of `[[log]]` sinks, and changing it while the gateway runs.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::{Config, LogConfig};
use crate::journal::{Journal, Position};
use crate::sink::{Context, Health, Sink};
use crate::util::guard;
use crate::{Error, Kind, Result};

/// How long a reload waits for a sink that it stops.
const STOP: Duration = Duration::from_secs(3);

/// The sinks that run.
pub(super) struct Sinks {
    running: Mutex<Vec<Running>>,
    /// Held through a reload, so that two do not mix.
    changing: Mutex<Change>,
    /// Counts the records that the gateway dropped because the journal took nothing.
    dropped: Arc<AtomicU64>,
}

/// Whether the set may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Allowed,
    /// The gateway is stopping.
    Never,
}

#[derive(Clone)]
struct Running {
    config: LogConfig,
    sink: Arc<Sink>,
}

impl Sinks {
    /// Starts one sink for each `[[log]]` and forgets what is left of sinks that are no longer there.
    pub fn start(config: &Config, journal: &Arc<Journal>, dropped: Arc<AtomicU64>) -> Result<Sinks> {
        let mut running = Vec::new();
        for log in &config.logs {
            running.push(start(log, config, journal, &dropped)?);
        }
        for consumer in journal.consumers() {
            if !running.iter().any(|one: &Running| one.sink.id() == consumer) {
                log::info!("log {consumer} is no longer in the settings; its position is forgotten");
                forget(&consumer, config, journal)?;
            }
        }
        Ok(Sinks { running: Mutex::new(running), changing: Mutex::new(Change::Allowed), dropped })
    }

    /// Goes from one set of `[[log]]` to another; on an error all is as before. A sink whose settings
    /// changed goes on where it was. A new one starts before those that leave stop, so that no record is
    /// in neither.
    pub fn replace(&self, config: &Config, journal: &Arc<Journal>) -> Result<()> {
        crate::sink::check(&config.logs)?;
        let changing = guard(&self.changing);
        if *changing == Change::Never {
            return Err(Error::new(Kind::ShuttingDown, "the gateway is stopping"));
        }
        let old = guard(&self.running).clone();
        let (staying, leaving): (Vec<Running>, Vec<Running>) =
            old.iter().cloned().partition(|one| config.logs.contains(&one.config));
        let known = |log: &LogConfig| old.iter().any(|one| one.config.path == log.path);
        let mut started = Vec::new();
        let mut result = Ok(());
        let mut start_those = |new: bool| {
            for log in config.logs.iter().filter(|log| known(log) != new) {
                if result.is_ok() && !staying.iter().any(|one| one.config == *log) {
                    match start(log, config, journal, &self.dropped) {
                        Ok(one) => started.push(one),
                        Err(error) => result = Err(error),
                    }
                }
            }
        };
        start_those(true);
        stop_all(&leaving);
        start_those(false);
        let stayed = |log: &LogConfig| staying.iter().chain(&started).find(|one| one.config == *log).cloned();
        if result.is_ok() {
            *guard(&self.running) = config.logs.iter().filter_map(stayed).collect();
            for one in leaving.iter().filter(|one| !config.logs.iter().any(|log| log.path == one.config.path))
            {
                forget(one.sink.id(), config, journal)?;
            }
            return Ok(());
        }
        stop_all(&started);
        for one in started.iter().filter(|one| !known(&one.config)) {
            forget(one.sink.id(), config, journal)?;
        }
        let mut running = staying.clone();
        for one in &leaving {
            match start(&one.config, config, journal, &self.dropped) {
                Ok(again) => running.push(again),
                Err(error) => {
                    log::error!("log {}: cannot be started again: {error}", one.config.path);
                    // Its state tells that it is stopped.
                    running.push(one.clone());
                }
            }
        }
        *guard(&self.running) = running;
        result
    }

    /// State and counts of each sink.
    pub fn status(&self, journal: &Journal) -> Value {
        let running = guard(&self.running).clone();
        running
            .iter()
            .map(|one| {
                let status = one.sink.status();
                let (state, reason) = match &status.state {
                    Health::Ok => ("ok", None),
                    Health::Degraded { reason, .. } => ("degraded", Some(reason)),
                    Health::Failed { reason } => ("failed", Some(reason)),
                    Health::Stopped => ("stopped", None),
                };
                json!({
                    "id": one.sink.id(),
                    "state": state,
                    "reason": reason,
                    "position": status.position,
                    "backlog_bytes": journal.backlog(status.position),
                    "files": status.files,
                    "written_records": status.written_records,
                    "filtered_records": status.filtered_records,
                    "written_bytes": status.written_bytes,
                    "lost_records": status.lost_records,
                    "rotations": status.rotations,
                    "skipped_bytes": status.skipped,
                    "damaged_frames": status.damaged_frames,
                })
            })
            .collect()
    }

    /// Why a sink cannot write now, if one cannot.
    pub fn degraded(&self) -> Option<String> {
        let running = guard(&self.running).clone();
        running.iter().find_map(|one| match one.sink.status().state {
            Health::Ok => None,
            Health::Stopped => Some(format!("log {}: stopped; reload the settings", one.sink.id())),
            Health::Degraded { reason, .. } | Health::Failed { reason } => {
                Some(format!("log {}: {reason}", one.sink.id()))
            }
        })
    }

    /// Waits until everything before `position` is in the files.
    pub fn flush(&self, position: Position, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        for one in self.all() {
            if !one.flush(position, deadline.saturating_duration_since(Instant::now()))? {
                return Err(Error::new(
                    Kind::Timeout,
                    format!("log.flush: log {} has not written everything yet", one.id()),
                ));
            }
        }
        Ok(())
    }

    /// Rotates one sink, or all; gives the files that were closed.
    pub fn rotate(&self, log: Option<&str>, timeout: Duration) -> Result<Vec<PathBuf>> {
        let deadline = Instant::now() + timeout;
        let sinks = self.all();
        let chosen: Vec<_> = sinks.iter().filter(|sink| log.is_none_or(|log| sink.id() == log)).collect();
        if chosen.is_empty() {
            let known: Vec<&str> = sinks.iter().map(|sink| sink.id()).collect();
            let log = log.unwrap_or_default();
            return Err(Error::new(
                Kind::NotFound,
                format!("log.rotate: no log {log:?}; there is {known:?}"),
            ));
        }
        let mut files = Vec::new();
        for sink in chosen {
            files.extend(sink.rotate(deadline.saturating_duration_since(Instant::now()))?);
        }
        Ok(files)
    }

    /// Closes all files and opens them again by their paths.
    pub fn reopen(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        self.all().iter().try_for_each(|sink| sink.reopen(deadline.saturating_duration_since(Instant::now())))
    }

    /// Writes what the journal holds, syncs and ends every sink. No reload comes after it.
    pub fn stop(&self, deadline: Instant) -> Result<()> {
        *guard(&self.changing) = Change::Never;
        self.all().iter().map(|sink| sink.stop(deadline)).fold(Ok(()), Result::and)
    }

    fn all(&self) -> Vec<Arc<Sink>> {
        guard(&self.running).iter().map(|one| one.sink.clone()).collect()
    }
}

fn start(
    log: &LogConfig,
    config: &Config,
    journal: &Arc<Journal>,
    dropped: &Arc<AtomicU64>,
) -> Result<Running> {
    let context = Context {
        log_dir: config.gateway.log_dir.clone(),
        state_dir: config.journal.dir.clone(),
        journal: journal.clone(),
        name: config.gateway.name.clone(),
        dropped: dropped.clone(),
    };
    Ok(Running { config: log.clone(), sink: Arc::new(Sink::start(log.clone(), context)?) })
}

/// What a sink that cannot write leaves undone stays in the journal, behind its checkpoint.
fn stop_all(sinks: &[Running]) {
    let deadline = Instant::now() + STOP;
    for one in sinks {
        if let Err(error) = one.sink.stop(deadline) {
            log::warn!("log {}: {error}; the rest is written when it starts again", one.sink.id());
        }
    }
}

fn forget(id: &str, config: &Config, journal: &Journal) -> Result<()> {
    journal.remove_position(id);
    crate::sink::forget(&config.journal.dir, id)
}
