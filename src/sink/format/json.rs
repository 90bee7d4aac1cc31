//! One JSON object a line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Line, is_object, push_fields, push_json_string, push_number, push_uuid};
use crate::sink::clock::Clock;
use crate::wire::text::decode;

pub(super) fn write(line: &Line<'_>, time: &mut Clock, received: &mut Clock, out: &mut Vec<u8>) {
    let record = &line.record;
    out.reserve(200 + record.host.len() + record.source.len() + record.text.len() + record.fields.len());
    out.extend_from_slice(b"{\"time\":\"");
    time.write_nanos(record.time, out);
    out.extend_from_slice(b"\",\"received\":\"");
    received.write_nanos(line.received, out);
    out.extend_from_slice(b"\",\"level\":\"");
    out.extend_from_slice(record.level.name().as_bytes());
    out.extend_from_slice(b"\",\"source\":");
    push_json_string(record.source, out);
    out.extend_from_slice(b",\"host\":");
    push_json_string(record.host, out);
    if let Some(pid) = record.pid {
        out.extend_from_slice(b",\"pid\":");
        push_number(pid.into(), out);
    }
    let decoded = decode(record.rule, record.text);
    out.extend_from_slice(b",\"text\":");
    push_json_string(&decoded.text, out);
    if !decoded.exact {
        out.extend_from_slice(b",\"raw_base64\":\"");
        out.extend_from_slice(STANDARD.encode(record.text).as_bytes());
        out.push(b'"');
    }
    if !record.fields.is_empty() {
        out.extend_from_slice(b",\"fields\":");
        if is_object(record.fields) {
            push_fields(record.fields, out);
        } else {
            push_json_string(record.fields, out);
        }
    }
    if *line.producer != [0; 16] {
        out.extend_from_slice(b",\"producer\":\"");
        push_uuid(line.producer, out);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"seq\":");
    push_number(line.seq, out);
    if !line.client.is_empty() {
        out.extend_from_slice(b",\"client\":");
        push_json_string(line.client, out);
    }
    out.push(b'}');
}
