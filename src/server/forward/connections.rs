//! How many peers are connected to a socket, from libzmq's socket monitor.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use zmq::SocketEvent::{ACCEPTED, DISCONNECTED};

/// The connections of one listening socket.
pub(super) struct Connections {
    events: zmq::Socket,
    /// By descriptor; libzmq tells that one is closed before it can be used again.
    open: HashSet<u32>,
}

impl Connections {
    /// Watches a socket that is not bound yet.
    ///
    /// libzmq's I/O thread writes the events, and waits where they are not read: with it every socket of the context. So
    /// this end has no high-water mark, and then neither end has.
    pub fn watch(context: &zmq::Context, socket: &zmq::Socket) -> zmq::Result<Connections> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let endpoint = format!("inproc://hwgate-connections-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        socket.monitor(&endpoint, i32::from(ACCEPTED.to_raw()) | i32::from(DISCONNECTED.to_raw()))?;
        let events = context.socket(zmq::PAIR)?;
        events.set_rcvhwm(0)?;
        events.set_linger(0)?;
        events.connect(&endpoint)?;
        Ok(Connections { events, open: HashSet::new() })
    }

    /// What to poll for news.
    pub fn socket(&self) -> &zmq::Socket {
        &self.events
    }

    /// Reads the news and tells how many are connected.
    pub fn count(&mut self) -> usize {
        // The first frame is the event's number and the connection's, both in the machine's byte order.
        while let Ok(frames) = self.events.recv_multipart(zmq::DONTWAIT) {
            let Some(&[a, b, c, d, e, f]) = frames.first().map(|frame| &frame[..]) else { continue };
            let connection = u32::from_ne_bytes([c, d, e, f]);
            if u16::from_ne_bytes([a, b]) == ACCEPTED.to_raw() {
                self.open.insert(connection);
            } else {
                self.open.remove(&connection);
            }
        }
        self.open.len()
    }
}
