//! Waking a thread that waits in `zmq_poll`, also on Windows, where it can wait for sockets only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Kind, Result};

/// The end that any thread may use.
pub(crate) struct Waker(Mutex<zmq::Socket>);

impl Waker {
    /// Makes the other end's `zmq_poll` return. Never waits.
    pub fn wake(&self) {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Cannot fail: there is no high-water mark. With one, libzmq would take a pipe that was read a moment ago for
        // full (it looks for such news once a millisecond), and the thread would sleep on.
        let _ = socket.send("", zmq::DONTWAIT);
    }
}

/// The routing id of wakers at a ROUTER socket. It is taken before any peer can come.
const WAKER: &[u8] = b"hwgate-waker";

/// A waker for a thread that waits in a ROUTER socket's `recv`: what it sends is a message of its own,
/// see [`is_wake`]. Waiting for two sockets at once would cost each request several system calls.
pub(crate) fn at_router(context: &zmq::Context, router: &zmq::Socket) -> Result<Waker> {
    let endpoint = endpoint();
    let make = || -> zmq::Result<zmq::Socket> {
        let caller = context.socket(zmq::DEALER)?;
        caller.set_linger(0)?;
        caller.set_sndhwm(0)?;
        caller.set_identity(WAKER)?;
        router.bind(&endpoint)?;
        caller.connect(&endpoint)?;
        Ok(caller)
    };
    make().map(|caller| Waker(Mutex::new(caller))).map_err(failed)
}

/// Whether a message came from a waker, and means nothing else.
pub(crate) fn is_wake(frames: &[Vec<u8>]) -> bool {
    frames.first().is_some_and(|id| id == WAKER)
}

/// Both ends: the socket to poll for reading, and the waker.
pub(crate) fn pair(context: &zmq::Context) -> Result<(zmq::Socket, Waker)> {
    let endpoint = endpoint();
    let make = || -> zmq::Result<(zmq::Socket, zmq::Socket)> {
        let listener = context.socket(zmq::PAIR)?;
        let caller = context.socket(zmq::PAIR)?;
        for socket in [&listener, &caller] {
            socket.set_linger(0)?;
            socket.set_rcvhwm(0)?;
            socket.set_sndhwm(0)?;
        }
        listener.bind(&endpoint)?;
        caller.connect(&endpoint)?;
        Ok((listener, caller))
    };
    let (listener, caller) = make().map_err(failed)?;
    Ok((listener, Waker(Mutex::new(caller))))
}

fn endpoint() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("inproc://hwgate-wake-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn failed(error: zmq::Error) -> Error {
    Error::new(Kind::Internal, format!("cannot make a wake socket: {error}"))
}

/// Takes all that wakers have sent.
pub(crate) fn clear(listener: &zmq::Socket) {
    let mut message = zmq::Message::new();
    while listener.recv(&mut message, zmq::DONTWAIT).is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wake_is_lost_however_fast_they_come() {
        let context = zmq::Context::new();
        let (listener, waker) = pair(&context).unwrap();
        for round in 0..10_000 {
            waker.wake();
            let mut items = [listener.as_poll_item(zmq::POLLIN)];
            assert_eq!(zmq::poll(&mut items, 10_000), Ok(1), "round {round}");
            clear(&listener);
        }
    }
}
