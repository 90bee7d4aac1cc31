//! The thread that owns a forwarder's sockets and passes messages on.
//!
//! A message is taken whole, made a record of where the forwarder logs, sent to the subscribers, and shown by the
//! monitor. What the thread owes to others (subscriptions, counts, reports) is done in between.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hwgate_zmq::{Incoming, ReceiveBuffers};

use super::counts::Counts;
use super::monitor::Monitor;
use super::output::Output;
use super::peers::Peers;
use super::{Bound, Forward};
use crate::server::intake::DRAINED;
use crate::server::recorder::{Message, Recorder};
use crate::server::state::{Pulse, Shared};
use crate::throttle::Throttle;
use crate::util::guard;
use crate::wake;
use crate::wire::event::Fields;

/// Messages taken before other duties have their turn.
const TURN: usize = 1000;
/// Frames of a message whose memory is kept for the next.
pub(super) const KEPT: usize = 16;
/// While messages come, subscriptions and connections are looked at so often.
const DUTIES: Duration = Duration::from_millis(100);
/// The longest the thread waits before it shows that it is alive.
const WAIT: Duration = Duration::from_secs(1);
/// The longest everyone waits for a slow subscriber while the gateway stops, so that there is time for the rest.
const STOP_WAIT: Duration = Duration::from_millis(250);
/// A subscriber that has lost nothing for so long is no longer too slow.
const CALM: Duration = Duration::from_secs(1);
/// How often a subscriber that is too slow is reported.
const REPORT: Duration = Duration::from_secs(60);

pub(super) struct Relay {
    shared: Arc<Shared>,
    forward: Arc<Forward>,
    send_wait: Duration,
    pulse: Pulse,
    woken: zmq::Socket,
    input: zmq::Socket,
    publishers: Peers,
    output: Output,
    subscribers: Peers,
    monitor: Option<Monitor>,
    recorder: Option<Recorder>,
    /// The message at hand, received into again and again.
    frames: Vec<Incoming>,
    buffers: ReceiveBuffers,
    counts: Counts,
    duties_at: Instant,
    slow: Trouble,
    paused: Trouble,
}

/// Messages that are being dropped for one reason, until none has been for a while.
struct Trouble {
    /// How many had been dropped when it began.
    before: u64,
    /// How many have been.
    now: u64,
    changed: Instant,
    report: Throttle,
}

impl Trouble {
    fn new() -> Trouble {
        Trouble { before: 0, now: 0, changed: Instant::now(), report: Throttle::every(REPORT) }
    }

    /// Takes the count as it is now, and tells how many have been dropped since it began if that is to be said now.
    fn goes_on(&mut self, count: u64) -> Option<u64> {
        if count == self.now {
            return None;
        }
        (self.now, self.changed) = (count, Instant::now());
        self.report.pass().map(|_| self.now - self.before)
    }

    /// How many were dropped, once when it is over.
    fn is_over(&mut self, over: bool) -> Option<u64> {
        let lost = self.now - self.before;
        if lost == 0 || !over {
            return None;
        }
        self.before = self.now;
        Some(lost)
    }
}

impl Relay {
    pub fn new(
        shared: &Arc<Shared>,
        forward: &Arc<Forward>,
        pulse: Pulse,
        woken: zmq::Socket,
        bound: Bound,
    ) -> Relay {
        let name = format!("forward {}", forward.id);
        let recorder = forward.log.as_ref().map(|log| Recorder::new(shared, &name, &forward.id, log));
        let Bound { config, input: (input, publishers), output: (output, subscribers), monitor, .. } = bound;
        Relay {
            shared: shared.clone(),
            forward: forward.clone(),
            send_wait: config.send_wait,
            pulse,
            woken,
            input,
            publishers,
            output,
            subscribers,
            monitor,
            recorder,
            frames: vec![Incoming::new()],
            buffers: ReceiveBuffers::default(),
            counts: Counts::default(),
            duties_at: Instant::now(),
            slow: Trouble::new(),
            paused: Trouble::new(),
        }
    }

