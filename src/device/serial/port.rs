//! One port: a thread that owns it, takes commands, what is read and what time brings, one after another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select};
use serde_json::{Value, json};

use super::framing::{Frame, Framer};
use super::link::{self, InUse, Opened, Read};
use super::status::{Shared, State};
use super::work::{Job, Jobs, Turn, Written};
use crate::config::serial::SerialConfig;
use crate::device::Reply;
use crate::device::lease::{Change, Claim, Lease};
use crate::events::Hub;
use crate::util::guard;
use crate::wire::event::Fields;
use crate::{Error, Kind, Result};

/// Commands that may wait for the thread.
const COMMANDS: usize = 4096;
/// How soon a port that is gone is looked for: first, and at last.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_AT_LAST: Duration = Duration::from_secs(2);
/// The longest the thread sleeps.
const SLEEP: Duration = Duration::from_secs(1);
/// The most that is injected at once, in bytes.
const INJECT: usize = 1 << 20;

/// What a port's thread is told.
pub(super) enum Command {
    Do(Job),
    /// Tells the lines.
    Lines(Reply),
    Inject(Vec<u8>, Reply),
    Claim(Claim),
    Renew {
        token: String,
        ttl: Duration,
        reply: Reply,
    },
    Release {
        token: String,
        reply: Reply,
    },
    Close {
        lease: Option<String>,
        reply: Reply,
    },
    /// Without asking for a lease; whoever waits gets this error.
    End(Error),
}

impl Command {
    fn refuse(self, shared: &Shared, error: Error) {
        let reply = match self {
            Command::Do(job) => {
                shared.free(job.bytes());
                job.reply
            }
            Command::Claim(claim) => claim.reply,
            Command::Lines(reply)
            | Command::Inject(_, reply)
            | Command::Renew { reply, .. }
            | Command::Release { reply, .. }
            | Command::Close { reply, .. } => reply,
            Command::End(_) => return,
        };
        reply.answer(Err(error));
    }
}

/// The others' side of a port.
pub(super) struct Port {
    pub shared: Arc<Shared>,
    commands: Sender<Command>,
    /// The thread takes nothing more. Held while a command is handed in, so that none is forgotten.
    ended: Arc<Mutex<bool>>,
    /// Closed by the end of the thread.
    gone: Receiver<()>,
}

impl Port {
    /// Starts the thread, which opens the port. With a reply it answers there and ends if that fails; without one it
    /// tries until it is told to end.
    pub fn start(
        config: SerialConfig,
        hub: &Arc<Hub>,
        devices: &Arc<InUse>,
        opened: Option<Reply>,
    ) -> Result<Port> {
        let shared = Arc::new(Shared::new(config.clone(), opened.is_none()));
        let (commands, inbox) = bounded(COMMANDS);
        let (alive, gone) = bounded(0);
        let ended = Arc::new(Mutex::new(false));
        let mut owner = Owner {
            topics: Topics::new(&config.id),
            framer: Framer::new(&config.framing),
            shared: shared.clone(),
            hub: hub.clone(),
            devices: devices.clone(),
            commands: inbox,
            ended: ended.clone(),
            config,
            open: None,
            frames: Vec::new(),
            last_byte: Instant::now(),
            jobs: Jobs::default(),
            lease: Lease::default(),
            retry: None,
        };
        let id = shared.id.clone();
        std::thread::Builder::new()
            .name(format!("serial-{id}"))
            .spawn(move || {
                let _alive = alive;
                if catch_unwind(AssertUnwindSafe(|| owner.run(opened))).is_err() {
                    log::error!("serial {id}: a defect: its thread panicked; the port is closed");
                    owner.end(&Error::new(Kind::Internal, "a defect in the gateway; see its log"));
                }
            })
            .map_err(|error| Error::new(Kind::Internal, format!("cannot start a thread: {error}")))?;
        Ok(Port { shared, commands, ended, gone })
    }

    /// Hands in a command; where that cannot be, it is answered at once.
    pub fn tell(&self, command: Command) {
        let ended = guard(&self.ended);
        if *ended {
            return command.refuse(&self.shared, Error::new(Kind::Closed, "the port was closed"));
        }
        match self.commands.try_send(command) {
            Ok(()) => {}
            Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) => {
                let text = format!("{COMMANDS} requests wait for {}; try again later", self.shared.id);
                command.refuse(&self.shared, Error::new(Kind::QueueFull, text));
            }
        }
    }

    /// Tells the thread to end, even if it is behind.
    pub fn end(&self, error: &Error) {
        let _ = self.commands.send_timeout(Command::End(error.clone()), SLEEP);
    }

    /// Whether the thread has ended, or is about to.
    pub fn ended(&self) -> bool {
        *guard(&self.ended)
    }

    /// Disconnected by the end of the thread, when the port is closed.
    pub fn gone(&self) -> Receiver<()> {
        self.gone.clone()
    }
}

