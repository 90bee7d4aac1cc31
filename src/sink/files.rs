//! The open log files of a sink: what is rendered for each, and how it gets there exactly once.
//!
//! Records are gathered in one buffer a file, up to a *place* in the journal ([`Files::cursor`]).
//! [`Files::commit`] writes all buffers; then everything before [`Files::committed`] is in the files. A
//! checkpoint says how long each file was at the committed place, so what is found beyond that after a
//! crash comes from the records that follow in the journal, and is compared with them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::checkpoint::{Checkpoint, Known, Place, Store};
use super::crash;
use super::family;
use super::file::{self, Identity};
use super::keeper::Keeper;
use super::path::DATE;
use crate::journal::Journal;

/// How many files are kept open; the others are opened again when something comes for them.
const OPEN_FILES: usize = 200;

/// How many files one batch may touch; fewer than may be open.
const BATCH_FILES: usize = 100;

/// How many bytes are gathered before they are written.
const BATCH_BYTES: usize = 256 << 10;

/// How long a checkpoint may be behind.
pub(super) const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One log file that is written to.
#[derive(Debug)]
pub(super) struct Entry {
    /// Relative to the root, with [`DATE`].
    pub(super) family: String,
    pub(super) day: i64,
    pub(super) path: PathBuf,
    /// When the last record for it was received.
    pub(super) used: i64,
    /// The hour or day of its records; none until there are some.
    pub(super) period: Option<i64>,
    /// When a file that was there already was last written to, until `period` is known.
    pub(super) found: Option<SystemTime>,
    /// What is to be written.
    pub(super) buffer: Vec<u8>,
    /// How long the file is, as far as it is ours. Beyond it may be a tail.
    pub(super) written: u64,
    /// After a crash: where the file ends that holds, from `written` on, what comes again.
    pub(super) tail: Option<u64>,
    /// When a failed rotation may be tried again.
    pub(super) rotate_after: Option<Instant>,
    pub(super) identity: Option<Identity>,
    pub(super) file: Option<File>,
    /// How long the file was at the committed place.
    offset: u64,
    /// How much of the buffer is no record: mark, line end, the line about a trouble that is over.
    lead: usize,
    /// A write failed in the middle and the part could not be cut off.
    torn: bool,
    dirty: bool,
    /// Somebody else wrote the end, maybe without a line end.
    foreign_end: bool,
    touched: u64,
}

impl Entry {
    fn new(root: &Path, family: String, day: i64) -> Entry {
        let path = root.join(family.replace(DATE, &family::date(day)));
        Entry {
            family,
            day,
            path,
            used: 0,
            period: None,
            found: None,
            buffer: Vec::new(),
            written: 0,
            tail: None,
            rotate_after: None,
            identity: None,
            file: None,
            offset: 0,
            lead: 0,
            torn: false,
            dirty: false,
            foreign_end: false,
            touched: 0,
        }
    }

    pub(super) fn date(&self) -> String {
        if self.family.contains(DATE) { family::date(self.day) } else { String::new() }
    }

    /// Forgets the file, which has another name now.
    pub(super) fn let_go(&mut self) {
        self.file = None;
        self.identity = None;
        (self.offset, self.written) = (0, 0);
        (self.tail, self.period) = (None, None);
        (self.torn, self.dirty, self.foreign_end) = (false, false, false);
    }

    fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

/// All files of a sink.
pub(super) struct Files {
    pub(super) root: PathBuf,
    pub(super) entries: Vec<Entry>,
    pub(super) by_path: HashMap<(String, i64), usize>,
    /// Everything before it is in the files.
    pub(super) committed: Place,
    /// The record that is rendered next.
    pub(super) cursor: Place,
    /// Bytes that are in buffers.
    pub(super) buffered: usize,
    /// Files with something in their buffers.
    pub(super) pending: Vec<usize>,
    /// The newest stamp of a rotated file.
    pub(super) stamp: i64,
    pub(super) keeper: Option<Keeper>,
    /// A line to go before the next record that can be written.
    pub(super) resumed: Option<Vec<u8>>,
    /// Bytes written since the start.
    pub(super) bytes: u64,
    bom: bool,
    eol: &'static [u8],
    id: String,
    store: Store,
    journal: Arc<Journal>,
    /// What the last checkpoint says is not enough to begin writing.
    unsaved: bool,
    saved: Place,
    saved_at: Instant,
    touches: u64,
}

/// Where the state of a sink is kept.
pub(super) struct State {
    pub(super) id: String,
    pub(super) store: Store,
    pub(super) journal: Arc<Journal>,
}

impl Files {
    /// The files as the checkpoint left them.
    pub(super) fn new(
        root: PathBuf,
        state: State,
        from: Checkpoint,
        bom: bool,
        eol: &'static [u8],
    ) -> io::Result<Files> {
        let mut files = Files {
            root,
            entries: Vec::new(),
            by_path: HashMap::new(),
            committed: from.place,
            cursor: from.place,
            buffered: 0,
            pending: Vec::new(),
            stamp: from.stamp,
            keeper: None,
            resumed: None,
            bytes: 0,
            bom,
            eol,
            id: state.id,
            store: state.store,
            journal: state.journal,
            unsaved: true,
            saved: from.place,
            saved_at: Instant::now(),
            touches: 0,
        };
        for known in from.files {
            files.restore(known, from.stopped)?;
        }
        Ok(files)
    }

    fn restore(&mut self, known: Known, stopped: bool) -> io::Result<()> {
        let index = self.entry(known.family, known.day);
        let entry = &mut self.entries[index];
        entry.used = known.used;
        let Some(identity) = known.identity else { return Ok(()) };
        let (found, meta) = match Identity::at(&entry.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(entry.failed(&error)),
        };
        // Another file, or one that was cut, is only appended to.
        if !found.same(&identity) || meta.len() < known.offset {
            return Ok(());
        }
        entry.identity = Some(identity);
        entry.period = known.period;
        entry.written = known.offset;
        if stopped && meta.len() > known.offset {
            entry.written = meta.len();
            entry.foreign_end = true;
        } else if meta.len() > known.offset {
            entry.tail = Some(meta.len());
        }
        entry.offset = entry.written;
        Ok(())
    }

    /// The index of the file, made known if it was not.
    pub(super) fn entry(&mut self, family: String, day: i64) -> usize {
        let next = self.entries.len();
        let index = *self.by_path.entry((family.clone(), day)).or_insert(next);
        if index == next {
            self.entries.push(Entry::new(&self.root, family, day));
        }
        index
    }

    /// Notes that something was added to the buffer of a file.
    pub(super) fn touch(&mut self, index: usize, added: usize) {
        self.touches += 1;
        let entry = &mut self.entries[index];
        entry.touched = self.touches;
        if entry.buffer.len() == added {
            self.pending.push(index);
        }
        self.buffered += added;
    }

    /// Whether enough is gathered to be written.
    pub(super) fn is_full(&self) -> bool {
        self.buffered >= BATCH_BYTES || self.pending.len() >= BATCH_FILES
    }