    pub fn run(&mut self) {
        let mut idle_since = Instant::now();
        loop {
            self.pulse.beat();
            let taken = self.pass_on_what_waits();
            let now = Instant::now();
            if taken > 0 {
                idle_since = now;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.append_due();
            }
            if now >= self.duties_at {
                self.do_duties(now);
            }
            self.publish_counts();
            if let Some(deadline) = self.shared.stopping()
                && (idle_since.elapsed() >= DRAINED || now >= deadline)
            {
                return self.finish();
            }
            if taken < TURN {
                self.wait(idle_since);
            }
        }
    }

    /// Waits for a message, for what is due, or to be woken.
    fn wait(&mut self, idle_since: Instant) {
        let stopping = self.shared.stopping().is_some();
        // Looking at all sockets costs more than taking a message, so it is done when there is time.
        let idle = idle_since.elapsed() >= DUTIES;
        let most = match (stopping, idle) {
            (true, _) => Duration::from_millis(10),
            (false, true) => WAIT,
            (false, false) => DUTIES,
        };
        let due = self.recorder.as_ref().and_then(Recorder::due_in).unwrap_or(most);
        let timeout = due.min(most).as_millis() as i64;
        let mut items = vec![self.woken.as_poll_item(zmq::POLLIN), self.input.as_poll_item(zmq::POLLIN)];
        if idle {
            let others = [&self.output.socket, self.publishers.socket(), self.subscribers.socket()];
            let monitor =
                self.monitor.iter().flat_map(|monitor| [&monitor.socket, monitor.watchers.socket()]);
            items.extend(others.into_iter().chain(monitor).map(|socket| socket.as_poll_item(zmq::POLLIN)));
        }
        // A time below a millisecond is one, else the thread would turn round and round.
        let _ = zmq::poll(&mut items, timeout.max(1));
        let woken = items[0].is_readable();
        if items[2..].iter().any(zmq::PollItem::is_readable) {
            self.duties_at = Instant::now();
        }
        if woken {
            wake::clear(&self.woken);
            if let Some(recorder) = &mut self.recorder {
                recorder.reload();
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.waited();
        }
    }

    /// Takes messages until none waits or others must have their turn; tells how many.
    fn pass_on_what_waits(&mut self) -> usize {
        let mut taken = 0;
        while taken < TURN {
            let Some((count, bytes)) = self.receive() else { break };
            taken += 1;
            self.counts.received += 1;
            self.counts.bytes += bytes as u64;
            let paused = self.forward.is_paused();
            if !paused {
                self.record(count, bytes);
            }
            // They may wait in subscribers' queues for long.
            self.buffers.leave(&mut self.frames[..count]);
            if let Some(monitor) = &mut self.monitor {
                monitor.keep(&self.frames[..count]);
            }
            if paused {
                self.counts.paused += 1;
            } else {
                self.send(count);
            }
            if let Some(monitor) = &mut self.monitor {
                monitor.show(&mut self.counts);
            }
            self.frames.truncate(KEPT);
        }
        taken
    }

    /// Receives one message; tells how many frames and bytes it has.
    fn receive(&mut self) -> Option<(usize, usize)> {
        self.frames[0].receive(&mut self.input, zmq::DONTWAIT).ok()?;
        let mut count = 1;
        let mut bytes = self.frames[0].bytes().len();
        while self.frames[count - 1].more() {
            if self.frames.len() == count {
                self.frames.push(Incoming::new());
            }
            // It is there: libzmq shows a message when it is whole.
            if self.frames[count].receive(&mut self.input, 0).is_err() {
                break;
            }
            bytes += self.frames[count].bytes().len();
            count += 1;
        }
        Some((count, bytes))
    }

    /// Makes a record of the message, which the journal gets after it was sent.
    fn record(&mut self, count: usize, bytes: usize) {
        let Some(recorder) = &mut self.recorder else { return };
        let first = &self.frames[0];
        let message = Message { first, second: self.frames.get(1).unwrap_or(first), count, bytes };
        // What cannot be logged, by a defect, is passed on all the same.
        if catch_unwind(AssertUnwindSafe(|| recorder.take(&message))).is_err() {
            let lost = recorder.give_up_batch();
            log::error!(
                "forward {}: a defect: logging a message panicked; {lost} not logged",
                self.forward.id
            );
        }
    }

    fn send(&mut self, count: usize) {
        let Relay { pulse, shared, input, send_wait, .. } = self;
        let lost = self.output.send(&mut self.frames[..count], |waited| {
            pulse.beat();
            // Lets libzmq subscribe at publishers that connect meanwhile, which they wait for.
            let _ = input.get_events();
            match shared.stopping() {
                None => waited < *send_wait,
                Some(deadline) => waited < STOP_WAIT.min(*send_wait) && Instant::now() < deadline,
            }
        });
        if lost.messages == 0 {
            self.counts.passed += 1;
        } else {
            self.counts.slow += 1;
            self.counts.lost += lost.deliveries;
        }
    }

    fn do_duties(&mut self, now: Instant) {
        self.duties_at = now + DUTIES;
        let mut all = subscriptions(&self.output.socket);
        if let Some(monitor) = &mut self.monitor {
            all &= monitor.take_news(&mut self.counts);
        }
        if !all {
            self.duties_at = now;
        }
        self.counts.publishers = self.publishers.count();
        self.counts.subscribers = self.subscribers.count();
        self.report(false);
    }

    /// Tells of what was dropped: when it begins, while it goes on, and how much it was when it is over.
    fn report(&mut self, end: bool) {
        let id = &self.forward.id;
        let mut lines = Vec::new();
        if let Some(lost) = self.slow.goes_on(self.counts.slow) {
            log::warn!("forward {id}: a subscriber is too slow: {lost} messages lost to it so far");
            self.forward.announce(&self.shared.hub, "slow", &Fields::none().with("dropped", lost));
        }
        let calm = end || self.slow.changed.elapsed() >= CALM;
        if let Some(lost) = self.slow.is_over(calm) {
            lines.push(format!("{lost} messages were not passed on to subscribers that were too slow"));
            self.forward.announce(&self.shared.hub, "running", &Fields::none().with("dropped", lost));
        }
        let _ = self.paused.goes_on(self.counts.paused);
        if let Some(lost) = self.paused.is_over(end || !self.forward.is_paused()) {
            lines.push(format!("{lost} messages were dropped while paused"));
        }
        for line in lines {
            log::warn!("forward {id}: {line}");
            if let Some(recorder) = &mut self.recorder {
                recorder.note(&format!("forward {id}: {line}"));
            }
        }
    }

    fn publish_counts(&mut self) {
        self.counts.waits = self.output.waits;
        guard(&self.forward.counts).clone_from(&self.counts);
    }

    fn finish(&mut self) {
        self.report(true);
        if let Some(recorder) = &mut self.recorder {
            recorder.finish();
        }
        self.publish_counts();
        let Counts { received, passed, slow, paused, .. } = self.counts;
        let id = &self.forward.id;
        log::info!(
            "forward {id}: {received} in, {passed} out, {slow} lost to slow subscribers, {paused} while paused"
        );
    }
}

/// Takes what subscribers sent, which nobody reads but would pile up: that topics are subscribed to for the first time, or
/// by nobody any more, and messages of an XSUB. Tells whether that was all.
pub(super) fn subscriptions(socket: &zmq::Socket) -> bool {
    let mut message = zmq::Message::new();
    (0..TURN).any(|_| socket.recv(&mut message, zmq::DONTWAIT).is_err())
}
