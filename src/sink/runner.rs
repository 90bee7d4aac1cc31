//! The thread of a `[[log]]`: it writes what comes, does what it is told, and tries again after errors.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use super::format::Line;
use super::handle::Context;
use super::status::{Health, Shared};
use super::writer::Writer;
use crate::error::{Error, Kind, Result};
use crate::journal::Position;
use crate::util::now;
use crate::wire::{Level, Record, TextRule};

/// How soon writing is tried again after an error.
const RETRY: Duration = Duration::from_secs(1);

/// The longest wait for something to do.
const IDLE: Duration = Duration::from_secs(1);

/// What a sink is told.
pub(super) enum Command {
    Rotate(Sender<Result<Vec<PathBuf>>>),
    Reopen(Sender<Result<()>>),
    Stop { end: Position, deadline: Instant, done: Sender<Result<()>> },
}

/// Writing does not work at the moment.
struct Trouble {
    reason: String,
    since: Instant,
    since_time: SystemTime,
    dropped_before: u64,
}

pub(super) struct Runner {
    id: String,
    writer: Writer,
    inbox: Receiver<Command>,
    context: Context,
    shared: Arc<Shared>,
    trouble: Option<Trouble>,
}

impl Runner {
    pub(super) fn new(
        id: String,
        writer: Writer,
        inbox: Receiver<Command>,
        context: Context,
        shared: Arc<Shared>,
    ) -> Runner {
        Runner { id, writer, inbox, context, shared, trouble: None }
    }

    /// Until it is told to stop, or nobody can tell it anything any more.
    pub(super) fn run(&mut self) {
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
        let whole = committed.is_ok() && self.writer.files.entries.iter().all(|entry| entry.tail.is_none());
        self.writer.files.checkpoint(whole)?;
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

    pub(super) fn publish(&mut self) {
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
