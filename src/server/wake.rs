//! Waking a thread that waits in `zmq_poll`, also on Windows, where it can wait for sockets only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Kind, Result};

/// The end that any thread may use.
pub(super) struct Waker(Mutex<zmq::Socket>);

impl Waker {
    /// Makes the other end's `zmq_poll` return. Never waits.
    pub fn wake(&self) {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full pipe is a thread that will wake anyway.
        let _ = socket.send("", zmq::DONTWAIT);
    }
}

/// Both ends: the socket to poll for reading, and the waker.
pub(super) fn pair(context: &zmq::Context) -> Result<(zmq::Socket, Waker)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let endpoint = format!("inproc://hwgate-wake-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let make = || -> zmq::Result<(zmq::Socket, zmq::Socket)> {
        let listener = context.socket(zmq::PAIR)?;
        let caller = context.socket(zmq::PAIR)?;
        for socket in [&listener, &caller] {
            socket.set_linger(0)?;
            socket.set_rcvhwm(1)?;
            socket.set_sndhwm(1)?;
        }
        listener.bind(&endpoint)?;
        caller.connect(&endpoint)?;
        Ok((listener, caller))
    };
    let (listener, caller) =
        make().map_err(|error| Error::new(Kind::Internal, format!("cannot make a wake socket: {error}")))?;
    Ok((listener, Waker(Mutex::new(caller))))
}

/// Takes all that wakers have sent.
pub(super) fn clear(listener: &zmq::Socket) {
    let mut message = zmq::Message::new();
    while listener.recv(&mut message, zmq::DONTWAIT).is_ok() {}
}