struct Topics {
    rx: String,
    tx: String,
    raw: String,
    state: String,
    lease: String,
}

impl Topics {
    fn new(id: &str) -> Topics {
        let topic = |kind| format!("serial/{id}/{kind}/");
        Topics {
            rx: topic("rx"),
            tx: topic("tx"),
            raw: topic("raw"),
            state: topic("state"),
            lease: topic("lease"),
        }
    }
}

/// The thread's side.
struct Owner {
    shared: Arc<Shared>,
    topics: Topics,
    hub: Arc<Hub>,
    devices: Arc<InUse>,
    commands: Receiver<Command>,
    ended: Arc<Mutex<bool>>,
    config: SerialConfig,
    open: Option<Opened>,
    framer: Framer,
    frames: Vec<Frame>,
    last_byte: Instant,
    jobs: Jobs,
    lease: Lease,
    /// When to look for the port again, and how long after that.
    retry: Option<(Instant, Duration)>,
}

impl Owner {
    fn run(&mut self, opened: Option<Reply>) {
        match (link::open(&self.config, &self.devices), opened) {
            (Ok(open), reply) => {
                self.attach(open);
                if let Some(reply) = reply {
                    let mut answer = self.shared.to_json();
                    answer.insert("already".to_owned(), false.into());
                    reply.answer(Ok(answer.into()));
                }
            }
            (Err(error), None) => self.unavailable(error.message()),
            (Err(error), Some(reply)) => {
                reply.answer(Err(error));
                return self.end(&Error::new(Kind::Closed, "the port was not opened"));
            }
        }
        while self.turn() {}
    }

    /// Takes what comes next; whether to go on.
    fn turn(&mut self) -> bool {
        let wait = self.wait(Instant::now());
        let closed = never();
        let reads = self.open.as_ref().map_or(&closed, |open| &open.reads);
        select! {
            recv(self.commands) -> command => match command {
                Ok(command) => if !self.command(command) { return false },
                Err(_) => {
                    self.end(&Error::new(Kind::Closed, "the port was closed"));
                    return false;
                }
            },
            recv(reads) -> read => self.read(read.unwrap_or_else(|_| Read::Lost("reading ended".to_owned()))),
            default(wait) => {}
        }
        self.tick(Instant::now());
        self.work();
        true
    }

    /// How long nothing is due.
    fn wait(&self, now: Instant) -> Duration {
        if self.open.is_some() && (self.jobs.writing() || self.jobs.begins()) {
            return Duration::ZERO;
        }
        let due =
            [self.frame_due(), self.jobs.deadline(), self.lease.deadline(), self.retry.map(|(at, _)| at)];
        let first = due.into_iter().flatten().min();
        first.map_or(SLEEP, |at| at.saturating_duration_since(now).min(SLEEP))
    }

    /// When what there is of a frame becomes one.
    fn frame_due(&self) -> Option<Instant> {
        self.framer.timeout().map(|timeout| self.last_byte + timeout)
    }

    /// Does what time brings.
    fn tick(&mut self, now: Instant) {
        // What has come and waits may be the rest of the frame.
        let waits = self.open.as_ref().is_some_and(|open| !open.reads.is_empty());
        if !waits && self.frame_due().is_some_and(|at| at <= now) {
            self.flush_frame();
        }
        self.jobs.tick(now, self.open.as_mut().map(|open| &mut *open.link), &self.shared);
        let changes = self.lease.tick(now);
        self.lease_changed(&changes);
        if let Some((at, delay)) = self.retry
            && at <= now
        {
            match link::open(&self.config, &self.devices) {
                Ok(open) => self.attach(open),
                Err(error) => {
                    self.retry = Some((Instant::now() + delay, (delay * 2).min(RETRY_AT_LAST)));
                    self.still_unavailable(error.message());
                }
            }
        }
    }

    fn work(&mut self) {
        self.publish_written(true);
        if self.jobs.begins() {
            // What came before a transaction is no answer to it.
            self.read_what_waits();
        }
        let Some(open) = &mut self.open else {
            let reason = self.shared.status(|now| now.reason.clone()).unwrap_or_default();
            let text = format!("{} is not open: {reason}", self.shared.id);
            return self.jobs.end(&self.shared, Kind::Disconnected, &text);
        };
        let before = self.config.line.clone();
        let turn = self.jobs.turn(&mut *open.link, &mut self.config.line, &self.shared);
        if self.config.line != before {
            let config = self.config.clone();
            self.shared.status(|now| now.config = config);
        }
        self.publish_written(false);
        if let Turn::Lost(reason) = turn {
            self.lost(&reason);
        }
    }

