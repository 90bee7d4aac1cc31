//! From the journal to the files: filters, chooses the file of each record, renders, rotates.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::{Checkpoint, Place};
use super::clock::Clock;
use super::files::{Files, State};
use super::format::{Formatter, Line};
use super::keeper::Keeper;
use super::path::{DATE, Template, Values};
use super::report::Reports;
use super::rotate::{is_due, nanos, period};
use super::{file, pattern};
use crate::config::{LogConfig, Rotate};
use crate::error::{Error, Result};
use crate::journal::{Frame, Reader};
use crate::wire::record::records;
use crate::wire::{Level, Record};

/// Frames taken before commands have their turn: those that are filtered fill no buffer.
const BATCH_FRAMES: usize = 1024;

/// How soon a rotation that failed is tried again.
const ROTATE_AGAIN: Duration = Duration::from_secs(1);

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) written: u64,
    pub(super) filtered: u64,
    pub(super) damaged: u64,
    pub(super) rotations: u64,
}

/// Writes the files of one `[[log]]`, on the caller's thread.
pub(super) struct Writer {
    pub(super) files: Files,
    pub(super) formatter: Formatter,
    pub(super) counts: Counts,
    pub(super) reader: Reader,
    pub(super) reports: Reports,
    pub(super) clock: Clock,
    pub(super) template: Template,
    level: Level,
    source: Vec<String>,
    rotates: bool,
    rules: Rotate,
    frame: Option<Arc<Frame>>,
    /// Where the files of senders are, by the values in their paths.
    pub(super) by_key: HashMap<Vec<u8>, usize>,
    pub(super) key: Vec<u8>,
    /// The day of the last record, where paths have a date.
    pub(super) day: Option<i64>,
    /// The journal's end at the start, until it is reached.
    pub(super) replay_until: Option<u64>,
}

