//! `hwgate tail --forward`: what passes a forwarder.

use std::io::IsTerminal;
use std::time::Instant;

use chrono::{Local, SecondsFormat, Utc};
use serde_json::{Map, Value};

use super::exit::Failure;
use super::output::{complain, say};
use super::tail::{Paint, ROUND, Tail, printable};
use crate::cli::Target;
use crate::client::{Client, Follower, Passed};
use crate::wire::{data, text};

/// Prints until the end that was asked for, or a signal.
pub(super) fn run(tail: &Tail, id: &str, target: &Target) -> Result<(), Failure> {
    let client = Client::connect(target.url.as_deref())?;
    let topics: Vec<&str> = tail.topics.iter().map(String::as_str).collect();
    let mut follower = Follower::connect(&client, Some(id).filter(|id| !id.is_empty()), &topics)?;
    drop(client);
    if std::io::stderr().is_terminal() && !tail.json {
        complain(&format!("listening at {}; Ctrl-C ends it", follower.endpoint()));
    }
    let paint = tail.paint();
    let deadline = tail.timeout.map(|timeout| Instant::now() + timeout);
    let mut seen = 0;
    while tail.count.is_none_or(|count| seen < count) {
        let left = deadline.map_or(ROUND, |at| at.saturating_duration_since(Instant::now()).min(ROUND));
        match follower.recv(left)? {
            Some(Passed::Message(frames)) => {
                say(&if tail.json { json(&frames) } else { line(&frames, paint) });
                seen += 1;
            }
            Some(Passed::Disconnected) => complain("the gateway is away; waiting for it"),
            Some(Passed::Reconnected) => complain("the gateway is back"),
            None if deadline.is_some_and(|at| at <= Instant::now()) => break,
            None => {}
        }
    }
    tail.enough(seen, "messages")
}

/// `{"time":"…","frames":[{"data":"door"},{"data":"open"}]}`; bytes that are no text are `data_base64`.
fn json(frames: &[Vec<u8>]) -> String {
    let frames = frames.iter().map(|frame| {
        let mut object = Map::new();
        data::write(&mut object, frame);
        Value::Object(object)
    });
    let mut object = Map::new();
    object.insert("time".to_owned(), Utc::now().to_rfc3339_opts(SecondsFormat::Nanos, true).into());
    object.insert("frames".to_owned(), frames.collect());
    Value::Object(object).to_string()
}

/// `23:04:02.123 door open`: time of arrival, topic, text. The text is decoded as in the log, so it is one line and
/// cannot steer a terminal.
fn line(frames: &[Vec<u8>], paint: Paint) -> String {
    let texts = frames.iter().map(|frame| {
        let text = text::decode(text::classify(frame, None), frame).text;
        printable(text.as_bytes())
    });
    let mut words = vec![paint.dim(&Local::now().format("%H:%M:%S%.3f").to_string())];
    words.extend(texts.enumerate().map(|(index, text)| match index {
        0 if frames.len() > 1 => paint.topic(&text),
        _ => text,
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_a_line_that_cannot_steer_a_terminal() {
        let utf16: Vec<u8> = "Grüße".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let shown = |frames: &[&[u8]]| {
            let frames: Vec<Vec<u8>> = frames.iter().map(|frame| frame.to_vec()).collect();
            let line = line(&frames, Paint(false));
            line.split_once(' ').unwrap().1.to_owned()
        };
        assert_eq!(shown(&[b"door", b"open\x1b[2K\n"]), r"door open\x1b[2K");
        assert_eq!(shown(&[b"t", &utf16, b"\xff"]), r"t Grüße \xff");
        assert_eq!(shown(&[b"alone"]), "alone");
    }

    #[test]
    fn programs_get_every_byte() {
        let told: Value =
            serde_json::from_str(&json(&[b"t".to_vec(), b"\xff".to_vec(), Vec::new()])).unwrap();
        assert_eq!(told["frames"], serde_json::json!([{"data": "t"}, {"data_base64": "/w=="}, {"data": ""}]));
    }
}