    /// Takes one command; whether to go on.
    fn command(&mut self, command: Command) -> bool {
        let now = Instant::now();
        match command {
            Command::Do(mut job) => match self.lease.check(job.lease.as_deref()) {
                Ok(owner) => {
                    if let Some(owner) = owner.filter(|owner| !owner.is_empty()) {
                        owner.clone_into(&mut job.by);
                    }
                    self.jobs.push(job);
                }
                Err(error) => Command::Do(job).refuse(&self.shared, error),
            },
            Command::Lines(reply) => reply.answer(match &mut self.open {
                Some(open) => open.link.lines(),
                None => Err(Error::new(Kind::Disconnected, format!("{} is not open", self.shared.id))),
            }),
            Command::Inject(data, reply) => reply.answer(self.inject(&data)),
            Command::Claim(claim) => {
                let change = self.lease.claim(claim, now);
                self.lease_changed(&[change]);
            }
            Command::Renew { token, ttl, reply } => {
                reply.answer(self.lease.renew(&token, ttl, now));
                self.lease_changed(&[]);
            }
            Command::Release { token, reply } => match self.lease.release(&token, now) {
                Ok(changes) => {
                    self.lease_changed(&changes);
                    reply.answer(Ok(json!({})));
                }
                Err(error) => reply.answer(Err(error)),
            },
            Command::Close { lease, reply } => match self.lease.check(lease.as_deref()) {
                Ok(_) => {
                    self.end(&Error::new(Kind::Closed, "the port was closed"));
                    reply.answer(Ok(json!({})));
                    return false;
                }
                Err(error) => reply.answer(Err(error)),
            },
            Command::End(error) => {
                self.end(&error);
                return false;
            }
        }
        true
    }

    fn inject(&mut self, data: &[u8]) -> Result<Value> {
        if !self.open.as_ref().is_some_and(|open| open.link.is_sim()) {
            let text =
                format!("{} is a real port; only those with path = \"sim:loop\" take it", self.shared.id);
            return Err(Error::new(Kind::InvalidArgument, text));
        }
        if data.len() > INJECT {
            let text = format!("{} bytes are more than {INJECT} at once; send them in parts", data.len());
            return Err(Error::new(Kind::TooLarge, text));
        }
        // What was written before comes first.
        self.read_what_waits();
        self.heard(Instant::now(), data);
        Ok(json!({"injected": data.len()}))
    }

    fn read_what_waits(&mut self) {
        // Bounded: a device that never stops must not keep others waiting.
        for _ in 0..link::READS {
            let Some(read) = self.open.as_ref().and_then(|open| open.reads.try_recv().ok()) else { return };
            self.read(read);
        }
    }

    fn read(&mut self, read: Read) {
        match read {
            Read::Bytes(at, bytes) => self.heard(at, &bytes),
            Read::Lost(reason) => self.lost(&reason),
        }
    }

    /// Bytes have come.
    fn heard(&mut self, at: Instant, bytes: &[u8]) {
        // What was written caused it, perhaps.
        self.publish_written(true);
        if self.frame_due().is_some_and(|due| due <= at) {
            self.flush_frame();
        }
        if self.hub.heard.by_name(&self.topics.raw) {
            self.hub.publish(&self.topics.raw, &Fields::none(), bytes);
        }
        let mut frames = std::mem::take(&mut self.frames);
        self.framer.push(bytes, &mut frames);
        self.last_byte = at;
        let (count, truncated) = (frames.len() as u64, frames.iter().filter(|frame| frame.truncated).count());
        let skipped = self.framer.skipped();
        self.shared.status(|now| {
            now.counts.rx_bytes += bytes.len() as u64;
            now.counts.rx_frames += count;
            now.counts.truncated += truncated as u64;
            now.counts.skipped_bytes = skipped;
        });
        frames.drain(..).for_each(|frame| self.publish_frame(frame));
        self.frames = frames;
    }

    fn flush_frame(&mut self) {
        let Some(frame) = self.framer.flush() else { return };
        let skipped = self.framer.skipped();
        self.shared.status(|now| {
            now.counts.rx_frames += 1;
            now.counts.truncated += u64::from(frame.truncated);
            now.counts.partial += u64::from(frame.partial);
            now.counts.skipped_bytes = skipped;
        });
        self.publish_frame(frame);
    }

