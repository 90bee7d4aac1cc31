//! `2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater[4242] text {"k":"v"}`

use super::{Line, push_fields, push_number, push_word};
use crate::sink::clock::Clock;
use crate::wire::Record;
use crate::wire::text::write_line;

/// Who sent the last record, as it is in the line: most records come from the sender of the one before.
#[derive(Debug, Default)]
pub(super) struct Origin {
    host: String,
    source: String,
    pid: Option<u32>,
    shown: Vec<u8>,
}

impl Origin {
    fn show(&mut self, record: &Record<'_>) -> &[u8] {
        let same = self.pid == record.pid && self.source == record.source && self.host == record.host;
        if !same || self.shown.is_empty() {
            record.host.clone_into(&mut self.host);
            record.source.clone_into(&mut self.source);
            self.pid = record.pid;
            self.shown.clear();
            push_word(record.host, &mut self.shown);
            self.shown.push(b'/');
            push_word(record.source, &mut self.shown);
            if let Some(pid) = record.pid {
                self.shown.push(b'[');
                push_number(pid.into(), &mut self.shown);
                self.shown.push(b']');
            }
            self.shown.push(b' ');
        }
        &self.shown
    }
}

pub(super) fn write(line: &Line<'_>, time: &mut Clock, origin: &mut Origin, out: &mut Vec<u8>) {
    let record = &line.record;
    let origin = origin.show(record);
    out.reserve(48 + origin.len() + record.text.len() + record.fields.len());
    time.write_micros(record.time, out);
    let mut level = *b"       ";
    level[1..6].copy_from_slice(record.level.column().as_bytes());
    out.extend_from_slice(&level);
    out.extend_from_slice(origin);
    write_line(record.rule, record.text, out);
    if !record.fields.is_empty() {
        out.push(b' ');
        push_fields(record.fields, out);
    }
}
