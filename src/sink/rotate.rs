//! Rotation: the current file gets a name with a time stamp, and nothing that exists is ever replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::clock::Clock;
use super::crash;
use super::entry::Entry;
use super::family::{members, rotated, stamp};
use super::file::{cut, options};
use super::files::Files;
use crate::config::{Every, Rotate};
use crate::util::sync_dir;

/// The number of the hour or day, where files are changed by time.
pub(super) fn period(rules: &Rotate, clock: &mut Clock, received: i64) -> Option<i64> {
    Some(match rules.every? {
        Every::Hour => clock.hour(received),
        Every::Day => clock.day(received),
    })
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether a file has to be rotated before `added` bytes of `period` are written to it.
///
/// `size` counts what is ours, not what lies beyond after a crash, so that a replay decides as before.
/// Time that goes back changes nothing: a file is never changed twice for one hour.
pub(super) fn is_due(entry: &Entry, rules: &Rotate, size: u64, added: u64, period: Option<i64>) -> bool {
    if size == 0 {
        return false;
    }
    let grown = rules.size.is_some_and(|limit| size + added > limit);
    grown || matches!((entry.period, period), (Some(old), Some(new)) if old < new)
}

impl Files {
    /// Rotates a file. Nothing may be gathered. Returns the new name; none for an empty file. After an
    /// error the old file is still in use.
    pub(super) fn rotate(&mut self, index: usize) -> io::Result<Option<PathBuf>> {
        self.ensure(index)?;
        let entry = &mut self.entries[index];
        if entry.tail.take().is_some()
            && let Some(file) = &entry.file
        {
            // What lies beyond comes again from the journal, and belongs to the next file.
            cut(file, &entry.path, entry.written)?;
        }
        if entry.written == 0 {
            return Ok(None);
        }
        self.checkpoint(false)?;
        let target = self.reserve(index)?;
        crash::point();
        let entry = &mut self.entries[index];
        if let Err(error) = fs::rename(&entry.path, &target) {
            let _ = fs::remove_file(&target);
            return Err(io::Error::new(error.kind(), format!("{}: {error}", entry.path.display())));
        }
        crash::point();
        entry.let_go();
        let (family, date) = (entry.family.clone(), entry.date());
        sync_dir(target.parent().unwrap_or(Path::new(".")))?;
        if let Some(keeper) = &self.keeper {
            keeper.tend(&family, &date);
        }
        Ok(Some(target))
    }

    /// Takes a name that no file has or had, and that sorts after those of all earlier rotations.
    fn reserve(&mut self, index: usize) -> io::Result<PathBuf> {
        let entry = &self.entries[index];
        let others = members(&self.root, &entry.family, &entry.date())?;
        let newest = others.iter().map(|member| member.stamp).filter(|&stamp| stamp != i64::MAX).max();
        let mut micros = nanos(SystemTime::now()) / 1_000;
        micros = micros.max(self.stamp + 1).max(newest.map_or(0, |newest| newest + 1));
        loop {
            let target = rotated(&entry.path, &stamp(micros));
            match options().write(true).create_new(true).open(&target) {
                Ok(_) => {
                    self.stamp = micros;
                    return Ok(target);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => micros += 1,
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", target.display())));
                }
            }
        }
    }
}
