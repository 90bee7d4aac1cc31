//! `hwgate push`: log one line, or each line of standard input.

use std::io::{self, BufRead, Read};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use serde_json::Value;

use crate::cli::exit::{FAILED, Failure, UNAVAILABLE};
use crate::cli::output::complain;
use crate::cli::{CONNECT, REPLY, Target};
use crate::client::Pusher;
use crate::error::{Error, Kind, Result};
use crate::wire::{Endpoint, Level};

/// Log one line, or each line of standard input.
#[derive(Debug, clap::Args)]
pub struct Push {
    /// The line; words are joined by spaces. Without any, each line of standard input is logged
    text: Vec<String>,
    /// trace, debug, info, warn, error, critical or a common other name
    #[arg(long, value_parser = level)]
    level: Option<Level>,
    /// Which program logs
    #[arg(long, env = "HWGATE_SOURCE")]
    source: Option<String>,
    /// The plain log port [default: what the gateway at --url says]
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "url")]
    endpoint: Option<String>,
}

fn level(text: &str) -> std::result::Result<Level, String> {
    Level::parse(text).ok_or_else(|| "use trace, debug, info, warn, error or critical".to_owned())
}

/// How long the end may take, and how long the gateway may take nothing.
const CLOSE: Duration = Duration::from_secs(2);
/// Lines read ahead while the gateway is not yet found or slow.
const AHEAD: usize = 10_000;
/// The longest line taken; the gateway cuts a peer that sends more.
const LINE_MAX: usize = 16 << 20;

/// Where to push, and the longest text that is taken there.
struct Place {
    endpoint: Endpoint,
    max_text: usize,
}

impl Push {
    /// Sends everything; each message that could not be sent is said on standard error.
    pub fn run(&self, target: &Target) -> std::result::Result<(), Failure> {
        let lines = self.lines();
        let connected =
            self.place(target).and_then(|place| Ok((Pusher::connect(&place.endpoint, CONNECT)?, place)));
        let (mut pusher, place) = match connected {
            Ok(connected) => connected,
            Err(error) if error.kind() == Kind::NotConnected => {
                return Err(self.undelivered(target, &lines, &error));
            }
            Err(error) => return Err(error.into()),
        };
        let (mut too_large, mut lost) = (0_u64, 0_u64);
        for line in &lines {
            let line = line?;
            if line.len() > place.max_text {
                too_large += 1;
                continue;
            }
            let topic = self.topic(&line);
            match pusher.push(topic.as_ref().map(|topic| topic.as_bytes()), &line, CLOSE) {
                Ok(()) => {}
                Err(error) if error.kind() == Kind::Timeout => {
                    // The gateway takes nothing: what follows would wait as long, each.
                    lost = 1 + lines.try_iter().count() as u64;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let closed = pusher.close(if lost > 0 { Duration::from_millis(1) } else { CLOSE });
        if lost > 0 {
            return Err(Failure::new(UNAVAILABLE, not_delivered(lost, &place.endpoint.to_string())));
        }
        closed?;
        if too_large > 0 {
            let text = format!(
                "{} (TOO_LARGE: above {} bytes)",
                not_delivered(too_large, &place.endpoint.to_string()),
                place.max_text
            );
            return Err(Failure::new(FAILED, text));
        }
        Ok(())
    }

    /// The lines to log, without their ends; empty ones say nothing and are left out.
    fn lines(&self) -> Receiver<Result<Vec<u8>>> {
        let (sender, receiver) = bounded(AHEAD);
        if !self.text.is_empty() {
            let _ = sender.send(Ok(self.text.join(" ").into_bytes()));
            return receiver;
        }
        // A thread of its own, so that a pipe that stays open does not hold back the news that nobody listens.
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            loop {
                match read_line(&mut input) {
                    Ok(None) => return,
                    Ok(Some(line)) if line.is_empty() => {}
                    line => {
                        let failed = line.is_err();
                        if sender.send(line.map(Option::unwrap_or_default)).is_err() || failed {
                            return;
                        }
                    }
                }
            }
        });
        receiver
    }

    /// The plain log port: as given, else as the gateway says.
    fn place(&self, target: &Target) -> Result<Place> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(Place { endpoint: Endpoint::connect(endpoint)?, max_text: LINE_MAX });
        }
        let mut requester = target.connect()?;
        let hello = requester.request("hello", &Value::Null, REPLY)?;
        let Some(logs) = hello["endpoints"]["logs"].as_str().filter(|logs| *logs != "off") else {
            let text =
                format!("the gateway at {} takes no plain logs: [endpoints] logs is off", requester.url());
            return Err(Error::new(Kind::NotEnabled, text));
        };
        let endpoint = Endpoint::bind(logs)?.seen_from(requester.url());
        let max_text = hello["limits"]["max_text"].as_u64().map_or(LINE_MAX, |limit| limit as usize);
        Ok(Place { endpoint, max_text })
    }

    /// The first frame of `[topic, text]`: the level, then the source. The level comes first and always, so
    /// that a source which happens to be the name of a level is not taken for one.
    fn topic(&self, line: &[u8]) -> Option<String> {
        let level = || self.level.or_else(|| Level::leading(line)).unwrap_or_default().name().to_uppercase();
        match &self.source {
            Some(source) if !source.is_empty() => Some(format!("{}.{source}", level())),
            _ => self.level.map(|_| level()),
        }
    }

    /// Nobody listens: says how many lines that concerns, as far as they have come.
    fn undelivered(&self, target: &Target, lines: &Receiver<Result<Vec<u8>>>, error: &Error) -> Failure {
        let count = lines.try_iter().filter(Result::is_ok).count() as u64;
        let ended = lines.try_recv() == Err(crossbeam_channel::TryRecvError::Disconnected);
        let place = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => crate::client::url(target.url.as_deref()).map_or(String::new(), |url| url.to_string()),
        };
        complain(&not_delivered(count, &place));
        if !ended && self.text.is_empty() {
            complain("nor was the rest of standard input");
        }
        Failure::new(UNAVAILABLE, error.to_string())
    }
}

fn not_delivered(count: u64, place: &str) -> String {
    format!("{count} log message{} not delivered to {place}", if count == 1 { "" } else { "s" })
}

/// A line of bytes without its end; none at the end of the input. Memory is bounded: TOO_LARGE.
fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = input
        .take(LINE_MAX as u64 + 2)
        .read_until(b'\n', &mut line)
        .map_err(|error| Error::io("standard input", &error))?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if line.len() > LINE_MAX {
        return Err(Error::new(
            Kind::TooLarge,
            format!("standard input: a line of more than {LINE_MAX} bytes"),
        ));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(level: Option<Level>, source: Option<&str>, line: &str) -> Option<String> {
        let push = Push { text: vec![], level, source: source.map(str::to_owned), endpoint: None };
        push.topic(line.as_bytes())
    }

    #[test]
    fn the_level_leads_the_topic() {
        assert_eq!(topic(None, None, "x"), None);
        assert_eq!(topic(Some(Level::Warn), None, "x").as_deref(), Some("WARN"));
        assert_eq!(topic(None, Some("error.handler"), "x").as_deref(), Some("INFO.error.handler"));
        assert_eq!(topic(None, Some("u"), "ERROR x").as_deref(), Some("ERROR.u"));
    }

    #[test]
    fn lines_lose_their_ends_only() {
        let mut input = &b"a\r\n\r\nb\rc\n\xff"[..];
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, [&b"a"[..], b"", b"b\rc", b"\xff"]);
        assert_eq!(not_delivered(1, "x"), "1 log message not delivered to x");
    }
}
