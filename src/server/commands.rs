//! `commands`: one frame of JSON-RPC, one request, always one reply.
//!
//! One thread owns the ROUTER socket. Methods that may wait run on threads of their own and send their
//! reply through a channel, so that a slow one never holds up another.
//!
//! The `state` endpoint of a `[[forward]]` is served in the same way by a thread of its own, with the methods that
//! concern this forwarder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::forward::Forward;
use super::methods::{self, Outcome};
use super::repeats::{Repeats, Seen};
use super::state::{Pulse, Role, Shared};
use crate::device::Reply as DeviceReply;
use crate::wake;
use crate::wire::rpc::{self, Body, Envelope, Fault, Request};
use crate::{Error, Kind};

/// Slow requests that may run at once; further ones are told BUSY.
const SLOW: usize = 32;
/// Requests that are still answered once everything else has stopped.
const TURN: usize = 1024;
/// The longest the thread waits before it shows that it is alive, in milliseconds.
const WAIT_MS: i32 = 1000;

/// How long slow requests may take to answer once everything else has stopped.
const LAST_REPLIES: Duration = Duration::from_millis(500);

/// An answer on its way to the thread.
pub(super) struct Answer {
    to: To,
    result: Result<Value, Fault>,
}

/// Who asked.
#[derive(Clone)]
pub(super) struct To {
    pub envelope: Envelope,
    pub id: Value,
    /// The request's `key`, whose repeats get the same answer.
    pub key: Option<String>,
}

/// Starts the thread; it ends after [`Shared::finish_commands`].
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: &zmq::Context,
    socket: zmq::Socket,
    forward: Option<Arc<Forward>>,
) -> crate::Result<JoinHandle<()>> {
    let (role, name) = match forward {
        None => (Role::Commands, "commands"),
        Some(_) => (Role::ForwardState, "forward-state"),
    };
    let pulse = shared.attend(role, wake::at_router(context, &socket)?);
    let timeout = socket.set_rcvtimeo(WAIT_MS);
    timeout.map_err(|error| Error::new(Kind::Internal, format!("commands: {error}")))?;
    let (sender, arriving) = channel();
    let answers = Answers { sender, shared: shared.clone(), role };
    let mut commands = Commands {
        shared: shared.clone(),
        forward,
        pulse,
        socket,
        answers,
        arriving,
        slow: Arc::default(),
        repeats: Repeats::default(),
    };
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || commands.run())
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the command thread: {error}")))
}

struct Commands {
    shared: Arc<Shared>,
    /// The forwarder whose `state` this is; none for `commands`.
    forward: Option<Arc<Forward>>,
    pulse: Pulse,
    socket: zmq::Socket,
    answers: Answers,
    arriving: Receiver<Answer>,
    slow: Arc<AtomicUsize>,
    repeats: Repeats,
}

/// Where other threads hand in their answers.
#[derive(Clone)]
struct Answers {
    sender: Sender<Answer>,
    shared: Arc<Shared>,
    /// Of the thread.
    role: Role,
}

impl Answers {
    /// The thread may have ended; then nobody waits for this.
    fn hand_in(&self, to: To, result: Result<Value, Fault>) {
        let _ = self.sender.send(Answer { to, result });
        self.shared.wake(self.role);
    }
}

impl Commands {
    fn run(&mut self) {
        let mut ending_since = None;
        loop {
            self.pulse.beat();
            // Waits for a request, a waker or the time-out.
            self.take(0);
            self.hand_out();
            if self.shared.commands_may_end() {
                let since: &mut Instant = ending_since.get_or_insert_with(Instant::now);
                if self.slow.load(Ordering::Acquire) == 0 || since.elapsed() >= LAST_REPLIES {
                    // Some may have come between the last look and this one.
                    for _ in 0..TURN {
                        if !self.take(zmq::DONTWAIT) {
                            break;
                        }
                    }
                    self.hand_out();
                    return;
                }
                let _ = self.socket.set_rcvtimeo(10);
            }
        }
    }

    /// Takes one message and answers it, if it is a request; whether there was one.
    fn take(&mut self, flags: i32) -> bool {
        let Ok(frames) = self.socket.recv_multipart(flags) else { return false };
        if !wake::is_wake(&frames) {
            // A request whose handling panics is a defect; the others must not suffer for it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.handle(frames)));
        }
        true
    }

    /// Sends the answers of other threads.
    fn hand_out(&mut self) {
        while let Ok(Answer { to, result }) = self.arriving.try_recv() {
            self.answer(to, result);
        }
    }