    fn publish_frame(&mut self, frame: Frame) {
        let mut fields = Fields::none();
        for (name, on) in [("truncated", frame.truncated), ("partial", frame.partial)] {
            if on {
                fields = fields.with(name, true);
            }
        }
        self.jobs.offer(&frame, &self.shared);
        self.hub.publish(&self.topics.rx, &fields, frame.bytes);
    }

    fn publish_written(&mut self, all: bool) {
        while let Some(Written { bytes, by }) = self.jobs.written(all) {
            let fields = if by.is_empty() { Fields::none() } else { Fields::none().with("by", by) };
            self.shared.status(|now| now.counts.tx_bytes += bytes.len() as u64);
            self.hub.publish(&self.topics.tx, &fields, bytes);
        }
    }

    fn lease_changed(&mut self, changes: &[Change]) {
        let known = self.lease.known();
        self.shared.status(|now| now.lease = known);
        for change in changes {
            let (action, owner, by) = match change {
                Change::Claimed { owner } => ("claimed", owner, None),
                Change::Released { owner } => ("released", owner, None),
                Change::Expired { owner } => ("expired", owner, None),
                Change::Asked { owner, by } => ("asked", owner, Some(by)),
            };
            if matches!(change, Change::Released { .. } | Change::Expired { .. }) {
                self.jobs.end_leased(&self.shared);
            }
            let mut fields = Fields::none().with("action", action).with("owner", owner);
            if let Some(by) = by {
                fields = fields.with("by", by);
            }
            self.hub.publish(&self.topics.lease, &fields, action);
        }
    }

    /// The port is open.
    fn attach(&mut self, open: Opened) {
        self.framer = Framer::new(&self.config.framing);
        self.retry = None;
        let device = open.device.clone();
        self.open = Some(open);
        self.shared.status(|now| {
            now.state = State::Open;
            now.reason = None;
            now.device = device;
            now.counts.opens += 1;
        });
        log::info!("serial {}: {} is open", self.shared.id, self.config.port);
        self.publish_state();
    }

    /// The port was open and is gone.
    fn lost(&mut self, reason: &str) {
        self.open = None;
        self.flush_frame();
        self.publish_written(true);
        self.jobs.end(&self.shared, Kind::Disconnected, &format!("{}: {reason}", self.config.port));
        self.retry = Some((Instant::now() + RETRY, RETRY * 2));
        log::warn!(
            "serial {}: {}: {reason}; it is opened again as soon as it is there",
            self.shared.id,
            self.config.port
        );
        self.shared.status(|now| now.counts.losses += 1);
        self.not_open(State::Lost, reason);
    }

    /// A declared port cannot be opened.
    fn unavailable(&mut self, reason: &str) {
        self.retry = Some((Instant::now() + RETRY, RETRY * 2));
        log::warn!("serial {}: {reason}; trying again", self.shared.id);
        self.not_open(State::Failed, reason);
    }

    /// It still cannot be opened, perhaps for another reason.
    fn still_unavailable(&mut self, reason: &str) {
        let (state, before) = self.shared.status(|now| (now.state, now.reason.clone()));
        if before.as_deref() != Some(reason) {
            log::warn!("serial {}: {reason}; trying again", self.shared.id);
            self.not_open(state, reason);
        }
    }

    fn not_open(&self, state: State, reason: &str) {
        self.shared.status(|now| {
            now.state = state;
            now.reason = Some(reason.to_owned());
            now.device = None;
        });
        self.publish_state();
    }

    fn publish_state(&self) {
        let now = self.shared.status(|now| now.clone());
        let mut fields = Fields::none().with("state", now.state.name());
        if let Some(reason) = &now.reason {
            fields = fields.with("reason", reason);
        }
        if let Some(device) = &now.device {
            fields = fields.with("device", device);
        }
        let port = now.config.port.to_json();
        for (name, value) in port.as_object().into_iter().flatten() {
            fields = fields.with(name, value);
        }
        fields = fields.with("settings", now.config.to_json());
        self.hub.publish(&self.topics.state, &fields, now.state.name());
    }

    /// Closes the port for good and answers all who wait with `error`.
    fn end(&mut self, error: &Error) {
        self.flush_frame();
        self.publish_written(true);
        self.jobs.end(&self.shared, error.kind(), error.message());
        self.lease.end(error);
        // Nothing is handed in any more after this.
        *guard(&self.ended) = true;
        for command in self.commands.try_iter() {
            command.refuse(&self.shared, error.clone());
        }
        self.open = None;
        if self.shared.status(|now| now.state) != State::Opening {
            self.not_open(State::Closed, error.message());
        }
    }
}
