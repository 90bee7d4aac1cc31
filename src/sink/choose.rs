//! Which file a record goes to, and how many there may be.

use std::io;

use super::path::Values;
use super::writer::Writer;
use crate::wire::Record;

/// How many files a sink writes; what would need another goes to `other.log`.
const MOST_FILES: usize = 1_000;

/// How long, by `received`, a file is remembered that nothing came for, when there are too many.
const REMEMBERED: i64 = 86_400_000_000_000;

/// How many different senders are remembered together with their files.
const MOST_KEYS: usize = 10_000;

impl Writer {
    /// The file for a record.
    pub(super) fn locate(&mut self, record: &Record<'_>, received: i64) -> io::Result<usize> {
        if self.template.is_constant() {
            return Ok(0);
        }
        let day = if self.template.by_date { self.clock.day(received) } else { 0 };
        if self.template.by_date && self.day != Some(day) {
            self.change_day(day)?;
        }
        let values = Values { source: record.source, host: record.host, level: record.level.name() };
        let parts = [
            (self.template.by_source, values.source),
            (self.template.by_host, values.host),
            (self.template.by_level, values.level),
        ];
        self.key.clear();
        for (_, value) in parts.iter().filter(|(used, _)| *used) {
            self.key.extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.key.extend_from_slice(value.as_bytes());
        }
        if let Some(&index) = self.by_key.get(&self.key) {
            return Ok(index);
        }
        let family = self.template.family(&values);
        let known = self.files.by_path.get(&(family.clone(), day)).copied();
        let index = match known {
            Some(index) => index,
            None => {
                if self.files.entries.len() >= MOST_FILES {
                    self.forget(|entry_used, _| entry_used >= received.saturating_sub(REMEMBERED))?;
                }
                if self.files.entries.len() < MOST_FILES {
                    self.files.entry(family, day)
                } else {
                    self.files.entry(self.template.overflow(), 0)
                }
            }
        };
        if self.by_key.len() >= MOST_KEYS {
            self.by_key.clear();
        }
        self.by_key.insert(self.key.clone(), index);
        Ok(index)
    }

    /// Lets go of the files of other days; what becomes of them is for the keeper.
    fn change_day(&mut self, day: i64) -> io::Result<()> {
        let before = self.day.replace(day);
        self.by_key.clear();
        if self.replay_until.is_some() {
            return Ok(());
        }
        if let Err(error) = self.forget(|_, entry_day| entry_day == day || entry_day == 0) {
            self.day = before;
            return Err(error);
        }
        Ok(())
    }

    /// Forgets the files that `keep` (by last use and day) does not name.
    fn forget(&mut self, keep: impl Fn(i64, i64) -> bool) -> io::Result<()> {
        if self.files.entries.iter().all(|entry| entry.tail.is_some() || keep(entry.used, entry.day)) {
            return Ok(());
        }
        self.files.commit()?;
        for index in 0..self.files.entries.len() {
            let entry = &self.files.entries[index];
            if entry.tail.is_none() && !keep(entry.used, entry.day) {
                self.files.close(index)?;
            }
        }
        // Until there is a checkpoint without them, they would be looked for after a crash, and found.
        let date = self.day.map(super::family::date).unwrap_or_default();
        let keeper = self.files.keeper.take();
        self.files.entries.retain(|entry| {
            let kept = entry.tail.is_some() || keep(entry.used, entry.day);
            if let Some(keeper) = keeper.as_ref().filter(|_| !kept) {
                keeper.tend(&entry.family, &date);
            }
            kept
        });
        self.files.keeper = keeper;
        let entries = self.files.entries.iter().enumerate();
        self.files.by_path =
            entries.map(|(index, entry)| ((entry.family.clone(), entry.day), index)).collect();
        self.by_key.clear();
        Ok(())
    }
}