    /// A peer that is gone, or takes nothing, loses its reply and nobody waits for it.
    fn send(&self, reply: Vec<Vec<u8>>) {
        let _ = self.socket.send_multipart(reply, zmq::DONTWAIT);
    }

    fn answer(&mut self, to: To, result: Result<Value, Fault>) {
        let Some(key) = &to.key else {
            return self.send(to.envelope.wrap([rpc::reply(&to.id, result)]));
        };
        let frame = rpc::reply(&to.id, result.clone());
        for other in self.repeats.answered(key, &result, frame.len()) {
            self.send(other.envelope.wrap([rpc::reply(&other.id, result.clone())]));
        }
        self.send(to.envelope.wrap([frame]));
    }

    fn handle(&mut self, frames: Vec<Vec<u8>>) {
        let (envelope, body) = rpc::split(frames);
        let request = match body {
            Ok(Body::Init(topic)) => {
                if let Some(forward) = &self.forward {
                    forward.register(&topic);
                }
                return self.send(envelope.wrap(Body::init_reply(topic)));
            }
            Ok(Body::Request(frame)) => rpc::parse(&frame),
            Err(fault) => Err((Value::Null, fault)),
        };
        match request {
            Ok(request) => self.dispatch(envelope, request),
            Err((id, fault)) => self.send(envelope.wrap([rpc::reply(&id, Err(fault))])),
        }
    }

    fn dispatch(&mut self, envelope: Envelope, request: Request) {
        let Request { id, method, params, key } = request;
        let mut to = To { envelope, id, key: None };
        if self.shared.stopping().is_some() {
            return self.answer(to, Err(Error::new(Kind::ShuttingDown, "the gateway is stopping").into()));
        }
        if let Some(key) = key {
            match self.repeats.see(&key, &method, &params, &to) {
                Seen::First => to.key = Some(key),
                Seen::Running => return,
                Seen::Answered(result) => return self.answer(to, result),
                Seen::Misused => {
                    let text =
                        format!("{method}: key {key:?} belongs to another request; make a new one for each");
                    return self.answer(to, Err(Error::new(Kind::BadRequest, text).into()));
                }
            }
        }
        let called = guarded(&method, || match &self.forward {
            None => methods::call(&self.shared, &method, params),
            Some(forward) => methods::call_forward(&self.shared, forward, &method, params),
        });
        match called {
            Ok(Outcome::Now(value)) => self.answer(to, Ok(value)),
            Ok(Outcome::Later(work)) => self.run_later(to, method, work),
            Ok(Outcome::Device(work)) => {
                let answers = self.answers.clone();
                let reply = DeviceReply::new({
                    let method = method.clone();
                    move |result: crate::Result<Value>| {
                        answers.hand_in(to, result.map_err(|error| named(&method, error)))
                    }
                });
                // A panic drops the reply, which then answers by itself.
                let _ = guarded(&method, || {
                    work(&self.shared, reply);
                    Ok(())
                });
            }
            Err(fault) => self.answer(to, Err(fault)),
        }
    }

    fn run_later(&mut self, to: To, method: String, work: methods::Work) {
        if self.slow.fetch_add(1, Ordering::AcqRel) >= SLOW {
            self.slow.fetch_sub(1, Ordering::AcqRel);
            let text = format!("{method}: {SLOW} slow requests are running; try again");
            return self.answer(to, Err(Error::new(Kind::Busy, text).into()));
        }
        let (answers, slow) = (self.answers.clone(), self.slow.clone());
        let asker = to.clone();
        let spawned = std::thread::Builder::new().name(method.clone()).spawn(move || {
            let result = guarded(&method, || work(&answers.shared));
            answers.hand_in(to, result);
            slow.fetch_sub(1, Ordering::AcqRel);
        });
        if let Err(error) = spawned {
            self.slow.fetch_sub(1, Ordering::AcqRel);
            let fault = Error::new(Kind::Internal, format!("cannot start a thread: {error}")).into();
            self.answer(asker, Err(fault));
        }
    }
}

/// The error of a device as the caller of `method` sees it.
fn named(method: &str, error: Error) -> Fault {
    let text = if error.message().starts_with(method) {
        error.message().to_owned()
    } else {
        format!("{method}: {}", error.message())
    };
    let renamed = Error::new(error.kind(), text);
    error.details().fold(renamed, |error, (name, value)| error.with(name, value.clone())).into()
}

/// A method that panics is a defect, and its caller is told; the others must not suffer for it.
fn guarded<T>(method: &str, call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        log::error!("commands: a defect: {method} panicked");
        Err(Error::new(Kind::Internal, format!("{method}: a defect in the gateway; see its log")).into())
    })
}
