//! A running `[[log]]`, as the gateway holds it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded, unbounded};

use super::checkpoint::{Checkpoint, Place, Store};
use super::clock::Clock;
use super::files::State;
use super::runner::{Command, Runner};
use super::status::{Health, Shared, Status};
use super::writer::Writer;
use crate::config::LogConfig;
use crate::error::{Error, Kind, Result};
use crate::journal::{Journal, Position};

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
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let id = config.path.clone();
        let writer = open(&config, &context, &id, clock)?;
        let journal = context.journal.clone();
        let shared = Arc::new(Shared::default());
        let (commands, inbox) = unbounded();
        let mut runner = Runner::new(id.clone(), writer, inbox, context, shared.clone());
        runner.publish();
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
        Ok(Sink { id, journal, commands: Some(commands), shared, thread: Mutex::new(Some(thread)) })
    }

    /// Its path as in the settings, which is also the name of its position in the journal.
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
    pub fn stop(&self, deadline: Instant) -> Result<()> {
        let end = self.journal.end();
        let timeout = deadline.saturating_duration_since(Instant::now()) + Duration::from_secs(1);
        let result = self.ask(timeout, |done| Command::Stop { end, deadline, done });
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that hangs in the system is left to itself.
        if let Some(thread) = thread.filter(|_| result.as_ref().map_err(Error::kind) != Err(Kind::Timeout)) {
            let _ = thread.join();
        }
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
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
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
