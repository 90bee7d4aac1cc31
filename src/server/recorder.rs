//! Messages become records, batches, frames of the journal: the same for all channels that log.
//!
//! A channel's thread owns its recorder, gives it whole messages and lets it append when a batch is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hwgate_zmq::{Incoming, Peers};

use super::metrics::{Drop, LogMetrics};
use super::state::Shared;
use crate::Error;
use crate::config::Intake as Limits;
use crate::journal::Header;
use crate::throttle::Throttle;
use crate::util::now;
use crate::wire::{Level, Record, TextRule, text};

/// A batch is appended when it has grown beyond this.
const BATCH_BYTES: usize = 64 << 10;
/// A batch is appended at the latest this long after its first record.
const BATCH_AGE: Duration = Duration::from_millis(2);
/// So many messages taken in a row share one look at the clock.
const SAME_TIME: usize = 16;
/// Of a longer topic the rest is left out of the source: it is in every line, and in names of files.
const SOURCE_BYTES: usize = 1024;
/// How soon after a loss the journal is tried without a message.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How often one kind of trouble is reported.
const REPORT: Duration = Duration::from_secs(60);

/// Makes records of the messages of one channel.
pub(super) struct Recorder {
    shared: Arc<Shared>,
    /// What the channel is called in reports.
    name: String,
    /// The source of messages that name none.
    source: Arc<str>,
    metrics: Arc<LogMetrics>,
    limits: Arc<Limits>,
    batch: Batch,
    peers: Peers,
    /// When the messages at hand came.
    time: i64,
    /// Messages that share this time with the first.
    same_time: usize,
    /// Warnings about dropped messages, by reason.
    throttles: [Throttle; Drop::ALL.len()],
    /// Messages lost since the journal last took one.
    lost: u64,
    /// When the journal last took nothing.
    lost_at: Option<Instant>,
    disk_report: Throttle,
    resume_report: Throttle,
}

/// Records on their way into one frame.
#[derive(Default)]
struct Batch {
    body: Vec<u8>,
    records: u32,
    received: i64,
    begun: Option<Instant>,
    urgent: bool,
}

/// One message: its first two frames, how many it has, and how long they are together.
pub(super) struct Message<'a> {
    pub first: &'a Incoming,
    pub second: &'a Incoming,
    pub count: usize,
    pub bytes: usize,
}

impl Recorder {
    pub fn new(shared: &Arc<Shared>, name: &str, source: &str, metrics: &Arc<LogMetrics>) -> Recorder {
        Recorder {
            limits: shared.intake_limits(),
            shared: shared.clone(),
            name: name.to_owned(),
            source: source.into(),
            metrics: metrics.clone(),
            batch: Batch::default(),
            peers: Peers::default(),
            time: now(),
            same_time: 0,
            throttles: [const { Throttle::every(REPORT) }; Drop::ALL.len()],
            lost: 0,
            lost_at: None,
            disk_report: Throttle::every(REPORT),
            resume_report: Throttle::every(REPORT),
        }
    }

    /// Takes the limits that a reload brought into force.
    pub fn reload(&mut self) {
        self.limits = self.shared.intake_limits();
    }

    /// Tells that the next message was waited for, and so came at a time of its own.
    pub fn waited(&mut self) {
        self.same_time = 0;
    }

    /// Takes a message. The journal gets it by [`Recorder::append_full`] or [`Recorder::append_due`].
    pub fn take(&mut self, message: &Message<'_>) {
        // Reading the clock for each message costs as much as encoding it.
        if self.same_time == 0 {
            self.time = now();
        }
        self.same_time = (self.same_time + 1) % SAME_TIME;
        let Message { first, second, count, bytes } = *message;
        self.metrics.received(bytes);
        let mut peers = std::mem::take(&mut self.peers);
        // Peers without an address are on this machine.
        let host = peers.address(first, "localhost");
        let most = self.limits.max_text;
        if bytes > most {
            let what = format!("{bytes} bytes, the most is {most} ([intake] max_text)");
            self.drop_message(Drop::TooLarge, host, &what);
        } else if count == 1 {
            let source = self.source.clone();
            self.record(host, None, &source, first.bytes());
        } else if count == 2 {
            let (level, source) = topic(first.bytes(), &self.source);
            self.record(host, level, &source, second.bytes());
        } else {
            self.drop_message(Drop::Frames, host, &format!("{count} frames, expected 1 or 2"));
        }
        self.peers = peers;
    }