impl Writer {
    pub(super) fn new(
        config: &LogConfig,
        log_dir: PathBuf,
        state: State,
        from: Checkpoint,
        clock: Clock,
    ) -> Result<Writer> {
        let template = Template::parse(&config.path)?;
        let formatter = Formatter::with_clock(config, clock.clone())?;
        let root = prepare(&log_dir)?;
        let journal = state.journal.clone();
        let replay_until = Some(journal.end());
        let reader = journal.reader(from.place.position);
        let new = |error| Error::io(format_args!("log {}", config.path), &error);
        let mut files = Files::new(root, state, from, config.bom, formatter.eol()).map_err(new)?;
        if let Some(rules) = &config.rotate {
            files.keeper = Some(Keeper::start(files.root.clone(), rules.clone()).map_err(new)?);
        }
        let mut writer = Writer {
            files,
            formatter,
            counts: Counts::default(),
            reader,
            reports: Reports::default(),
            clock,
            template,
            level: config.level,
            source: config.source.clone(),
            rotates: config.rotate.is_some(),
            rules: config.rotate.clone().unwrap_or_default(),
            frame: None,
            by_key: HashMap::new(),
            key: Vec::new(),
            day: None,
            replay_until,
        };
        writer.probe().map_err(new)?;
        writer.finish_replay(false).map_err(new)?;
        match writer.files.checkpoint(false) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => writer.files.hold(),
            result => result.map_err(new)?,
        }
        for entry in &writer.files.entries {
            if let Some(keeper) = &writer.files.keeper {
                keeper.tend(&entry.family, &entry.date());
            }
        }
        Ok(writer)
    }

    /// Finds out at the start whether files can be written at all. A full disk is no reason not to start.
    fn probe(&mut self) -> io::Result<()> {
        let result = if self.template.is_constant() {
            let family = self.template.family(&Values { source: "", host: "", level: "" });
            let index = self.files.entry(family, 0);
            self.files.ensure(index)
        } else {
            let path = self.files.root.join(format!(".hwgate-{}.tmp", std::process::id()));
            let made = file::options().write(true).create(true).truncate(true).open(&path).map(drop);
            let removed = made.as_ref().map_or(Ok(()), |()| fs::remove_file(&path));
            made.and(removed)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            result => result,
        }
    }

    /// Takes what the journal has, at most one batch, and writes it. Waits up to `timeout` if it has
    /// nothing. Returns whether there may be more.
    pub(super) fn advance(&mut self, timeout: Duration) -> io::Result<bool> {
        // After an error: first what is gathered already.
        if !self.files.pending.is_empty() {
            self.files.commit()?;
        }
        let mut timeout = timeout;
        let mut more = true;
        let (mut frames, written) = (0, self.files.bytes);
        // A rotation writes what is gathered, so that behind small files nothing is ever full.
        while !self.files.is_full() && self.files.bytes == written && frames < BATCH_FRAMES {
            frames += 1;
            if self.frame.is_none() {
                match self.reader.next(timeout).map_err(|error| io::Error::other(error.to_string()))? {
                    Some(frame) => self.take(frame),
                    None => {
                        more = false;
                        break;
                    }
                }
                timeout = Duration::ZERO;
            }
            self.finish_replay(false)?;
            self.render()?;
        }
        if !more {
            let cursor = &mut self.files.cursor;
            cursor.position = cursor.position.max(self.reader.position());
        }
        self.files.commit()?;
        self.finish_replay(!more)?;
        if self.files.checkpoint_due().is_some_and(|wait| wait.is_zero()) {
            self.files.checkpoint(false)?;
        }
        Ok(more)
    }

    fn take(&mut self, frame: Arc<Frame>) {
        if frame.position != self.files.cursor.position {
            // There is a gap before it, or the place was the end of the frame before.
            self.files.cursor = Place { position: frame.position, index: 0 };
        }
        self.frame = Some(frame);
    }

    /// Renders the frame from the cursor on. After an error the cursor is at the record that failed.
    fn render(&mut self) -> io::Result<()> {
        let Some(frame) = self.frame.clone() else { return Ok(()) };
        let first = self.files.cursor.index;
        for (index, record) in (0u32..).zip(records(frame.body())) {
            if index < first {
                continue;
            }
            self.files.cursor.index = index;
            let Ok(record) = record else {
                self.counts.damaged += 1;
                break;
            };
            if record.level < self.level || !self.wants(record.source) {
                self.counts.filtered += 1;
                continue;
            }
            if self.files.is_full() {
                self.files.commit()?;
            }
            self.write(&record, &frame, index)?;
            self.counts.written += 1;
        }
        self.files.cursor = Place { position: frame.end, index: 0 };
        self.frame = None;
        Ok(())
    }

    fn wants(&self, source: &str) -> bool {
        self.source.is_empty() || self.source.iter().any(|wanted| pattern::matches(wanted, source))
    }

    /// Renders one record into the buffer of its file, which is rotated before if it has to be.
    fn write(&mut self, record: &Record<'_>, frame: &Frame, number: u32) -> io::Result<()> {
        let header = &frame.header;
        let index = self.locate(record, header.received)?;
        if self.files.entries[index].file.is_none() {
            self.files.ensure(index)?;
        }
        let line = Line {
            record: *record,
            received: header.received,
            client: &header.client,
            producer: &header.producer,
            seq: header.first_seq + u64::from(number),
        };
        let entry = &mut self.files.entries[index];
        let before = entry.buffer.len();
        self.formatter.write(&line, &mut entry.buffer);
        let added = entry.buffer.len() - before;
        if self.rotates {
            let period = period(&self.rules, &mut self.clock, header.received);
            if let Some(found) = entry.found.take() {
                entry.period =
                    entry.period.or(super::rotate::period(&self.rules, &mut self.clock, nanos(found)));
            }
            if is_due(entry, &self.rules, entry.written + before as u64, added as u64, period)
                && entry.rotate_after.is_none_or(|after| Instant::now() >= after)
            {
                let rendered = entry.buffer.split_off(before);
                self.files.commit()?;
                self.rotate(index)?;
                let entry = &mut self.files.entries[index];
                entry.buffer.extend_from_slice(&rendered);
            }
            let entry = &mut self.files.entries[index];
            // The file is of this period if it is new.
            if entry.period.is_none() || entry.written + (entry.buffer.len() - added) as u64 == 0 {
                entry.period = period;
            }
        }
        self.files.entries[index].used = header.received;
        self.files.touch(index, added);
        Ok(())
    }

    /// Rotates where it can be done; else the old file is written on, and it is tried again.
    fn rotate(&mut self, index: usize) -> io::Result<()> {
        match self.files.rotate(index) {
            Ok(rotated) => {
                self.counts.rotations += u64::from(rotated.is_some());
                self.files.entries[index].rotate_after = None;
                // What cannot be opened now is a trouble of writing, not of rotating.
                self.files.ensure(index)
            }
            Err(error) => {
                self.files.entries[index].rotate_after = Some(Instant::now() + ROTATE_AGAIN);
                self.reports.warn(format_args!("cannot rotate, the old file is written on: {error}"));
                Ok(())
            }
        }
    }

    /// Rotates all files that have something in them, but those of earlier dates.
    pub(super) fn rotate_all(&mut self) -> io::Result<Vec<PathBuf>> {
        self.files.commit()?;
        let mut rotated = Vec::new();
        for index in 0..self.files.entries.len() {
            let entry = &self.files.entries[index];
            let current = !entry.family.contains(DATE) || self.day.is_none_or(|day| day == entry.day);
            // One that is not here any more needs no rotation, nor is it made for one.
            if current
                && entry.path.try_exists()?
                && let Some(closed) = self.files.rotate(index)?
            {
                rotated.push(closed);
                // Whoever follows the file by its name finds the new one at once.
                self.files.ensure(index)?;
            }
        }
        self.counts.rotations += rotated.len() as u64;
        Ok(rotated)
    }

    /// Closes all files, so that what somebody else moved is made anew.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.files.commit()?;
        self.files.checkpoint(false)?;
        for index in 0..self.files.entries.len() {
            self.files.close(index)?;
        }
        if self.template.is_constant() { self.probe() } else { Ok(()) }
    }

    /// Once the journal's end at the start is reached, what is left in the files stays there.
    fn finish_replay(&mut self, nothing_more: bool) -> io::Result<()> {
        let Some(until) = self.replay_until else { return Ok(()) };
        if self.files.cursor.position < until && !nothing_more {
            return Ok(());
        }
        self.files.commit()?;
        for index in 0..self.files.entries.len() {
            self.files.settle_tail(index)?;
        }
        self.replay_until = None;
        Ok(())
    }
}

/// Makes `log_dir` if it is not there; its canonical path.
fn prepare(log_dir: &std::path::Path) -> Result<PathBuf> {
    let wrong = |error: &io::Error| Error::io(format_args!("log_dir {}", log_dir.display()), error);
    file::make_folder(log_dir).map_err(|error| wrong(&error))?;
    fs::canonicalize(log_dir).map_err(|error| wrong(&error))
}
