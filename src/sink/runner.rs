//! The thread of a `[[log]]`: it writes what comes, does what it is told, and tries again after errors.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};

use super::checkpoint::{Checkpoint, Place, Store};
use super::clock::Clock;
use super::files::State;
use super::format::Line;
use super::status::{Health, Shared, Status};
use super::writer::{Writer, now};
use crate::config::LogConfig;
use crate::error::{Error, Kind, Result};
use crate::journal::{Journal, Position};
use crate::wire::{Level, Record, TextRule};

/// How soon writing is tried again after an error.
const RETRY: Duration = Duration::from_secs(1);

/// The longest wait for something to do.
const IDLE: Duration = Duration::from_secs(1);

/// What a sink needs beside its settings.
#[derive(Clone)]
pub struct Context {
    /// `[gateway] log_dir`; made if it is not there.
    pub log_dir: PathBuf,
    /// Where checkpoints are kept: the journal's folder.
    pub state_dir: PathBuf,
    /// What is written.
    pub journal: Arc<Journal>,
    /// The gateway's name, the host of its own lines.
    pub name: String,
    /// Counts the records that the gateway dropped because the journal was full.
    pub dropped: Arc<AtomicU64>,
}

/// A running `[[log]]`.
pub struct Sink {
    id: String,
    journal: Arc<Journal>,
    commands: Option<Sender<Command>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    Rotate(Sender<Result<Vec<PathBuf>>>),
    Reopen(Sender<Result<()>>),
    Stop { end: Position, deadline: Instant, done: Sender<Result<()>> },
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("id", &self.id).field("status", &self.shared).finish_non_exhaustive()
    }
}

impl Sink {
    /// Opens the files and starts the thread. An error says which path cannot be used, and why.
    pub fn start(config: LogConfig, context: Context) -> Result<Sink> {
        let clock = Clock::new(config.zone);
        Sink::start_with(config, context, clock)
    }

