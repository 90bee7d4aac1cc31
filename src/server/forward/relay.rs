//! The thread that owns a forwarder's sockets and passes messages on.
//!
//! A message is taken whole, made a record of where the forwarder logs, sent to the subscribers, and shown by the
//! monitor. What the thread owes to others (subscriptions, counts, reports) is done in between.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hwgate_zmq::{Incoming, ReceiveBuffers};

use super::connections::Connections;
use super::counts::Counts;
use super::monitor::Monitor;
use super::output::Output;
use super::report::Report;
use super::{Bound, Forward};
use crate::server::intake::DRAINED;
use crate::server::recorder::{Message, Recorder};
use crate::server::state::{Pulse, Shared};
use crate::util::guard;
use crate::wake;

/// Messages taken before other duties have their turn.
const TURN: usize = 1000;
/// Frames of a message whose memory is kept for the next.
pub(super) const KEPT: usize = 16;
/// While messages come, subscriptions and connections are looked at so often; and so often while subscriptions come.
const DUTIES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1));
/// The longest the thread waits before it shows that it is alive.
const WAIT: Duration = Duration::from_secs(1);
/// The longest everyone waits for a slow subscriber while the gateway stops, so that there is time for the rest.
const STOP_WAIT: Duration = Duration::from_millis(250);
/// Subscriptions taken at a time.
const SUBSCRIPTIONS: usize = 100_000;