    /// Hands over a batch that is large enough; to be called after each message.
    pub fn append_full(&mut self) {
        if self.batch.body.len() >= BATCH_BYTES {
            self.append();
        }
    }

    fn record(&mut self, host: &str, level: Option<Level>, source: &str, text: &[u8]) {
        if text.is_empty() {
            return self.drop_message(Drop::Empty, host, "an empty message");
        }
        let rule = text::classify(text, self.limits.encoding);
        self.metrics.text(rule);
        let level = level.or_else(|| leading_level(rule, text)).unwrap_or_default();
        let time = self.time;
        self.batch.add(time, level, &Record { time, level, source, host, pid: None, rule, text, fields: "" });
    }

    fn drop_message(&mut self, reason: Drop, host: &str, what: &str) {
        self.metrics.dropped(reason, 1);
        if let Some(held) = self.throttles[reason as usize].pass() {
            let name = &self.name;
            log::warn!("{name}: message from {host} dropped: {what} ({held} more since the last report)");
        }
    }

    /// Whether a batch is begun, which will be due.
    pub fn has_begun(&self) -> bool {
        self.batch.begun.is_some()
    }

    /// In how long [`Recorder::append_due`] has something to do; none while there is nothing.
    pub fn due_in(&self) -> Option<Duration> {
        let batch = self.batch.begun.map(|begun| BATCH_AGE.saturating_sub(begun.elapsed()));
        batch.or(self.lost_at.map(|at| TRY_AGAIN.saturating_sub(at.elapsed())))
    }

    /// Hands over a batch that is old enough. With nothing but losses to tell it tries the journal now and then: the
    /// state is then right again, and the notice there, without waiting for a message.
    pub fn append_due(&mut self) {
        match self.batch.begun {
            Some(begun) if begun.elapsed() >= BATCH_AGE => self.append(),
            None if self.lost_at.is_some_and(|at| at.elapsed() >= TRY_AGAIN) => self.hand_over(),
            _ => {}
        }
    }

    /// Hands over what there is.
    fn append(&mut self) {
        if self.batch.records > 0 {
            self.hand_over();
        }
    }

    /// Hands over what there is, and the notice of what was lost.
    pub fn finish(&mut self) {
        if self.batch.records > 0 || self.lost > 0 {
            self.hand_over();
        }
    }

    /// Hands the batch to the journal. Plain clients are promised nothing: what the journal cannot take
    /// is dropped and counted, and the first record it takes again tells how many.
    fn hand_over(&mut self) {
        let records = u64::from(self.batch.records);
        let mut batch = std::mem::take(&mut self.batch);
        let notice = (self.lost > 0).then(|| self.put_notice_before(&mut batch));
        match self.shared.journal.append(&batch.header(), &batch.body, batch.urgent) {
            Ok(_) => {
                self.metrics.written(records);
                if let Some(text) = notice {
                    (self.lost, self.lost_at) = (0, None);
                    self.shared.set_degraded(None);
                    if self.resume_report.pass().is_some() {
                        log::warn!("{}: {text}", self.name);
                    }
                }
            }
            Err(error) => self.lose(records, &error),
        }
        self.batch.reuse(batch.body);
    }

    fn lose(&mut self, records: u64, error: &Error) {
        self.metrics.dropped(Drop::DiskFull, records);
        self.shared.lost_records.fetch_add(records, Ordering::Relaxed);
        self.lost += records;
        self.lost_at = Some(Instant::now());
        self.shared.set_degraded(Some(error.to_string()));
        if self.disk_report.pass().is_some() {
            log::error!("{}: messages are being lost, {} so far: {error}", self.name, self.lost);
        }
    }

    /// Adds a warning of the gateway's own.
    pub fn note(&mut self, text: &str) {
        self.metrics.received(text.len());
        self.metrics.text(TextRule::Utf8);
        self.batch.note(&self.shared.name, text);
    }

