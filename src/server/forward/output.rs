//! Sending to subscribers, some of which may be too slow.
//!
//! XPUB with NODROP tells when the queue of a subscriber is full. Then everyone waits for it, once and for a bounded time;
//! what it does not take by then is sent to the others alone, and the libzmq of this workspace counts what it lost
//! (`hwgate_zmq::lost`). It gets messages again when it has read half of its queue.

use std::time::{Duration, Instant};

use hwgate_zmq::{Incoming, Lost, lost, set_xpub_nodrop};

use super::relay::subscriptions;

/// The longest that the socket's queue is sent for after it was closed.
const LINGER: Duration = Duration::from_secs(2);
/// A wait is done in slices of so many milliseconds, between which the thread does what cannot wait for long.
const SLICE_MS: i32 = 20;

pub(super) struct Output {
    pub socket: zmq::Socket,
    /// Whether a full queue may be waited for: not again before a message has gone through.
    may_wait: bool,
    /// How often a queue was waited for.
    pub waits: u64,
    /// Whether a message is being sent.
    open: bool,
}

impl Output {
    pub fn new(mut socket: zmq::Socket) -> zmq::Result<Output> {
        set_xpub_nodrop(&mut socket, true)?;
        Ok(Output { socket, may_wait: true, waits: 0, open: false })
    }

    /// Lets what waits in queues be sent for a while after the socket is closed.
    pub fn linger(&self, most: Duration) {
        let _ = self.socket.set_linger(most.min(LINGER).as_millis() as i32);
    }

    /// Ends a message that was broken off, if there is one.
    pub fn end_message(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = self.socket.send("", zmq::DONTWAIT);
        }
    }

    /// Sends one message to all who subscribed to it, and tells what was lost. When a queue is full, `go_on` is asked
    /// again and again whether to wait longer than it has waited; it also gets the count of waits.
    pub fn send(&mut self, frames: &mut [Incoming], go_on: impl FnMut(Duration, u64) -> bool) -> Lost {
        let before = lost();
        let Some((first, rest)) = frames.split_first_mut() else { return Lost::default() };
        let more = |last: bool| if last { 0 } else { zmq::SNDMORE };
        let flags = more(rest.is_empty());
        let sent = first.send(&mut self.socket, flags | zmq::DONTWAIT).is_ok();
        self.may_wait = sent || self.wait(first, flags, go_on);
        self.open = !rest.is_empty();
        let mut lossy = !self.may_wait && self.send_lossy(first, flags);
        let last = rest.len();
        for (index, frame) in rest.iter_mut().enumerate() {
            let flags = more(index + 1 == last);
            // A queue that took the first frame takes all: it counts whole messages.
            if frame.send(&mut self.socket, flags | zmq::DONTWAIT).is_err() {
                lossy |= self.send_lossy(frame, flags);
            }
        }
        self.open = false;
        if lossy {
            let _ = set_xpub_nodrop(&mut self.socket, true);
        }
        lost().since(before)
    }

    /// Tries as long as it may, at least for a millisecond; whether the frame went through.
    ///
    /// The millisecond is needed: a send that may not wait looks for news of its queues but now and then, and takes one
    /// that was just read for full.
    fn wait(
        &mut self,
        frame: &mut Incoming,
        flags: i32,
        mut go_on: impl FnMut(Duration, u64) -> bool,
    ) -> bool {
        let begun = Instant::now();
        let mut waits = self.waits;
        loop {
            let patient = self.may_wait && go_on(begun.elapsed(), waits);
            let slice = if patient { SLICE_MS } else { 1 };
            let sent = self.socket.set_sndtimeo(slice).and_then(|()| frame.send(&mut self.socket, flags));
            // One that was only taken for full is not waited for.
            if patient && begun.elapsed() >= Duration::from_millis(1) {
                waits = self.waits + 1;
            }
            if sent.is_ok() || !patient {
                self.waits = waits;
                return sent.is_ok();
            }
            // They come in while it waits, and would pile up.
            subscriptions(&self.socket);
        }
    }

    /// Sends a frame to those who have room for it; NODROP is off afterwards.
    fn send_lossy(&mut self, frame: &mut Incoming, flags: i32) -> bool {
        let _ = set_xpub_nodrop(&mut self.socket, false);
        let _ = frame.send(&mut self.socket, flags | zmq::DONTWAIT);
        true
    }
}