pub(super) struct Relay {
    shared: Arc<Shared>,
    forward: Arc<Forward>,
    send_wait: Duration,
    pulse: Pulse,
    woken: zmq::Socket,
    input: zmq::Socket,
    publishers: Connections,
    output: Output,
    subscribers: Connections,
    monitor: Option<Monitor>,
    recorder: Option<Recorder>,
    /// The message at hand, received into again and again.
    frames: Vec<Incoming>,
    buffers: ReceiveBuffers,
    counts: Counts,
    duties_at: Instant,
    report: Report,
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
            report: Report::default(),
        }
    }

    pub fn run(&mut self) {
        let mut idle_since = Instant::now();
        loop {
            self.pulse.beat();
            // A message whose handling panics is a defect; the others must not suffer for it.
            let taken = catch_unwind(AssertUnwindSafe(|| self.turn())).unwrap_or_else(|_| self.recover());
            let now = Instant::now();
            if taken > 0 {
                idle_since = now;
            }
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

    /// Passes on what waits and does what is due; tells how many messages there were.
    fn turn(&mut self) -> usize {
        let taken = self.pass_on_what_waits();
        if let Some(recorder) = &mut self.recorder {
            recorder.append_due();
        }
        let now = Instant::now();
        if now >= self.duties_at {
            self.do_duties(now);
        }
        publish(&self.forward, &self.counts, &self.output);
        taken
    }

    /// Waits for a message, for what is due, or to be woken.
    fn wait(&mut self, idle_since: Instant) {
        let stopping = self.shared.stopping().is_some();
        // Looking at all sockets costs more than taking a message, so it is done when there is time.
        let idle = idle_since.elapsed() >= DUTIES.0;
        let most = match (stopping, idle) {
            (true, _) => Duration::from_millis(10),
            (false, true) => WAIT,
            (false, false) => self.duties_at.saturating_duration_since(Instant::now()),
        };
        let due = self.recorder.as_ref().and_then(Recorder::due_in).unwrap_or(most);
        let mut items = vec![self.woken.as_poll_item(zmq::POLLIN), self.input.as_poll_item(zmq::POLLIN)];
        if idle {
            let others = [&self.output.socket, self.publishers.socket(), self.subscribers.socket()];
            let monitor =
                self.monitor.iter().flat_map(|monitor| [&monitor.socket, monitor.watchers.socket()]);
            items.extend(others.into_iter().chain(monitor).map(|socket| socket.as_poll_item(zmq::POLLIN)));
        }
        // A time below a millisecond is one, else the thread would turn round and round.
        let _ = zmq::poll(&mut items, (due.min(most).as_millis() as i64).max(1));
        let news = items[0].is_readable() || items[2..].iter().any(zmq::PollItem::is_readable);
        if news {
            self.duties_at = Instant::now();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.waited();
        }
    }

    /// Takes messages until none waits or others must have their turn; tells how many.
    fn pass_on_what_waits(&mut self) -> usize {
        let waits = self.output.waits;
        let mut taken = 0;
        // After a wait for a subscriber others have waited long enough.
        while taken < TURN && self.output.waits == waits {
            let Some((count, bytes)) = self.receive() else { break };
            taken += 1;
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
            // Counted in and out together, so that the counts add up whenever they are published.
            self.counts.received += 1;
            self.counts.bytes += bytes as u64;
            if let Some(monitor) = &mut self.monitor {
                monitor.show(&mut self.counts);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.append_full();
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
        let Relay { pulse, shared, forward, counts, input, send_wait, recorder, .. } = self;
        let lost = self.output.send(&mut self.frames[..count], |waited, waits| {
            pulse.beat();
            // Lets libzmq subscribe at publishers that connect meanwhile, which they wait for.
            let _ = input.get_events();
            if let Some(recorder) = recorder {
                recorder.append_due();
            }
            guard(&forward.counts).clone_from(&Counts { waits, ..counts.clone() });
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
        wake::clear(&self.woken);
        if let Some(recorder) = &mut self.recorder {
            recorder.reload();
        }
        let mut came = subscriptions(&self.output.socket);
        if let Some(monitor) = &mut self.monitor {
            came += monitor.take_news(&mut self.counts);
        }
        self.counts.publishers = self.publishers.count();
        self.counts.subscribers = self.subscribers.count();
        // libzmq takes in a few at a time, each time it is asked.
        self.duties_at = now + if came > 0 { DUTIES.1 } else { DUTIES.0 };
        self.tell(false);
    }

    /// Tells of what was dropped; of all that was not told yet if this is the end.
    fn tell(&mut self, end: bool) {
        let id = &self.forward.id;
        if let Some(slow) = self.report.slow(self.counts.slow, end) {
            self.forward.set_slow(slow, self.counts.slow, &self.shared.hub);
        }
        let paused = self.forward.is_paused() && !end;
        for line in self.report.lines(&self.counts, paused) {
            log::warn!("forward {id}: {line}");
            if let Some(recorder) = &mut self.recorder {
                recorder.note(&format!("forward {id}: {line}"));
            }
        }
    }

    /// After a panic: gives up the message at hand, so that the next begins with its first frame.
    fn recover(&mut self) -> usize {
        log::error!("forward {}: a defect: handling a message panicked; it is lost", self.forward.id);
        let mut rest = Incoming::new();
        while self.input.get_rcvmore().unwrap_or(false)
            && rest.receive(&mut self.input, zmq::DONTWAIT).is_ok()
        {}
        self.output.end_message();
        if let Some(monitor) = &mut self.monitor {
            monitor.end_message();
        }
        1
    }

    fn finish(&mut self) {
        self.tell(true);
        if let Some(recorder) = &mut self.recorder {
            recorder.finish();
        }
        publish(&self.forward, &self.counts, &self.output);
        self.output.linger(self.shared.grace_left());
        let Counts { received, passed, slow, paused, .. } = self.counts;
        let id = &self.forward.id;
        log::info!(
            "forward {id}: {received} in, {passed} out, {slow} lost to slow subscribers, {paused} while paused"
        );
    }
}

/// Copies the counts out for others.
fn publish(forward: &Forward, counts: &Counts, output: &Output) {
    guard(&forward.counts).clone_from(&Counts { waits: output.waits, ..counts.clone() });
}

/// Takes what subscribers sent, which nobody reads but would pile up: that topics are subscribed to for the first time, or
/// by nobody any more, and messages of an XSUB. Tells how many there were.
pub(super) fn subscriptions(socket: &zmq::Socket) -> usize {
    let mut message = zmq::Message::new();
    (0..SUBSCRIPTIONS).take_while(|_| socket.recv(&mut message, zmq::DONTWAIT).is_ok()).count()
}
