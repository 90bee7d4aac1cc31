//! `logs`: what plain ZeroMQ clients push becomes records, batches, frames of the journal.
//!
//! One thread owns the PULL socket. It takes messages as long as there are some, fills one batch and
//! appends it when it is full, or two milliseconds after its first record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hwgate_zmq::{Incoming, Peers};

use super::metrics::Drop;
use super::state::{Role, Shared};
use crate::config::Intake as Limits;
use crate::journal::Header;
use crate::throttle::Throttle;
use crate::util::now;
use crate::wake;
use crate::wire::{Level, Record, TextRule, text};
use crate::{Error, Kind, Result};

/// A batch is appended when it has grown beyond this.
const BATCH_BYTES: usize = 64 << 10;
/// A batch is appended at the latest this long after its first record.
const BATCH_AGE: Duration = Duration::from_millis(2);
/// With a batch begun and nothing waiting, the thread sleeps this long before it looks again: waking for
/// each message would cost more than taking it.
const PAUSE_MS: i64 = 1;
/// While stopping, the socket counts as drained when nothing has come for this long.
const DRAINED: Duration = Duration::from_millis(200);
/// Messages taken before other duties have their turn.
const TURN: usize = 4096;
/// So many messages taken in a row share one look at the clock.
const SAME_TIME: usize = 16;
/// Of a longer topic the rest is left out of the source: it is in every line, and in names of files.
const SOURCE_BYTES: usize = 1024;
/// How soon after a loss the journal is tried without a message.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How often one kind of trouble is reported.
const REPORT: Duration = Duration::from_secs(60);

/// Starts the thread; it ends when [`Shared::stop_by`] was called and the socket is drained.
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: &zmq::Context,
    socket: zmq::Socket,
) -> Result<JoinHandle<()>> {
    let (woken, waker) = wake::pair(context)?;
    shared.add_waker(Role::Intake, waker);
    let mut intake = Intake::new(shared.clone(), socket, woken);
    std::thread::Builder::new()
        .name("intake".into())
        .spawn(move || intake.run())
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the intake thread: {error}")))
}

struct Intake {
    shared: Arc<Shared>,
    socket: zmq::Socket,
    woken: zmq::Socket,
    limits: Arc<Limits>,
    batch: Batch,
    /// Received into again and again: first frame, second frame, what is too many.
    frames: [Incoming; 3],
    peers: Peers,
    /// When the messages at hand came.
    time: i64,
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

/// What a message is after its frames were sorted out.
struct Parsed<'a> {
    level: Option<Level>,
    source: std::borrow::Cow<'a, str>,
    text: &'a [u8],
}

impl Intake {
    fn new(shared: Arc<Shared>, socket: zmq::Socket, woken: zmq::Socket) -> Intake {
        Intake {
            limits: shared.intake_limits(),
            shared,
            socket,
            woken,
            batch: Batch::default(),
            frames: Default::default(),
            peers: Peers::default(),
            time: now(),
            throttles: [const { Throttle::every(REPORT) }; Drop::ALL.len()],
            lost: 0,
            lost_at: None,
            disk_report: Throttle::every(REPORT),
            resume_report: Throttle::every(REPORT),
        }
    }

    fn run(&mut self) {
        let mut idle_since = Instant::now();
        loop {
            self.shared.beat(Role::Intake);
            match catch_unwind(AssertUnwindSafe(|| self.take_what_waits())) {
                Ok(0) if self.may_have_room_again() => self.hand_over(),
                Ok(0) => {}
                Ok(_) => idle_since = Instant::now(),
                Err(_) => self.recover_from_panic(),
            }
            if let Some(deadline) = self.shared.stopping()
                && (idle_since.elapsed() >= DRAINED || Instant::now() >= deadline)
            {
                if self.batch.records > 0 || self.lost > 0 {
                    self.hand_over();
                }
                return;
            }
            self.wait();
        }
    }

    /// Waits for a message, for the batch's age, or to be woken.
    fn wait(&mut self) {
        let timeout = match (&self.batch.begun, self.shared.stopping()) {
            (Some(_), _) => PAUSE_MS,
            (None, Some(_)) => 10,
            (None, None) => 1000,
        };
        // With a batch begun only the waker is looked at, see PAUSE_MS.
        let sockets = if self.batch.begun.is_some() { 1 } else { 2 };
        let mut items = [self.woken.as_poll_item(zmq::POLLIN), self.socket.as_poll_item(zmq::POLLIN)];
        let _ = zmq::poll(&mut items[..sockets], timeout);
        if items[0].is_readable() {
            wake::clear(&self.woken);
            self.limits = self.shared.intake_limits();
        }
    }

    /// Takes messages until none waits or others must have their turn; tells how many.
    fn take_what_waits(&mut self) -> usize {
        let mut frames = std::mem::take(&mut self.frames);
        let mut taken = 0;
        while taken < TURN && frames[0].receive(&mut self.socket, zmq::DONTWAIT).is_ok() {
            // Reading the clock for each message costs as much as encoding it.
            if taken % SAME_TIME == 0 {
                self.time = now();
            }
            taken += 1;
            self.take(&mut frames);
            if self.batch.body.len() >= BATCH_BYTES {
                self.append();
            }
        }
        self.frames = frames;
        if self.batch.begun.is_some_and(|begun| begun.elapsed() >= BATCH_AGE) {
            self.append();
        }
        taken
    }