    /// Writes what is gathered. After an error everything not yet written is still gathered, and the
    /// next call goes on from there.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        for at in 0..self.pending.len() {
            self.ensure(self.pending[at])?;
        }
        if self.unsaved && !self.pending.is_empty() {
            self.checkpoint(false)?;
        }
        for at in 0..self.pending.len() {
            let index = self.pending[at];
            if !self.entries[index].buffer.is_empty() {
                self.put(index).map_err(|error| self.entries[index].failed(&error))?;
            }
        }
        for index in self.pending.drain(..) {
            let entry = &mut self.entries[index];
            entry.offset = entry.written;
        }
        self.buffered = 0;
        self.committed = self.cursor;
        Ok(())
    }

    /// Makes sure that the open file is the one at its path.
    pub(super) fn ensure(&mut self, index: usize) -> io::Result<()> {
        self.check(index).map_err(|error| self.entries[index].failed(&error))
    }

    fn check(&mut self, index: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        if entry.file.is_some() {
            match Identity::at(&entry.path) {
                Ok((found, meta)) if entry.identity.is_some_and(|known| known.same(&found)) => {
                    return self.settle_length(index, meta.len());
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.close(index)?,
            }
        }
        self.make_room()?;
        let entry = &mut self.entries[index];
        let relative = entry.family.replace(DATE, &family::date(entry.day));
        let dir = file::folder(&self.root, Path::new(&relative))?;
        entry.path = dir.join(entry.path.file_name().unwrap_or_default());
        crash::point();
        let (file, identity, meta) = file::open(&entry.path)?;
        if entry.identity.is_some_and(|known| known.same(&identity)) {
            entry.file = Some(file);
            return self.settle_length(index, meta.len());
        }
        let period = entry.period.filter(|_| meta.len() == 0);
        entry.let_go();
        entry.period = period;
        entry.found = (meta.len() > 0).then(|| meta.modified().ok()).flatten();
        entry.file = Some(file);
        entry.identity = Some(identity);
        (entry.offset, entry.written) = (meta.len(), meta.len());
        entry.foreign_end = meta.len() > 0;
        self.unsaved = true;
        if meta.len() == 0 {
            file::sync_folder(&dir)?;
        }
        Ok(())
    }

    /// Takes notice of what others did to the length of the file.
    fn settle_length(&mut self, index: usize, len: u64) -> io::Result<()> {
        let entry = &mut self.entries[index];
        if len == entry.written || entry.tail.is_some_and(|tail| tail == len) {
            return Ok(());
        }
        if entry.torn
            && let Some(file) = &entry.file
        {
            file::cut(file, &entry.path, entry.written)?;
            entry.torn = false;
            return Ok(());
        }
        if entry.offset == entry.written || len < entry.offset {
            entry.offset = len;
            self.unsaved = true;
        }
        entry.written = len;
        entry.tail = None;
        entry.foreign_end = true;
        Ok(())
    }

    /// Closes a file; it is opened again when something comes for it.
    pub(super) fn close(&mut self, index: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        if let Some(file) = entry.file.take()
            && entry.dirty
        {
            // A checkpoint can no longer do it.
            file.sync_data()?;
            entry.dirty = false;
        }
        Ok(())
    }

    fn make_room(&mut self) -> io::Result<()> {
        let mut open: Vec<usize> =
            (0..self.entries.len()).filter(|&index| self.entries[index].file.is_some()).collect();
        if open.len() < OPEN_FILES {
            return Ok(());
        }
        open.retain(|&index| self.entries[index].buffer.is_empty());
        open.sort_by_key(|&index| self.entries[index].touched);
        open.truncate(BATCH_FILES / 2);
        open.into_iter().try_for_each(|index| self.close(index))
    }

    /// Writes one buffer; if the file was deleted at that moment, once more to a new one.
    fn put(&mut self, index: usize) -> io::Result<()> {
        loop {
            self.match_tail(index)?;
            self.lead(index)?;
            self.write(index)?;
            let entry = &mut self.entries[index];
            let deleted = match &entry.file {
                Some(file) => file::is_deleted(file, &entry.path)?,
                None => false,
            };
            if !deleted {
                entry.buffer.clear();
                entry.lead = 0;
                return Ok(());
            }
            entry.let_go();
            self.check(index)?;
            self.checkpoint(false)?;
        }
    }

    /// After a crash: leaves the lines that are there already, and cuts the file where it differs.
    fn match_tail(&mut self, index: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let (Some(tail), Some(file)) = (entry.tail, &entry.file) else { return Ok(()) };
        if entry.written == 0 && self.bom && entry.lead == 0 {
            entry.buffer.splice(..0, BOM.iter().copied());
            entry.lead = BOM.len();
        }
        let there = file::read(file, entry.written, (tail - entry.written).min(entry.buffer.len() as u64))?;
        let equal = there.iter().zip(&entry.buffer).take_while(|(left, right)| left == right).count();
        let lines = entry.buffer[..equal].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        entry.written += lines as u64;
        if lines < entry.buffer.len() || entry.written == tail {
            crash::point();
            file::cut(file, &entry.path, entry.written)?;
            entry.tail = None;
            entry.dirty = true;
        }
        entry.lead = if lines == 0 { entry.lead } else { 0 };
        entry.buffer.drain(..lines);
        Ok(())
    }

    /// Puts in front of the records what has to be there.
    fn lead(&mut self, index: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        if entry.buffer.len() == entry.lead {
            return Ok(());
        }
        let mut lead = Vec::new();
        if entry.written == 0 && self.bom {
            lead.extend_from_slice(BOM);
        }
        if entry.foreign_end
            && entry.written > 0
            && let Some(file) = &entry.file
            && file::read(file, entry.written - 1, 1)? != b"\n"
        {
            lead.extend_from_slice(self.eol);
        }
        if let Some(line) = &self.resumed {
            lead.extend_from_slice(line);
        }
        let old = std::mem::replace(&mut entry.lead, lead.len());
        entry.buffer.splice(..old, lead);
        Ok(())
    }

    /// Writes the buffer. What an error leaves behind are whole lines; they are taken off the buffer.
    fn write(&mut self, index: usize) -> io::Result<()> {
        let entry = &mut self.entries[index];
        let Some(file) = &entry.file else { return Err(io::Error::other("is not open")) };
        let (done, result) = write_all(file, crash::torn(&entry.buffer));
        entry.dirty |= done > 0;
        crash::point();
        let mut kept = done;
        if result.is_err() {
            kept = entry.buffer[..done].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            if kept <= entry.lead {
                kept = 0;
            }
            entry.torn = kept < done && file::cut(file, &entry.path, entry.written + kept as u64).is_err();
        }
        entry.written += kept as u64;
        self.bytes += kept as u64;
        if kept > 0 {
            self.resumed = None;
            entry.foreign_end = false;
        }
        if result.is_err() && kept > 0 {
            entry.buffer.drain(..kept);
            entry.lead = 0;
        }
        result
    }

    /// At the end of the journal after a crash: what is still there stays, but for a torn line.
    pub(super) fn settle_tail(&mut self, index: usize) -> io::Result<()> {
        if self.entries[index].tail.is_none() {
            return Ok(());
        }
        self.ensure(index)?;
        let entry = &mut self.entries[index];
        if let (Some(tail), Some(file)) = (entry.tail, &entry.file) {
            let end = file::last_line_end(file, entry.written, tail)?;
            file::cut(file, &entry.path, end)?;
            (entry.offset, entry.written) = (end, end);
            entry.tail = None;
            self.unsaved = true;
        }
        Ok(())
    }

    /// Whether a checkpoint is to be made, and when the next one is.
    pub(super) fn checkpoint_due(&self) -> Option<Duration> {
        (self.saved != self.committed || self.unsaved)
            .then(|| CHECKPOINT_EVERY.saturating_sub(self.saved_at.elapsed()))
    }

    /// Keeps the journal from removing what is not in the files, where no checkpoint can be made.
    pub(super) fn hold(&self) {
        self.journal.set_position(&self.id, self.committed.position, Vec::new());
    }

    /// Makes the files durable, and then the checkpoint that speaks of them.
    pub(super) fn checkpoint(&mut self, stopped: bool) -> io::Result<()> {
        for entry in self.entries.iter_mut().filter(|entry| entry.dirty) {
            if let Some(file) = &entry.file {
                file.sync_data()?;
            }
            entry.dirty = false;
        }
        let known = |entry: &Entry| Known {
            family: entry.family.clone(),
            day: entry.day,
            used: entry.used,
            period: entry.period,
            identity: entry.identity,
            offset: entry.offset,
        };
        let files = self.entries.iter().filter(|entry| entry.identity.is_some()).map(known).collect();
        let bytes = Checkpoint::new(self.committed, stopped, self.stamp, files).to_bytes()?;
        crash::point();
        self.store.save(&bytes)?;
        crash::point();
        self.journal.set_position(&self.id, self.committed.position, bytes);
        self.unsaved = false;
        self.saved = self.committed;
        self.saved_at = Instant::now();
        Ok(())
    }
}

fn write_all(mut file: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
}