    pub(super) fn start_with(config: LogConfig, context: Context, clock: Clock) -> Result<Sink> {
        let id = id(&config);
        let writer = open(&config, &context, &id, clock)?;
        let shared = Arc::new(Shared::default());
        let (commands, inbox) = unbounded();
        let mut runner =
            Runner { writer, inbox, context, shared: shared.clone(), trouble: None, id: id.clone() };
        runner.publish();
        let journal = runner.context.journal.clone();
        let status = shared.clone();
        let name = id.clone();
        let thread = std::thread::Builder::new()
            .name(format!("sink {}", config.path))
            .spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(|| runner.run()));
                status.update(|status| {
                    status.state = match &result {
                        Ok(()) => Health::Stopped,
                        Err(panic) => Health::Failed { reason: reason(panic.as_ref()) },
                    }
                });
                if let Err(panic) = result {
                    log::error!("{name}: {}; it writes no more, please report it", reason(panic.as_ref()));
                }
            })
            .map_err(|error| Error::io(format_args!("{id}: cannot start a thread"), &error))?;
        Ok(Sink { id, journal, commands: Some(commands), shared, thread: Some(thread) })
    }

    /// The name of its position in the journal.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits until everything before `position` is written to the files; false if the time is over.
    pub fn flush(&self, position: Position, timeout: Duration) -> Result<bool> {
        let ended = |status: &Status| matches!(status.state, Health::Failed { .. } | Health::Stopped);
        let done =
            self.shared.wait(Instant::now() + timeout, |status| status.position >= position || ended(status));
        let status = self.shared.lock();
        if done && status.position < position { Err(self.ended(&status)) } else { Ok(done) }
    }

    /// Rotates all files that have something in them; their new names.
    pub fn rotate(&self, timeout: Duration) -> Result<Vec<PathBuf>> {
        self.ask(timeout, Command::Rotate)
    }

    /// Opens all files again by their names, after something else has moved them.
    pub fn reopen(&self, timeout: Duration) -> Result<()> {
        self.ask(timeout, Command::Reopen)
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let mut status = self.shared.lock().clone();
        status.lag_bytes = self.journal.end().saturating_sub(status.position);
        status
    }

    /// Writes what the journal holds now, makes it durable and ends. An error if that could not be done
    /// before `deadline`; nothing is lost then, the rest is written at the next start.
    pub fn stop(mut self, deadline: Instant) -> Result<()> {
        let end = self.journal.end();
        let timeout = deadline.saturating_duration_since(Instant::now()) + Duration::from_secs(1);
        let result = self.ask(timeout, |done| Command::Stop { end, deadline, done });
        if let Some(thread) =
            self.thread.take().filter(|_| result.as_ref().map_err(Error::kind) != Err(Kind::Timeout))
        {
            let _ = thread.join();
        }
        // A thread that hangs in the system is left to itself.
        self.thread = None;
        result
    }

    fn ask<T>(&self, timeout: Duration, command: impl FnOnce(Sender<Result<T>>) -> Command) -> Result<T> {
        let (done, answer) = bounded(1);
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command(done)).is_ok());
        if !sent {
            return Err(self.ended(&self.shared.lock()));
        }
        self.journal.wake();
        match answer.recv_timeout(timeout) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::new(Kind::Timeout, format!("{}: no answer in time", self.id)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended(&self.shared.lock())),
        }
    }

    fn ended(&self, status: &Status) -> Error {
        match &status.state {
            Health::Failed { reason } => {
                Error::new(Kind::Internal, format!("{} has failed: {reason}", self.id))
            }
            _ => Error::new(Kind::Closed, format!("{} is stopped", self.id)),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.commands = None;
        self.journal.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The name of a sink's position; one for each path, whatever else changes in its settings.
pub(super) fn id(config: &LogConfig) -> String {
    format!("log-{}", config.path)
}

/// The writer as the last checkpoint left it; a new sink begins at the journal's end.
pub(super) fn open(config: &LogConfig, context: &Context, id: &str, clock: Clock) -> Result<Writer> {
    let journal = &context.journal;
    let store = Store::open(&context.state_dir, id)
        .map_err(|error| Error::io(context.state_dir.join("sinks").display(), &error))?;
    let mut from = store.load().unwrap_or_else(|| {
        let at = |position| Checkpoint::new(Place { position, index: 0 }, false, 0, Vec::new());
        match journal.recovered_position(id) {
            Some((position, detail)) => Checkpoint::from_bytes(&detail).unwrap_or_else(|| at(position)),
            None => at(journal.end()),
        }
    });
    // After a loss of power the journal may be shorter than it was.
    if from.place.position > journal.end() {
        from.place = Place { position: journal.end(), index: 0 };
    }
    let state = State { id: id.to_owned(), store, journal: journal.clone() };
    Writer::new(config, context.log_dir.clone(), state, from, clock)
}

fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("an unknown defect").to_owned()
}

/// Writing does not work at the moment.
struct Trouble {
    reason: String,
    since: Instant,
    since_time: SystemTime,
    dropped_before: u64,
}

struct Runner {
    id: String,
    writer: Writer,
    inbox: Receiver<Command>,
    context: Context,
    shared: Arc<Shared>,
    trouble: Option<Trouble>,
}

impl Runner {
    fn run(&mut self) {
        loop {
            let wait = match self.inbox.try_recv() {
                Ok(command) => {
                    if self.obey(command) {
                        return;
                    }
                    continue;
                }
                Err(TryRecvError::Disconnected) => {
                    let _ = self.finish();
                    return;
                }
                Err(TryRecvError::Empty) => self.writer.files.checkpoint_due().unwrap_or(IDLE).min(IDLE),
            };
            if self.trouble.is_none() {
                let result = self.writer.advance(wait);
                self.note(result.map(drop));
                continue;
            }
            match self.inbox.recv_timeout(RETRY) {
                Ok(command) => {
                    if self.obey(command) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.retry(),
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Does what it is told; true if that is to end.
    fn obey(&mut self, command: Command) -> bool {
        let failed = |id: &str, error: io::Error| Error::io(id, &error);
        match command {
            Command::Rotate(done) => {
                let result = self.writer.rotate_all().map_err(|error| failed(&self.id, error));
                self.publish();
                let _ = done.send(result);
                false
            }
            Command::Reopen(done) => {
                let result = self.writer.reopen().map_err(|error| failed(&self.id, error));
                self.publish();
                let _ = done.send(result);
                false
            }
            Command::Stop { end, deadline, done } => {
                let result = self.drain(end, deadline);
                let finished = self.finish().map_err(|error| failed(&self.id, error));
                self.publish();
                let _ = done.send(result.and(finished));
                true
            }
        }
    }

    /// Writes up to `end`.
    fn drain(&mut self, end: Position, deadline: Instant) -> Result<()> {
        loop {
            if self.trouble.is_some() {
                self.retry();
            }
            if let Some(trouble) = &self.trouble {
                let message =
                    format!("{}: {}; the rest is written at the next start", self.id, trouble.reason);
                return Err(Error::new(Kind::Io, message));
            }
            if self.writer.files.committed.position >= end {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message =
                    format!("{}: not all could be written in time; the rest is at the next start", self.id);
                return Err(Error::new(Kind::Timeout, message));
            }
            match self.writer.advance(left.min(Duration::from_millis(100))) {
                // Nothing is left, though the end may be beyond the last frame.
                Ok(false) => return Ok(()),
                result => self.note(result.map(drop)),
            }
        }
    }

    /// The last checkpoint.
    fn finish(&mut self) -> io::Result<()> {
        let committed = self.writer.files.commit();
        // What is only half written would be taken for somebody else's.
        self.writer.files.checkpoint(committed.is_ok())?;
        self.writer.files.keeper = None;
        committed
    }

    fn retry(&mut self) {
        let Some(trouble) = &self.trouble else { return };
        let lost = self.context.dropped.load(Ordering::Relaxed) - trouble.dropped_before;
        let seconds = trouble.since.elapsed().as_secs_f64().round();
        let text = format!("resumed after {seconds} s, {lost} records lost; {}", trouble.reason);
        self.writer.files.resumed = Some(self.own_line(&text));
        let result = self.writer.advance(Duration::ZERO);
        self.note(result.map(drop));
    }

    fn own_line(&mut self, text: &str) -> Vec<u8> {
        let now = now();
        let record = Record {
            time: now,
            level: Level::Warn,
            source: "hwgate",
            host: &self.context.name,
            pid: Some(std::process::id()),
            rule: TextRule::Utf8,
            text: text.as_bytes(),
            fields: "",
        };
        let line = Line { record, received: now, client: "", producer: &[0; 16], seq: 0 };
        let mut out = Vec::new();
        self.writer.formatter.write(&line, &mut out);
        out
    }

    /// Takes notice of how writing went.
    fn note(&mut self, result: io::Result<()>) {
        let dropped = self.context.dropped.load(Ordering::Relaxed);
        match (result, &mut self.trouble) {
            (Ok(()), None) => {}
            (Ok(()), Some(trouble)) => {
                let lost = dropped - trouble.dropped_before;
                self.shared.update(|status| status.lost_records += lost);
                log::warn!("{}: writing again, {lost} records lost", self.id);
                self.trouble = None;
                // So that the line about it is not taken for a torn end. If it fails, it is tried again.
                let _ = self.writer.files.checkpoint(false);
            }
            (Err(error), trouble) => {
                let reason = error.to_string();
                self.writer.reports.warn(format_args!("{}: cannot write: {reason}; trying again", self.id));
                let begun = trouble.as_ref().filter(|_| self.writer.files.resumed.is_some());
                let lost = match (trouble.as_ref(), begun) {
                    // The line was written, and then there was no more space: the next one tells the rest.
                    (Some(trouble), None) => dropped - trouble.dropped_before,
                    _ => 0,
                };
                self.shared.update(|status| status.lost_records += lost);
                match begun {
                    Some(_) => {
                        if let Some(trouble) = trouble {
                            trouble.reason = reason;
                        }
                    }
                    None => {
                        *trouble = Some(Trouble {
                            reason,
                            since: Instant::now(),
                            since_time: SystemTime::now(),
                            dropped_before: dropped,
                        });
                    }
                }
            }
        }
        self.publish();
    }

    fn publish(&mut self) {
        let (writer, trouble) = (&self.writer, &self.trouble);
        self.shared.update(|status| {
            status.position = writer.files.committed.position;
            status.files = writer.files.entries.len();
            status.written_records = writer.counts.written;
            status.filtered_records = writer.counts.filtered;
            status.written_bytes = writer.files.bytes;
            status.damaged_frames = writer.counts.damaged;
            status.rotations = writer.counts.rotations;
            status.skipped = writer.reader.skipped();
            status.reports = writer.reports.given;
            status.state = match trouble {
                None => Health::Ok,
                Some(trouble) => {
                    Health::Degraded { reason: trouble.reason.clone(), since: trouble.since_time }
                }
            };
        });
    }
}
