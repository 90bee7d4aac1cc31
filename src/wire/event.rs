//! An event: `[topic, header, payload]`.
//!
//! Levels of a topic end with `/`, so that a subscription to `serial/COM1/` never hears `serial/COM10/`.
//! The header is a JSON object; `id` counts the events of a session, `seq` those of a topic.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Error, Kind, Result};

/// The longest topic, in bytes.
pub const TOPIC_BYTES: usize = 1024;
/// What a topic begins with that is answered to whoever subscribes to it: all earlier subscriptions of
/// that client are then in force.
pub const SYNC: &str = "~sync/";

/// An event as a subscriber sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is about; ends with `/`.
    pub topic: String,
    /// Counts the events of a session, from 1.
    pub id: u64,
    /// Counts the events of the topic in this session, from 1; a gap is a loss.
    pub seq: u64,
    /// Names the run of the gateway.
    pub session: String,
    /// When it was published, in nanoseconds since 1970-01-01 UTC by the gateway's clock.
    pub time_ns: i64,
    /// The members of the header that are particular to this kind of event.
    pub fields: Map<String, Value>,
    /// Any bytes; may be empty.
    pub payload: Vec<u8>,
}

impl Event {
    /// Reads the three frames of an event.
    ///
    /// BAD_REQUEST for anything else.
    pub fn from_frames<F: AsRef<[u8]>>(frames: &[F]) -> Result<Event> {
        let bad = |what: &str| Error::new(Kind::BadRequest, format!("this is no event: {what}"));
        let [topic, header, payload] = frames else {
            return Err(bad(&format!("{} frames, expected topic, header, payload", frames.len())));
        };
        let topic = std::str::from_utf8(topic.as_ref()).map_err(|_| bad("the topic is not UTF-8"))?;
        let header = serde_json::from_slice(header.as_ref()).map_err(|error| bad(&error.to_string()))?;
        Event::from_header(topic.to_owned(), header, payload.as_ref().to_vec())
    }

    /// An event from a header that was read already.
    pub fn from_header(topic: String, mut header: Map<String, Value>, payload: Vec<u8>) -> Result<Event> {
        let bad =
            |name: &str| Error::new(Kind::BadRequest, format!("this is no event: {name} in its header"));
        let number = |value: Option<Value>| value.as_ref().and_then(Value::as_u64);
        let id = number(header.remove("id")).ok_or_else(|| bad("id"))?;
        let seq = number(header.remove("seq")).ok_or_else(|| bad("seq"))?;
        let Some(Value::String(session)) = header.remove("session") else { return Err(bad("session")) };
        let time = header.remove("time_ns");
        let time = time.as_ref().and_then(Value::as_str).and_then(|text| text.parse().ok());
        Ok(Event {
            topic,
            id,
            seq,
            session,
            time_ns: time.ok_or_else(|| bad("time_ns"))?,
            fields: header,
            payload,
        })
    }
}

/// Members of a header, as the JSON text that follows the common ones.
#[derive(Clone, Debug, Default)]
pub struct Fields(String);

impl Fields {
    /// No members.
    pub fn none() -> Fields {
        Fields::default()
    }

    /// These and one more. A value that cannot be JSON becomes null.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Fields {
        let text = |value: &str| Value::from(value).to_string();
        self.0.push(',');
        self.0.push_str(&text(name));
        self.0.push(':');
        self.0.push_str(&serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()));
        self
    }

    /// The header with these behind the common members.
    pub fn header(&self, id: u64, seq: u64, session: &str, time_ns: i64) -> String {
        let rest = &self.0;
        format!(r#"{{"id":{id},"seq":{seq},"session":"{session}","time_ns":"{time_ns}"{rest}}}"#)
    }
}

/// The names that every header has; fields of clients may not use them.
pub const COMMON: [&str; 4] = ["id", "seq", "session", "time_ns"];

/// Checks a topic from a user and adds the `/` at its end where it is missing.
///
/// INVALID_ARGUMENT where it is empty, longer than [`TOPIC_BYTES`], has an empty level or a control.
pub fn topic(text: &str) -> Result<String> {
    let mut topic = text.to_owned();
    if !topic.ends_with('/') {
        topic.push('/');
    }
    let reason = if text.is_empty() {
        "a topic is not empty"
    } else if topic.len() > TOPIC_BYTES {
        "a topic has at most 1024 bytes"
    } else if topic.starts_with('/') || topic.contains("//") {
        "a level of a topic is not empty"
    } else if topic.chars().any(char::is_control) {
        "a topic has no control characters"
    } else {
        return Ok(topic);
    };
    Err(Error::new(Kind::InvalidArgument, format!("topic {text:?}: {reason}")))
}

/// One level of a topic from any text: what is not in `[A-Za-z0-9._-]` becomes `%XX`.
pub fn level(text: &str) -> String {
    let mut level = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => level.push(byte as char),
            _ => level.push_str(&format!("%{byte:02X}")),
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read() {
        let fields = Fields::none().with("truncated", true).with("by", "a \"b\"").with("n", 7);
        let header = fields.header(3, 2, "s", 1_700_000_000_000_000_001);
        let event = Event::from_frames(&[&b"serial/a/rx/"[..], header.as_bytes(), b"\0\xff"]).unwrap();
        assert_eq!((event.id, event.seq, &event.session[..]), (3, 2, "s"));
        assert_eq!(event.time_ns, 1_700_000_000_000_000_001);
        assert_eq!(Value::Object(event.fields), json!({"truncated": true, "by": "a \"b\"", "n": 7}));
        assert_eq!(event.payload, b"\0\xff");
        for frames in [vec![&b"a/"[..], b"{}"], vec![b"a/", b"{}", b""], vec![b"a/", b"x", b""]] {
            assert_eq!(Event::from_frames(&frames).unwrap_err().kind(), Kind::BadRequest);
        }
    }

    #[test]
    fn topics_end_with_a_slash() {
        assert_eq!(topic("serial/COM1").unwrap(), "serial/COM1/");
        assert_eq!(topic("app/x/").unwrap(), "app/x/");
        for bad in ["", "/", "a//b", "/a", "a\nb", &"x".repeat(1024)] {
            assert_eq!(topic(bad).unwrap_err().kind(), Kind::InvalidArgument, "{bad:?}");
        }
        assert_eq!(level("Tür/1 %"), "T%C3%BCr%2F1%20%25");
    }
}
