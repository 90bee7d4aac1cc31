//! `commands`: one frame of JSON-RPC, one request, always one reply.
//!
//! One thread owns the ROUTER socket. Methods that may wait run on threads of their own and send their
//! reply through a channel, so that a slow one never holds up another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::methods::{self, Outcome};
use super::state::{Role, Shared};
use super::wake;
use crate::wire::rpc::{self, Body, Envelope, Fault, Request};
use crate::{Error, Kind, Result};

/// Slow requests that may run at once; further ones are told BUSY.
const SLOW: usize = 32;
/// Requests taken before replies have their turn.
const TURN: usize = 256;
/// The longest the thread waits before it shows that it is alive, in milliseconds.
const WAIT_MS: i64 = 1000;

/// How long slow requests may take to answer once everything else has stopped.
const LAST_REPLIES: Duration = Duration::from_millis(500);

type Reply = Vec<Vec<u8>>;

/// Starts the thread; it ends after [`Shared::finish_commands`].
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: &zmq::Context,
    socket: zmq::Socket,
) -> Result<JoinHandle<()>> {
    let (woken, waker) = wake::pair(context)?;
    shared.add_waker(Role::Commands, waker);
    let (sender, replies) = channel();
    let commands = Commands { shared: shared.clone(), socket, woken, sender, replies, slow: Arc::default() };
    std::thread::Builder::new()
        .name("commands".into())
        .spawn(move || commands.run())
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the command thread: {error}")))
}

struct Commands {
    shared: Arc<Shared>,
    socket: zmq::Socket,
    woken: zmq::Socket,
    sender: Sender<Reply>,
    replies: Receiver<Reply>,
    slow: Arc<AtomicUsize>,
}

impl Commands {
    fn run(&self) {
        let mut ending_since = None;
        loop {
            self.shared.beat(Role::Commands);
            let mut items = [self.woken.as_poll_item(zmq::POLLIN), self.socket.as_poll_item(zmq::POLLIN)];
            let _ = zmq::poll(&mut items, if ending_since.is_some() { 10 } else { WAIT_MS });
            let ending = self.shared.commands_may_end();
            wake::clear(&self.woken);
            for _ in 0..TURN {
                match self.socket.recv_multipart(zmq::DONTWAIT) {
                    // A request whose handling panics is a defect; the others must not suffer for it.
                    Ok(frames) => drop(catch_unwind(AssertUnwindSafe(|| self.handle(frames)))),
                    Err(_) => break,
                }
            }
            self.replies.try_iter().for_each(|reply| self.send(reply));
            if ending {
                let since: &mut Instant = ending_since.get_or_insert_with(Instant::now);
                if self.slow.load(Ordering::Acquire) == 0 || since.elapsed() >= LAST_REPLIES {
                    // One may have come between the last look and this one.
                    self.replies.try_iter().for_each(|reply| self.send(reply));
                    return;
                }
            }
        }
    }

    /// A peer that is gone, or takes nothing, loses its reply and nobody waits for it.
    fn send(&self, reply: Reply) {
        let _ = self.socket.send_multipart(reply, zmq::DONTWAIT);
    }

    fn handle(&self, frames: Vec<Vec<u8>>) {
        let (envelope, body) = rpc::split(frames);
        let request = match body {
            Ok(Body::Init(topic)) => return self.send(envelope.wrap(Body::init_reply(topic))),
            Ok(Body::Request(frame)) => rpc::parse(&frame),
            Err(fault) => Err((Value::Null, fault)),
        };
        match request {
            Ok(request) => self.dispatch(envelope, request),
            Err((id, fault)) => self.send(envelope.wrap([rpc::reply(&id, Err(fault))])),
        }
    }

    fn dispatch(&self, envelope: Envelope, request: Request) {
        let Request { id, method, params, .. } = request;
        if self.shared.stopping().is_some() {
            let fault = Error::new(Kind::ShuttingDown, "the gateway is stopping").into();
            return self.send(envelope.wrap([rpc::reply(&id, Err(fault))]));
        }
        let outcome = guarded(&method, || methods::call(&self.shared, &method, params));
        let result = match outcome {
            Ok(Outcome::Now(value)) => Ok(value),
            Ok(Outcome::Later(work)) => return self.run_later(envelope, id, method, work),
            Err(fault) => Err(fault),
        };
        self.send(envelope.wrap([rpc::reply(&id, result)]));
    }

    fn run_later(&self, envelope: Envelope, id: Value, method: String, work: methods::Work) {
        if self.slow.fetch_add(1, Ordering::AcqRel) >= SLOW {
            self.slow.fetch_sub(1, Ordering::AcqRel);
            let text = format!("{method}: {SLOW} slow requests are running; try again");
            return self.send(envelope.wrap([rpc::reply(&id, Err(Error::new(Kind::Busy, text).into()))]));
        }
        let (sender, shared, slow) = (self.sender.clone(), self.shared.clone(), self.slow.clone());
        let (reply_to, reply_id) = (envelope.clone(), id.clone());
        let spawned = std::thread::Builder::new().name(method.clone()).spawn(move || {
            let result = guarded(&method, || work(&shared));
            // The command thread may have ended; then nobody waits for this.
            let _ = sender.send(envelope.wrap([rpc::reply(&id, result)]));
            slow.fetch_sub(1, Ordering::AcqRel);
            shared.wake(Role::Commands);
        });
        if let Err(error) = spawned {
            self.slow.fetch_sub(1, Ordering::AcqRel);
            let fault = Error::new(Kind::Internal, format!("cannot start a thread: {error}")).into();
            self.send(reply_to.wrap([rpc::reply(&reply_id, Err(fault))]));
        }
    }
}

/// A method that panics is a defect, and its caller is told; the others must not suffer for it.
fn guarded<T>(
    method: &str,
    call: impl FnOnce() -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        log::error!("commands: a defect: {method} panicked");
        Err(Error::new(Kind::Internal, format!("{method}: a defect in the gateway; see its log")).into())
    })
}
