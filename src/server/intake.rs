//! `logs`: what plain ZeroMQ clients push goes into the journal.
//!
//! One thread owns the PULL socket. It takes messages as long as there are some; its recorder appends a batch when it
//! is full, or two milliseconds after its first record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hwgate_zmq::Incoming;

use super::recorder::{Message, Recorder};
use super::state::{Pulse, Role, Shared};
use crate::wake;
use crate::{Error, Kind, Result};

/// With a batch begun and nothing waiting, the thread sleeps this long before it looks again: waking for
/// each message would cost more than taking it.
const PAUSE_MS: i64 = 1;
/// While stopping, the socket counts as drained when nothing has come for this long.
pub(super) const DRAINED: Duration = Duration::from_millis(200);
/// Messages taken before other duties have their turn.
const TURN: usize = 4096;

/// Starts the thread; it ends when [`Shared::stop_by`] was called and the socket is drained.
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: &zmq::Context,
    socket: zmq::Socket,
) -> Result<JoinHandle<()>> {
    let (woken, waker) = wake::pair(context)?;
    let pulse = shared.attend(Role::Intake, waker);
    let recorder = Recorder::new(shared, "logs", "logs", &shared.intake);
    let mut intake =
        Intake { shared: shared.clone(), pulse, socket, woken, recorder, frames: Default::default() };
    std::thread::Builder::new()
        .name("intake".into())
        .spawn(move || intake.run())
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the intake thread: {error}")))
}

struct Intake {
    shared: Arc<Shared>,
    pulse: Pulse,
    socket: zmq::Socket,
    woken: zmq::Socket,
    recorder: Recorder,
    /// Received into again and again: first frame, second frame, what is too many.
    frames: [Incoming; 3],
}

impl Intake {
    fn run(&mut self) {
        let mut idle_since = Instant::now();
        loop {
            self.pulse.beat();
            match catch_unwind(AssertUnwindSafe(|| self.take_what_waits())) {
                Ok(0) => {}
                Ok(_) => idle_since = Instant::now(),
                Err(_) => self.recover_from_panic(),
            }
            if let Some(deadline) = self.shared.stopping()
                && (idle_since.elapsed() >= DRAINED || Instant::now() >= deadline)
            {
                return self.recorder.finish();
            }
            self.wait();
        }
    }

    /// Waits for a message, for the batch's age, or to be woken.
    fn wait(&mut self) {
        let begun = self.recorder.has_begun();
        let timeout = match (begun, self.shared.stopping()) {
            (true, _) => PAUSE_MS,
            (false, Some(_)) => 10,
            (false, None) => 1000,
        };
        // With a batch begun only the waker is looked at, see PAUSE_MS.
        let sockets = if begun { 1 } else { 2 };
        let mut items = [self.woken.as_poll_item(zmq::POLLIN), self.socket.as_poll_item(zmq::POLLIN)];
        let _ = zmq::poll(&mut items[..sockets], timeout);
        if items[0].is_readable() {
            wake::clear(&self.woken);
            self.recorder.reload();
        }
    }

    /// Takes messages until none waits or others must have their turn; tells how many.
    fn take_what_waits(&mut self) -> usize {
        let mut frames = std::mem::take(&mut self.frames);
        let mut taken = 0;
        self.recorder.waited();
        while taken < TURN && frames[0].receive(&mut self.socket, zmq::DONTWAIT).is_ok() {
            taken += 1;
            self.take(&mut frames);
        }
        self.frames = frames;
        self.recorder.append_due();
        taken
    }

    /// Takes the message whose first frame was received.
    fn take(&mut self, frames: &mut [Incoming; 3]) {
        let [first, second, rest] = frames;
        let mut count = 1;
        let mut bytes = first.bytes().len();
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
        self.recorder.take(&Message { first, second, count, bytes });
        self.recorder.append_full();
    }

    /// A message whose handling panics is a defect; the others must not suffer for it.
    fn recover_from_panic(&mut self) {
        let lost = self.recorder.give_up_batch();
        log::error!("logs: a defect: handling a message panicked; {lost} messages dropped");
        // Frames of a message that was not read to its end.
        let mut rest = Incoming::new();
        while self.socket.get_rcvmore().unwrap_or(false)
            && rest.receive(&mut self.socket, zmq::DONTWAIT).is_ok()
        {}
    }
}
