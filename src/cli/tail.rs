//! `hwgate tail`: events as they come.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use chrono::{DateTime, Local, SecondsFormat, Utc};
use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::cli::exit::{Failure, UNAVAILABLE};
use crate::cli::output::{complain, say};
use crate::cli::{Target, duration, tail_forward};
use crate::client::{Client, Message, SubscribeOptions};
use crate::wire::event::SYNC;
use crate::wire::text::escape_controls;
use crate::wire::{Event, data};

/// Show events as they come: what the hardware says, states, log records; or what passes a forwarder
#[derive(Debug, clap::Args)]
pub struct Tail {
    /// Such as serial/scanner/rx/ or log/; without any it is everything. Bytes as read (serial/ID/raw/) only where they are named
    pub(super) topics: Vec<String>,
    /// What passes a [[forward]] instead: the only one, or --forward=ID. Topics are then those of its messages
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    forward: Option<String>,
    /// Each event or message as a JSON object on a line of its own
    #[arg(long)]
    pub(super) json: bool,
    /// End after so many
    #[arg(short = 'n', long)]
    pub(super) count: Option<u64>,
    /// End after so long, such as 500ms or 2m; plain numbers are seconds. With --count too few are a failure
    #[arg(long, value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Whether to use colours
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// How long to wait for a gateway at the start. Later, one that is gone is waited for.
const START: Duration = Duration::from_secs(5);
/// How long to wait for the next message at a time.
pub(super) const ROUND: Duration = Duration::from_secs(3600);

impl Tail {
    /// Prints until the end that was asked for, or a signal.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        if let Some(id) = &self.forward {
            return tail_forward::run(self, id, target);
        }
        let client = Client::connect(target.url.as_deref())?;
        // Log records come to those only who ask for them by name.
        let everything = ["".to_owned(), "log/".to_owned()];
        let topics = if self.topics.is_empty() { &everything[..] } else { &self.topics };
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let options = SubscribeOptions { timeout: Some(START), ..SubscribeOptions::default() };
        let events = client.subscribe(&topics, options)?;
        if std::io::stderr().is_terminal() && !self.json {
            complain(&format!("listening at {}; Ctrl-C ends it", client.url()));
        }
        let paint = self.paint();
        // They say the same as the frames that they become.
        let raw = self.topics.iter().any(|topic| topic.trim_end_matches('/').ends_with("/raw"));
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut seen = 0;
        while self.count.is_none_or(|count| seen < count) {
            let left = deadline.map_or(ROUND, |at| at.saturating_duration_since(Instant::now()).min(ROUND));
            match events.recv(left)? {
                // Confirmations of other clients' subscriptions.
                Some(Message::Event(event)) if event.topic.starts_with(SYNC) => {}
                Some(Message::Event(event)) if !raw && is_raw(&event.topic) => {}
                Some(Message::Event(event)) => {
                    say(&if self.json { json(event) } else { line(&event, paint) });
                    seen += 1;
                }
                Some(other) => complain(&notice(&other)),
                None if deadline.is_some_and(|at| at <= Instant::now()) => break,
                None => {}
            }
        }
        self.enough(seen, "events")
    }

    /// Whether that were all that were asked for.
    pub(super) fn enough(&self, seen: u64, what: &str) -> Result<(), Failure> {
        match self.count {
            Some(count) if seen < count => {
                Err(Failure::new(UNAVAILABLE, format!("{seen} of {count} {what} came in time (TIMEOUT)")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn paint(&self) -> Paint {
        Paint(match self.color {
            Color::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            Color::Always => true,
            Color::Never => false,
        })
    }
}

fn is_raw(topic: &str) -> bool {
    topic.starts_with("serial/") && topic.ends_with("/raw/")
}

fn notice(message: &Message) -> String {
    match message {
        Message::Missed(Some(count)) => format!("{count} events are missing here"),
        Message::Missed(None) => "events may be missing here".to_owned(),
        Message::Disconnected => "the gateway is away; waiting for it".to_owned(),
        Message::Reconnected { restarted: true } => "the gateway was started again".to_owned(),
        Message::Reconnected { restarted: false } => "the gateway is back".to_owned(),
        Message::Event(event) => event.topic.clone(),
    }
}

fn json(event: Event) -> String {
    let mut object = Map::new();
    object.insert("topic".to_owned(), event.topic.into());
    object.insert("id".to_owned(), event.id.into());
    object.insert("seq".to_owned(), event.seq.into());
    object.insert("session".to_owned(), event.session.into());
    let time = DateTime::<Utc>::from_timestamp_nanos(event.time_ns);
    object.insert("time".to_owned(), time.to_rfc3339_opts(SecondsFormat::Nanos, true).into());
    data::write(&mut object, &event.payload);
    object.insert("fields".to_owned(), event.fields.into());
    Value::Object(object).to_string()
}

#[derive(Clone, Copy)]
pub(super) struct Paint(pub bool);

impl Paint {
    pub(super) fn dim(self, text: &str) -> String {
        self.text(Style::new().dimmed(), text)
    }

    pub(super) fn topic(self, text: &str) -> String {
        self.text(AnsiColor::Cyan.on_default(), text)
    }

    fn text(self, style: Style, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// `23:04:02.123 serial/scanner/rx/ 4006381333931`: one line whatever is in it.
fn line(event: &Event, paint: Paint) -> String {
    let time = DateTime::<Utc>::from_timestamp_nanos(event.time_ns).with_timezone(&Local);
    let mut words = vec![
        paint.dim(&time.format("%H:%M:%S%.3f").to_string()),
        paint.topic(&printable(event.topic.as_bytes())),
        paint.text(style(event), &printable(&event.payload)),
    ];
    // What a state or a lease is about is in the fields; of a log record the rest is in the log.
    for (name, value) in &event.fields {
        let shown = match (name.as_str(), value) {
            ("settings" | "state" | "action" | "level" | "log_time_ns", _) | (_, Value::Null) => continue,
            (_, Value::Object(members)) if members.is_empty() => continue,
            (_, Value::String(text)) => text.clone(),
            (_, other) => other.to_string(),
        };
        words.push(paint.dim(&format!("{name}={}", printable(shown.as_bytes()))));
    }
    words.join(" ")
}

/// Red for what failed, yellow for warnings, bold for what was read.
fn style(event: &Event) -> Style {
    let word = |name: &str| event.fields.get(name).and_then(Value::as_str);
    match word("level").or(word("state")) {
        Some("error" | "critical" | "lost" | "failed" | "degraded") => AnsiColor::Red.on_default(),
        Some("warn") => AnsiColor::Yellow.on_default(),
        Some("trace" | "debug") => Style::new().dimmed(),
        _ if event.topic.ends_with("/rx/") => Style::new().bold(),
        _ => Style::new(),
    }
}

/// Bytes as text that cannot steer a terminal; those that are no UTF-8 as `\xNN`.
pub(super) fn printable(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escape_controls(chunk.valid(), &mut text);
        chunk.invalid().iter().for_each(|byte| text.extend_from_slice(format!("\\x{byte:02x}").as_bytes()));
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(topic: &str, payload: &[u8], fields: Value) -> Event {
        Event {
            topic: topic.into(),
            id: 7,
            seq: 2,
            session: "s".into(),
            time_ns: 1_700_000_000_000_000_001,
            fields: fields.as_object().unwrap().clone(),
            payload: payload.to_vec(),
        }
    }

    #[test]
    fn each_event_is_a_line_that_cannot_steer_a_terminal() {
        let scan = event("serial/s/rx/", b"400\xff\x1b[2K\n", json!({"partial": true}));
        let text = line(&scan, Paint(false));
        assert!(text.ends_with(r" serial/s/rx/ 400\xff\x1b[2K\n partial=true"), "{text}");
        let state =
            event("serial/s/state/", b"lost", json!({"state": "lost", "reason": "gone", "settings": {}}));
        assert!(line(&state, Paint(false)).ends_with(" serial/s/state/ lost reason=gone"));
        assert!(line(&state, Paint(true)).contains("\x1b[31mlost\x1b[0m"), "{:?}", line(&state, Paint(true)));
    }

    #[test]
    fn programs_get_everything() {
        let told: Value = serde_json::from_str(&json(event("a/", b"\xff", json!({"by": "x"})))).unwrap();
        let wanted = json!({"topic": "a/", "id": 7, "seq": 2, "session": "s", "fields": {"by": "x"},
                            "time": "2023-11-14T22:13:20.000000001Z", "data_base64": "/w=="});
        assert_eq!(told, wanted);
    }
}