    /// Takes the message whose first frame was received.
    fn take(&mut self, frames: &mut [Incoming; 3]) {
        let [first, second, rest] = frames;
        let head = first.bytes();
        let mut count = 1;
        let mut bytes = head.len();
        let mut more = first.more();
        while more {
            let frame = if count == 1 { &mut *second } else { &mut *rest };
            if frame.receive(&mut self.socket, 0).is_err() {
                break;
            }
            count += 1;
            bytes += frame.bytes().len();
            more = frame.more();
        }
        self.shared.intake.received(bytes);
        let mut peers = std::mem::take(&mut self.peers);
        // Peers over ipc have no address; they are on this machine.
        let host = peers.address(first, "localhost");
        if bytes > self.limits.max_text {
            let most = self.limits.max_text;
            self.drop_message(
                Drop::TooLarge,
                host,
                &format!("{bytes} bytes, the most is {most} ([intake] max_text)"),
            );
            self.peers = peers;
            return;
        }
        match count {
            1 => self.record(host, Parsed { level: None, source: "logs".into(), text: head }),
            2 => {
                let (level, source) = topic(head);
                self.record(host, Parsed { level, source: source.into(), text: second.bytes() });
            }
            _ => self.drop_message(Drop::Frames, host, &format!("{count} frames, expected 1 or 2")),
        }
        self.peers = peers;
    }

    fn record(&mut self, host: &str, parsed: Parsed<'_>) {
        let text = parsed.text;
        if text.is_empty() {
            return self.drop_message(Drop::Empty, host, "an empty message");
        }
        let rule = text::classify(text, self.limits.encoding);
        self.shared.intake.text(rule);
        let level = parsed.level.or_else(|| leading_level(rule, text)).unwrap_or_default();
        let time = self.time;
        self.batch.add(
            time,
            level,
            &Record { time, level, source: &parsed.source, host, pid: None, rule, text, fields: "" },
        );
    }

    fn drop_message(&mut self, reason: Drop, host: &str, what: &str) {
        self.shared.intake.dropped(reason, 1);
        if let Some(held) = self.throttles[reason as usize].pass() {
            log::warn!("logs: message from {host} dropped: {what} ({held} more since the last report)");
        }
    }

    fn append(&mut self) {
        if self.batch.records > 0 {
            self.hand_over();
        }
    }

    /// Whether to try, with nothing to write but the notice: the state is then right again, and the notice
    /// there, without waiting for a message. Not while messages are being lost, see `put_notice_before`.
    fn may_have_room_again(&self) -> bool {
        self.batch.records == 0 && self.lost_at.is_some_and(|at| at.elapsed() >= TRY_AGAIN)
    }

    /// Hands the batch to the journal. Plain clients are promised nothing: what the journal cannot take
    /// is dropped and counted, and the first record it takes again tells how many.
    fn hand_over(&mut self) {
        let records = u64::from(self.batch.records);
        let mut batch = std::mem::take(&mut self.batch);
        let notice = (self.lost > 0).then(|| self.put_notice_before(&mut batch));
        match self.shared.journal.append(&batch.header(), &batch.body, batch.urgent) {
            Ok(_) => {
                self.shared.intake.written(records);
                if let Some(text) = notice {
                    (self.lost, self.lost_at) = (0, None);
                    self.shared.set_degraded(None);
                    if self.resume_report.pass().is_some() {
                        log::warn!("logs: {text}");
                    }
                }
            }
            Err(error) => self.lose(records, &error),
        }
        self.batch.reuse(batch.body);
    }

    fn lose(&mut self, records: u64, error: &Error) {
        self.shared.intake.dropped(Drop::DiskFull, records);
        self.lost += records;
        self.lost_at = Some(Instant::now());
        self.shared.set_degraded(Some(error.to_string()));
        if self.disk_report.pass().is_some() {
            log::error!("logs: messages are being lost, {} so far: {error}", self.lost);
        }
    }

    /// Tells in the log itself how many messages were lost. In one frame with what follows: by itself so
    /// small a frame would still find room where no batch does, again and again.
    fn put_notice_before(&self, batch: &mut Batch) -> String {
        let time = now();
        let mut whole = Batch::default();
        let text = format!("resumed, {} messages lost: the journal could not be written", self.lost);
        whole.add(
            time,
            Level::Warn,
            &Record {
                time,
                level: Level::Warn,
                source: "hwgate",
                host: &self.shared.name,
                pid: Some(std::process::id()),
                rule: TextRule::Utf8,
                text: text.as_bytes(),
                fields: "",
            },
        );
        whole.body.extend_from_slice(&batch.body);
        whole.records += batch.records;
        whole.urgent = true;
        *batch = whole;
        text
    }

    /// A message whose handling panics is a defect; the others must not suffer for it.
    fn recover_from_panic(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.shared.intake.dropped(Drop::Internal, u64::from(batch.records) + 1);
        log::error!("logs: a defect: handling a message panicked; {} messages dropped", batch.records + 1);
        // Frames of a message that was not read to its end.
        let mut rest = Incoming::new();
        while self.socket.get_rcvmore().unwrap_or(false)
            && rest.receive(&mut self.socket, zmq::DONTWAIT).is_ok()
        {}
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
/// a level sets it, the rest is the source.
fn topic(bytes: &[u8]) -> (Option<Level>, String) {
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
        _ if parts.is_empty() => "logs".to_owned(),
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
            assert_eq!(topic(bytes), (level, source.to_owned()), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_leading_level_is_found_in_utf16_too() {
        let text: Vec<u8> = "ERROR: disk".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let rule = text::classify(&text, None);
        assert_eq!(leading_level(rule, &text), Some(Level::Error));
    }
}
