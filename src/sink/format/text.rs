//! `2026-11-30T23:04:02.123456Z WARN  kiosk-7/updater[4242] text {"k":"v"}`

use super::{Line, push_fields, push_number, push_word};
use crate::sink::clock::Clock;
use crate::wire::text::write_line;

pub(super) fn write(line: &Line<'_>, time: &mut Clock, out: &mut Vec<u8>) {
    let record = &line.record;
    out.reserve(64 + record.host.len() + record.source.len() + record.text.len() + record.fields.len());
    time.write_micros(record.time, out);
    out.push(b' ');
    out.extend_from_slice(record.level.column().as_bytes());
    out.push(b' ');
    push_word(record.host, out);
    out.push(b'/');
    push_word(record.source, out);
    if let Some(pid) = record.pid {
        out.push(b'[');
        push_number(pid.into(), out);
        out.push(b']');
    }
    out.push(b' ');
    write_line(record.rule, record.text, out);
    if !record.fields.is_empty() {
        out.push(b' ');
        push_fields(record.fields, out);
    }
}
