//! Showing what comes in to whoever watches, as `["in", frames…]`, as pyzmq's monitored queue does.
//!
//! The socket is an XPUB, which subscribers cannot tell from a PUB. It never waits, and while nobody is connected messages
//! are not even copied. (Its subscriptions would tell more, but anyone can end those of others as far as libzmq tells.)

use hwgate_zmq::{Incoming, lost};

use super::connections::Connections;
use super::counts::Counts;
use super::relay::{KEPT, subscriptions};

/// What stands before the frames of each message.
const PREFIX: &str = "in";

pub(super) struct Monitor {
    pub socket: zmq::Socket,
    pub watchers: Connections,
    watched: bool,
    /// The message at hand.
    frames: Vec<Incoming>,
    /// Of them; the others are kept for longer messages.
    used: usize,
    /// Whether a message is being sent.
    open: bool,
}

impl Monitor {
    pub fn new(socket: zmq::Socket, watchers: Connections) -> Monitor {
        Monitor { socket, watchers, watched: false, frames: Vec::new(), used: 0, open: false }
    }

    /// Learns who watches; tells how many subscriptions came.
    pub fn take_news(&mut self, counts: &mut Counts) -> usize {
        counts.watchers = self.watchers.count();
        self.watched = counts.watchers > 0;
        subscriptions(&self.socket)
    }

    /// Ends a message that was broken off, if there is one.
    pub fn end_message(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = self.socket.send("", zmq::DONTWAIT);
        }
    }

    /// Keeps another reference to the message, before the frames are sent elsewhere.
    pub fn keep(&mut self, frames: &[Incoming]) {
        self.used = if self.watched { frames.len() } else { 0 };
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
        self.open = true;
        let mut sent = self.socket.send(PREFIX, zmq::SNDMORE | zmq::DONTWAIT);
        let last = self.used - 1;
        for (index, frame) in self.frames[..self.used].iter_mut().enumerate() {
            let more = if index == last { 0 } else { zmq::SNDMORE };
            sent = sent.and_then(|()| frame.send(&mut self.socket, more | zmq::DONTWAIT));
        }
        self.open = false;
        counts.shown += u64::from(sent.is_ok());
        counts.monitor_lost += lost().since(before).deliveries;
        self.frames.truncate(KEPT);
    }
}
