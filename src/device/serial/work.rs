//! What a port is asked to do, one after another: writes, transactions, settings, lines, breaks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::framing::Frame;
use super::link::Link;
use super::status::Shared;
use super::{Expect, Lines};
use crate::config::serial::LineSettings;
use crate::device::Reply;
use crate::wire::data;
use crate::{Error, Kind, Result};

/// Written bytes are published in events of at most this.
pub(super) const TX_EVENT: usize = 65_536;

/// One thing to do.
pub(super) struct Job {
    pub work: Work,
    /// The lease it is done under.
    pub lease: Option<String>,
    /// Who asked, for those who hear what is written.
    pub by: String,
    pub timeout: Duration,
    pub deadline: Instant,
    pub reply: Reply,
}

pub(super) enum Work {
    Write(Vec<u8>),
    Transact(Vec<u8>, Expect),
    Set(Map<String, Value>),
    Lines(Lines),
    Break(Duration),
}

impl Job {
    pub fn new(work: Work, lease: Option<String>, by: String, timeout: Duration, reply: Reply) -> Job {
        Job { work, lease, by, timeout, deadline: Instant::now() + timeout, reply }
    }

    fn data(&self) -> &[u8] {
        match &self.work {
            Work::Write(data) | Work::Transact(data, _) => data,
            _ => &[],
        }
    }

    /// The bytes it takes in the queue.
    pub fn bytes(&self) -> usize {
        self.data().len()
    }

    /// The error, with how much was written where something was to be.
    fn error(&self, kind: Kind, written: usize, text: &str) -> Error {
        let error = |text: String| Error::new(kind, text);
        match &self.work {
            Work::Write(data) | Work::Transact(data, _) => {
                error(format!("{written} of {} bytes written; {text}", data.len())).with("written", written)
            }
            _ => error(text.to_owned()),
        }
    }
}

/// The queue of a port.
#[derive(Default)]
pub(super) struct Jobs {
    queue: VecDeque<Job>,
    running: Option<Running>,
    /// Written and not published yet, by whom.
    tx: Vec<u8>,
    by: String,
}

struct Running {
    job: Job,
    written: usize,
    stage: Stage,
}

enum Stage {
    Writing,
    /// For a frame; so many did not fit.
    Waiting(u64),
    Breaking(Instant),
}

/// What became of a turn.
pub(super) enum Turn {
    /// Nothing more to do now.
    Idle,
    /// More can be written at once.
    More,
    /// The device failed.
    Lost(String),
}

/// Bytes to be published, and who wrote them.
pub(super) struct Written {
    pub bytes: Vec<u8>,
    pub by: String,
}

