//! The open log files of a sink: what is rendered for each, and how it gets there exactly once.
//!
//! Records are gathered in one buffer a file, up to a *place* in the journal ([`Files::cursor`]).
//! [`Files::commit`] writes all buffers; then everything before [`Files::committed`] is in the files. A
//! checkpoint says how long each file was at the committed place, so what is found beyond that after a
//! crash comes from the records that follow in the journal, and is compared with them.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::{Checkpoint, Known, Place, Store};
use super::crash;
use super::entry::Entry;
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
pub(super) const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);

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
    pub(super) bom: bool,
    pub(super) eol: &'static [u8],
    id: String,
    store: Store,
    journal: Arc<Journal>,
    /// What the last checkpoint says is not enough to begin writing.
    pub(super) unsaved: bool,
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

    pub(super) fn check(&mut self, index: usize) -> io::Result<()> {
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
            crate::util::sync_dir(&dir)?;
        }
        Ok(())
    }

    /// Takes notice of what others did to the length of the file.
    fn settle_length(&mut self, index: usize, len: u64) -> io::Result<()> {
        let entry = &mut self.entries[index];
        if len == entry.written || entry.tail == Some(len) {
            return Ok(());
        }
        if entry.tail.is_some() && len > entry.written {
            entry.tail = Some(len);
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

    /// Whether a checkpoint is to be made, and when the next one is.
    pub(super) fn checkpoint_due(&self) -> Option<Duration> {
        // The journal cannot remove what lies behind the checkpoint, so that must not become much of it.
        let behind = self.committed.position.saturating_sub(self.saved.position);
        if behind >= self.journal.max_bytes() / 8 {
            return Some(Duration::ZERO);
        }
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
