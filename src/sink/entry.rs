//! One log file that is written to, and what is known of it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use super::family;
use super::file::Identity;
use super::path::DATE;

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
    pub(super) offset: u64,
    /// How much of the buffer is no record: mark, line end, the line about a trouble that is over.
    pub(super) lead: usize,
    /// A write failed in the middle and the part could not be cut off.
    pub(super) torn: bool,
    pub(super) dirty: bool,
    /// Somebody else wrote the end, maybe without a line end.
    pub(super) foreign_end: bool,
    pub(super) touched: u64,
}

impl Entry {
    pub(super) fn new(root: &Path, family: String, day: i64) -> Entry {
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

    pub(super) fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}