impl Jobs {
    pub fn push(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// When something is due even if nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        let running = self.running.as_ref().map(|running| match running.stage {
            Stage::Breaking(until) => until,
            _ => running.job.deadline,
        });
        self.queue.iter().map(|job| job.deadline).chain(running).min()
    }

    /// Whether a write is going on, so that nobody should sleep.
    pub fn writing(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.stage, Stage::Writing))
    }

    /// Whether the next job begins with the next turn.
    pub fn begins(&self) -> bool {
        self.running.is_none() && !self.queue.is_empty()
    }

    /// Does some of what there is to do; waits at most for one slice of a write.
    pub fn turn(&mut self, link: &mut dyn Link, line: &mut LineSettings, shared: &Shared) -> Turn {
        if self.running.is_none() {
            let Some(job) = self.queue.pop_front() else { return Turn::Idle };
            self.start(job, link, line, shared);
        }
        let Some(running) = &mut self.running else { return Turn::More };
        if !matches!(running.stage, Stage::Writing) {
            return Turn::Idle;
        }
        let rest = &running.job.data()[running.written..];
        if !rest.is_empty() {
            match link.write(rest) {
                Ok(count) => {
                    self.tx.extend_from_slice(&rest[..count]);
                    running.written += count;
                }
                Err(error) => return Turn::Lost(format!("writing failed: {error}")),
            }
        }
        if running.written == running.job.bytes() {
            if let Work::Transact(..) = running.job.work {
                running.stage = Stage::Waiting(0);
                return Turn::Idle;
            }
            self.finish(shared, |_, written| Ok(json!({"written": written})));
        }
        Turn::More
    }

    /// Begins a job; what takes no time is done at once.
    fn start(&mut self, mut job: Job, link: &mut dyn Link, line: &mut LineSettings, shared: &Shared) {
        let stage = match &mut job.work {
            Work::Write(_) | Work::Transact(..) => Ok(Stage::Writing),
            Work::Set(settings) => Err(set(settings, link, line)),
            Work::Lines(lines) => Err(link.set_lines(*lines).and_then(|()| link.lines())),
            Work::Break(length) => match link.set_break(true) {
                Ok(()) => Ok(Stage::Breaking(Instant::now() + *length)),
                Err(error) => Err(Err(error)),
            },
        };
        match stage {
            Ok(stage) => {
                self.by.clone_from(&job.by);
                self.running = Some(Running { job, written: 0, stage });
            }
            Err(done) => {
                shared.free(job.bytes());
                job.reply.answer(done);
            }
        }
    }

    /// Answers the running job.
    fn finish(&mut self, shared: &Shared, answer: impl FnOnce(&Job, usize) -> Result<Value>) {
        let Some(Running { job, written, .. }) = self.running.take() else { return };
        shared.free(job.bytes());
        let answer = answer(&job, written);
        job.reply.answer(answer);
    }

    /// Shows a frame that was read to the transaction that waits for one.
    pub fn offer(&mut self, frame: &Frame, shared: &Shared) {
        let Some(Running { job, stage, .. }) = &mut self.running else { return };
        let (Work::Transact(_, expect), Stage::Writing | Stage::Waiting(_)) = (&job.work, &*stage) else {
            return;
        };
        match fits(expect, frame) {
            Some(answer) => self.finish(shared, |_, written| {
                let mut answer = answer;
                answer.insert("written".to_owned(), written.into());
                Ok(answer.into())
            }),
            None => {
                if let Stage::Waiting(others) = stage {
                    *others += 1;
                }
            }
        }
    }

    /// Ends what is over: breaks, and jobs whose time has passed.
    pub fn tick(&mut self, now: Instant, link: Option<&mut (dyn Link + 'static)>, shared: &Shared) {
        match &self.running {
            Some(Running { stage: Stage::Breaking(until), .. }) if *until <= now => {
                let ended = link.map_or(Ok(()), |link| link.set_break(false));
                self.finish(shared, |_, _| ended.map(|()| json!({})));
            }
            Some(Running { job, stage, .. })
                if job.deadline <= now && !matches!(stage, Stage::Breaking(_)) =>
            {
                let text = match stage {
                    Stage::Waiting(0) => "no frame came".to_owned(),
                    Stage::Waiting(1) => "one frame came, which did not fit".to_owned(),
                    Stage::Waiting(others) => format!("{others} frames came, none fitted"),
                    _ => "the device takes no more".to_owned(),
                };
                self.finish(shared, |job, written| {
                    Err(job.error(Kind::Timeout, written, &format!("{text} within {:?}", job.timeout)))
                });
            }
            _ => {}
        }
        self.drop_queued(shared, |job| {
            (job.deadline <= now).then(|| {
                let text = format!("others were first, for {:?}", job.timeout);
                job.error(Kind::Timeout, 0, &text)
            })
        });
    }

    fn drop_queued(&mut self, shared: &Shared, wrong: impl Fn(&Job) -> Option<Error>) {
        if !self.queue.iter().any(|job| wrong(job).is_some()) {
            return;
        }
        let mut kept = VecDeque::with_capacity(self.queue.len());
        for job in self.queue.drain(..) {
            match wrong(&job) {
                Some(error) => {
                    shared.free(job.bytes());
                    job.reply.answer(Err(error));
                }
                None => kept.push_back(job),
            }
        }
        self.queue = kept;
    }

    /// Ends what was done under a lease that is over: a transaction, and what has not begun. A write that has begun is
    /// completed, since half a message would be worse.
    pub fn end_leased(&mut self, shared: &Shared) {
        let text = "the lease it was done under is over";
        let transacts = |job: &Job| job.lease.is_some() && matches!(job.work, Work::Transact(..));
        if self.running.as_ref().is_some_and(|running| transacts(&running.job)) {
            self.finish(shared, |job, written| Err(job.error(Kind::Closed, written, text)));
        }
        self.drop_queued(shared, |job| job.lease.is_some().then(|| job.error(Kind::Closed, 0, text)));
    }

    /// Ends everything.
    pub fn end(&mut self, shared: &Shared, kind: Kind, text: &str) {
        self.finish(shared, |job, written| Err(job.error(kind, written, text)));
        self.drop_queued(shared, |job| Some(job.error(kind, 0, text)));
    }

    /// Takes what was written to publish it: all where `all` is set or the write is done, else what fills an event.
    /// Before the next turn all of it must be taken.
    pub fn written(&mut self, all: bool) -> Option<Written> {
        let done = all || !self.writing();
        if self.tx.is_empty() || (!done && self.tx.len() < TX_EVENT) {
            return None;
        }
        let rest = self.tx.split_off(self.tx.len().min(TX_EVENT));
        let bytes = std::mem::replace(&mut self.tx, rest);
        Some(Written { bytes, by: self.by.clone() })
    }
}

/// Changes the settings that are given and tells all.
fn set(settings: &Map<String, Value>, link: &mut dyn Link, line: &mut LineSettings) -> Result<Value> {
    let changed = line.changed(settings).map_err(|text| Error::new(Kind::InvalidArgument, text))?;
    link.set(&changed)?;
    *line = changed;
    Ok(line.to_json())
}

/// The answer of a transaction, if the frame is the one it waits for.
fn fits(expect: &Expect, frame: &Frame) -> Option<Map<String, Value>> {
    let mut answer = Map::new();
    match expect {
        Expect::Any => {}
        Expect::Bytes(bytes) => {
            memchr::memmem::find(&frame.bytes, bytes)?;
        }
        Expect::Regex(regex) => {
            let captures = regex.captures(&frame.bytes)?;
            let groups = captures.iter().skip(1).map(|group| match group.map(|group| group.as_bytes()) {
                None => Value::Null,
                Some(bytes) => std::str::from_utf8(bytes).map_or_else(
                    |_| {
                        let mut object = Map::new();
                        data::write(&mut object, bytes);
                        object.into()
                    },
                    Value::from,
                ),
            });
            answer.insert("captures".to_owned(), groups.collect());
        }
    }
    data::write(&mut answer, &frame.bytes);
    for (name, on) in [("truncated", frame.truncated), ("partial", frame.partial)] {
        if on {
            answer.insert(name.to_owned(), true.into());
        }
    }
    Some(answer)
}