    /// Tells in the log itself how many messages were lost. In one frame with what follows: by itself so
    /// small a frame would still find room where no batch does, again and again.
    fn put_notice_before(&self, batch: &mut Batch) -> String {
        let mut whole = Batch::default();
        let text = format!("resumed, {} messages lost: the journal could not be written", self.lost);
        whole.note(&self.shared.name, &text);
        whole.body.extend_from_slice(&batch.body);
        whole.records += batch.records;
        whole.urgent = true;
        *batch = whole;
        text
    }

    /// After a panic: what was in the batch is lost, and the message at hand. Tells how many that is.
    pub fn give_up_batch(&mut self) -> u64 {
        self.batch = Batch::default();
        // What was taken is written, dropped, or was in the batch; and there is the message whose handling panicked.
        let lost = self.metrics.taken() - self.metrics.done();
        self.metrics.dropped(Drop::Internal, lost);
        lost
    }
}

impl Batch {
    fn add(&mut self, time: i64, level: Level, record: &Record<'_>) {
        if self.records == 0 {
            self.received = time;
            self.begun = Some(Instant::now());
        }
        record.encode(&mut self.body);
        self.records += 1;
        self.urgent |= level >= Level::Error;
    }

    /// Adds a warning of the gateway that is called `host`.
    fn note(&mut self, host: &str, text: &str) {
        let (time, level, pid) = (now(), Level::Warn, Some(std::process::id()));
        let (source, rule, text) = ("hwgate", TextRule::Utf8, text.as_bytes());
        self.add(time, level, &Record { time, level, source, host, pid, rule, text, fields: "" });
    }

    fn header(&self) -> Header {
        Header { received: self.received, records: self.records, ..Header::default() }
    }

    /// Keeps the memory of an old body.
    fn reuse(&mut self, mut body: Vec<u8>) {
        body.clear();
        self.body = body;
    }
}

/// The level that a text of one frame begins with.
fn leading_level(rule: TextRule, text: &[u8]) -> Option<Level> {
    match rule {
        TextRule::Utf8 | TextRule::Utf8Escaped | TextRule::Bytes => Level::leading(text),
        _ => Level::leading(text::decode(rule, text).text.as_bytes()),
    }
}

/// Level and source from a topic such as `root.WARN.sub`, as pyzmq's PUBHandler sends: a part that names
/// a level sets it, the rest is the source; `unnamed` where there is none.
fn topic(bytes: &[u8], unnamed: &str) -> (Option<Level>, String) {
    let topic = text::decode(text::classify(bytes, None), bytes).text;
    let mut level = None;
    let mut parts = Vec::new();
    for part in topic.split(['.', '/']) {
        match Level::parse(part) {
            Some(found) if level.is_none() => level = Some(found),
            _ if part.is_empty() => {}
            _ => parts.push(part),
        }
    }
    let source = match level {
        _ if parts.is_empty() => unnamed.to_owned(),
        None => topic.trim_end_matches(['.', '/']).to_owned(),
        Some(_) => {
            let separator = if topic.contains('.') { "." } else { "/" };
            parts.join(separator)
        }
    };
    let shown = source.floor_char_boundary(SOURCE_BYTES);
    (level, source[..shown].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_gives_level_and_source() {
        let cases: [(&[u8], Option<Level>, &str); 9] = [
            (b"root.WARN.sub", Some(Level::Warn), "root.sub"),
            (b"root.ERROR", Some(Level::Error), "root"),
            (b"WARNING", Some(Level::Warn), "logs"),
            (b"logTestV1", None, "logTestV1"),
            (b"a/b/", None, "a/b"),
            (b"", None, "logs"),
            (b"kiosk/INFO/door", Some(Level::Info), "kiosk/door"),
            (b"INFO.INFO", Some(Level::Info), "INFO"),
            (b"caf\xe9", None, r"caf\xe9"),
        ];
        for (bytes, level, source) in cases {
            assert_eq!(
                topic(bytes, "logs"),
                (level, source.to_owned()),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_leading_level_is_found_in_utf16_too() {
        let text: Vec<u8> = "ERROR: disk".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let rule = text::classify(&text, None);
        assert_eq!(leading_level(rule, &text), Some(Level::Error));
    }
}
