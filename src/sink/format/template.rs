//! A pattern with `{time}`, `{received}`, `{level}` (`warn`), `{LEVEL}` (`WARN `, always five characters),
//! `{source}`, `{host}`, `{pid}`, `{text}`, `{fields}`, `{client}`, `{producer}`, `{seq}`; `{{` and `}}`
//! are braces. What is not known is empty.

use super::{Line, push_fields, push_number, push_uuid, push_word};
use crate::config::pattern::{Piece, TEMPLATE_NAMES, pieces};
use crate::error::{Error, Kind, Result};
use crate::sink::clock::Clock;
use crate::wire::text::{escape_controls, write_line};

#[derive(Debug)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Copy, Debug)]
enum Field {
    Time,
    Received,
    Level,
    LevelColumn,
    Source,
    Host,
    Pid,
    Text,
    Fields,
    Client,
    Producer,
    Seq,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    Field(Field),
}

const FIELDS: [(&str, Field); 12] = [
    ("time", Field::Time),
    ("received", Field::Received),
    ("level", Field::Level),
    ("LEVEL", Field::LevelColumn),
    ("source", Field::Source),
    ("host", Field::Host),
    ("pid", Field::Pid),
    ("text", Field::Text),
    ("fields", Field::Fields),
    ("client", Field::Client),
    ("producer", Field::Producer),
    ("seq", Field::Seq),
];

impl Template {
    pub(super) fn parse(pattern: &str) -> Result<Template> {
        let wrong =
            |why: String| Error::new(Kind::InvalidArgument, format!("log.template {pattern:?}: {why}"));
        let mut parts = Vec::new();
        for piece in pieces(pattern, TEMPLATE_NAMES).map_err(wrong)? {
            parts.push(match piece {
                Piece::Literal(text) => {
                    // A line break in the pattern would make two physical lines of one record.
                    let mut literal = Vec::new();
                    escape_controls(&text, &mut literal);
                    Part::Literal(String::from_utf8_lossy(&literal).into_owned())
                }
                Piece::Name(name) => {
                    let field = FIELDS.iter().find(|(known, _)| *known == name);
                    let unknown = || wrong(format!("{{{name}}} is not known"));
                    Part::Field(field.ok_or_else(unknown)?.1)
                }
            });
        }
        Ok(Template(parts))
    }

    pub(super) fn write(&self, line: &Line<'_>, time: &mut Clock, received: &mut Clock, out: &mut Vec<u8>) {
        let record = &line.record;
        for part in &self.0 {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Field(Field::Time) => time.write_micros(record.time, out),
                Part::Field(Field::Received) => received.write_micros(line.received, out),
                Part::Field(Field::Level) => out.extend_from_slice(record.level.name().as_bytes()),
                Part::Field(Field::LevelColumn) => out.extend_from_slice(record.level.column().as_bytes()),
                Part::Field(Field::Source) => push_word(record.source, out),
                Part::Field(Field::Host) => push_word(record.host, out),
                Part::Field(Field::Pid) => record.pid.iter().for_each(|&pid| push_number(pid.into(), out)),
                Part::Field(Field::Text) => write_line(record.rule, record.text, out),
                Part::Field(Field::Fields) => push_fields(record.fields, out),
                Part::Field(Field::Client) => push_word(line.client, out),
                Part::Field(Field::Producer) if *line.producer == [0; 16] => {}
                Part::Field(Field::Producer) => push_uuid(line.producer, out),
                Part::Field(Field::Seq) => push_number(line.seq, out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_set_can_be_written() {
        assert_eq!(FIELDS.map(|(name, _)| name), TEMPLATE_NAMES);
    }
}
