//! From a buffer into a file: each line whole and once, whatever is there already.

use std::fs::File;
use std::io::{self, Write};

use super::crash;
use super::file;
use super::files::Files;

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Files {
    /// Writes one buffer; if the file was deleted at that moment, once more to a new one.
    pub(super) fn put(&mut self, index: usize) -> io::Result<()> {
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
