//! `ts=2026-11-30T23:04:02.123456Z level=warn host=kiosk-7 source=updater pid=4242 text="…" k=v`

use serde_json::{Map, Value};

use super::{Line, push_json_string, push_number};
use crate::sink::clock::Clock;
use crate::wire::text::{decode, is_plain};

pub(super) fn write(line: &Line<'_>, time: &mut Clock, out: &mut Vec<u8>) {
    let record = &line.record;
    out.extend_from_slice(b"ts=");
    time.write_micros(record.time, out);
    out.extend_from_slice(b" level=");
    out.extend_from_slice(record.level.name().as_bytes());
    out.extend_from_slice(b" host=");
    push_value(record.host, out);
    out.extend_from_slice(b" source=");
    push_value(record.source, out);
    if let Some(pid) = record.pid {
        out.extend_from_slice(b" pid=");
        push_number(pid.into(), out);
    }
    if !line.client.is_empty() {
        out.extend_from_slice(b" client=");
        push_value(line.client, out);
    }
    out.extend_from_slice(b" text=");
    push_json_string(&decode(record.rule, record.text).text, out);
    if record.fields.is_empty() {
        return;
    }
    match serde_json::from_str::<Map<String, Value>>(record.fields) {
        Ok(fields) => fields.iter().for_each(|(key, value)| push_field(key, value, out)),
        Err(_) => {
            out.extend_from_slice(b" fields=");
            push_value(record.fields, out);
        }
    }
}

fn push_field(key: &str, value: &Value, out: &mut Vec<u8>) {
    out.push(b' ');
    if key.is_empty() {
        out.push(b'_');
    }
    for c in key.chars() {
        let odd = c.is_whitespace() || c.is_control() || matches!(c, '=' | '"');
        let c = if odd { '_' } else { c };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.push(b'=');
    match value {
        Value::String(text) => push_value(text, out),
        other => push_value(&other.to_string(), out),
    }
}

/// Appends a value, in quotes where a reader would need them.
fn push_value(value: &str, out: &mut Vec<u8>) {
    let bare = !value.is_empty()
        && is_plain(value.as_bytes())
        && !value.bytes().any(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\\'));
    if bare {
        out.extend_from_slice(value.as_bytes());
    } else {
        push_json_string(value, out);
    }
}
