//! Showing what comes in to whoever watches, as `["in", frames…]`, as pyzmq's monitored queue does.
//!
//! The socket is an XPUB, which subscribers cannot tell from a PUB: it says whether anyone watches, and messages are
//! not even copied while nobody does. It never waits.

use hwgate_zmq::{Incoming, lost};

use super::counts::Counts;

/// What stands before the frames of each message.
const PREFIX: &str = "in";

pub(super) struct Monitor {
    pub socket: zmq::Socket,
    /// Topics that are subscribed to; each is told of when it first is and when it no longer is.
    topics: usize,
    /// The message at hand.
    frames: Vec<Incoming>,
    /// Of them; the others are kept for longer messages.
    used: usize,
}

impl Monitor {
    pub fn new(socket: zmq::Socket) -> Monitor {
        Monitor { socket, topics: 0, frames: Vec::new(), used: 0 }
    }

    /// Learns who watches; tells whether that was all there is to know.
    pub fn take_subscriptions(&mut self) -> bool {
        super::relay::subscriptions(&self.socket, |subscribed| {
            self.topics = if subscribed { self.topics + 1 } else { self.topics.saturating_sub(1) };
        })
    }

    /// Keeps another reference to the message, before the frames are sent elsewhere.
    pub fn keep(&mut self, frames: &[Incoming]) {
        self.used = if self.topics == 0 { 0 } else { frames.len() };
        if self.frames.len() < self.used {
            self.frames.resize_with(self.used, Incoming::new);
        }
        self.frames[..self.used].iter_mut().zip(frames).for_each(|(kept, frame)| kept.share(frame));
    }

    /// Shows the message that was kept.
    pub fn show(&mut self, counts: &mut Counts) {
        if self.used == 0 {
            return;
        }
        let before = lost();
        let mut sent = self.socket.send(PREFIX, zmq::SNDMORE | zmq::DONTWAIT);
        let last = self.used - 1;
        for (index, frame) in self.frames[..self.used].iter_mut().enumerate() {
            let more = if index == last { 0 } else { zmq::SNDMORE };
            sent = sent.and_then(|()| frame.send(&mut self.socket, more | zmq::DONTWAIT));
        }
        counts.shown += u64::from(sent.is_ok());
        counts.monitor_lost += lost().since(before).deliveries;
        self.frames.truncate(super::relay::KEPT);
    }
}
