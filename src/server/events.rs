//! `events`: what the hub has queued goes to the subscribers.
//!
//! One thread owns the XPUB socket. It also learns from it what is subscribed to: that tells the hub what is heard,
//! and a subscription to `~sync/<uuid>/` is answered at once with one event on that topic. Subscriptions of one
//! client arrive in order, so all its earlier ones are then in force.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::socket::set_publisher;
use super::state::{Pulse, Role, Shared};
use crate::config::Config;
use crate::events::Stored;
use crate::util::now;
use crate::wake;
use crate::wire::event::{Fields, SYNC};
use crate::{Error, Kind, Result};

/// The longest the thread waits before it shows that it is alive, in milliseconds.
const WAIT_MS: i64 = 1000;
/// Subscriptions taken before events have their turn.
const TURN: usize = 1024;

/// Sets what the socket has besides what all have.
pub(super) fn set_options(socket: &zmq::Socket, config: &Config) -> zmq::Result<()> {
    set_publisher(socket, config.events.send_hwm)?;
    // A client that reconnects before its old connection is found dead subscribes to the same `~sync/` again.
    socket.set_xpub_verbose(true)
}

/// Starts the thread; it ends after [`crate::events::Hub::close`] and [`Shared::finish_commands`].
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: &zmq::Context,
    socket: zmq::Socket,
) -> Result<JoinHandle<()>> {
    let (woken, waker) = wake::pair(context)?;
    let pulse = shared.attend(Role::Events, waker);
    let weak = Arc::downgrade(shared);
    shared.hub.open(move || {
        if let Some(shared) = weak.upgrade() {
            shared.wake(Role::Events);
        }
    });
    let mut events =
        Events { shared: shared.clone(), pulse, socket, woken, queue: VecDeque::new(), last_id: 0 };
    std::thread::Builder::new()
        .name("events".into())
        .spawn(move || events.run())
        .map_err(|error| Error::new(Kind::Internal, format!("cannot start the event thread: {error}")))
}

struct Events {
    shared: Arc<Shared>,
    pulse: Pulse,
    socket: zmq::Socket,
    woken: zmq::Socket,
    queue: VecDeque<Arc<Stored>>,
    /// The newest event that was sent.
    last_id: u64,
}

impl Events {
    fn run(&mut self) {
        loop {
            self.pulse.beat();
            let mut items = [self.woken.as_poll_item(zmq::POLLIN), self.socket.as_poll_item(zmq::POLLIN)];
            let _ = zmq::poll(&mut items, WAIT_MS);
            wake::clear(&self.woken);
            // An event or subscription whose handling panics is a defect; the others must not suffer for it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.take_subscriptions()));
            let _ = catch_unwind(AssertUnwindSafe(|| self.send_events()));
            if self.shared.commands_may_end() {
                self.send_events();
                return;
            }
        }
    }

    fn send_events(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        self.shared.hub.take(&mut queue);
        for event in queue.drain(..) {
            // XPUB waits for nobody: a subscriber whose queue is full loses this one.
            let _ = self.socket.send(&event.topic, zmq::SNDMORE | zmq::DONTWAIT);
            let _ = self.socket.send(&event.header, zmq::SNDMORE | zmq::DONTWAIT);
            let _ = self.socket.send(&event.payload[..], zmq::DONTWAIT);
            self.last_id = event.id;
        }
        self.queue = queue;
    }

    fn take_subscriptions(&mut self) {
        for _ in 0..TURN {
            let Ok(frames) = self.socket.recv_multipart(zmq::DONTWAIT) else { return };
            // Anything else is a message that some XSUB sent; nobody reads those.
            let [frame] = &frames[..] else { continue };
            match frame.split_first() {
                Some((1, topic)) => {
                    self.shared.hub.heard.change(topic, true);
                    self.shared.live.subscribed(&self.shared);
                    self.confirm(topic);
                }
                Some((0, topic)) => self.shared.hub.heard.change(topic, false),
                _ => {}
            }
        }
    }

    /// Answers a subscription to `~sync/<uuid>/`. The answer's id is that of the newest event before it, so that a
    /// client knows what it may have missed; it counts in no topic and is not kept.
    fn confirm(&mut self, topic: &[u8]) {
        let is_sync = topic.len() > SYNC.len() && topic.starts_with(SYNC.as_bytes()) && topic.ends_with(b"/");
        if !is_sync {
            return;
        }
        let header = Fields::none().header(self.last_id, 0, self.shared.hub.session(), now());
        let _ = self.socket.send(topic, zmq::SNDMORE | zmq::DONTWAIT);
        let _ = self.socket.send(&header, zmq::SNDMORE | zmq::DONTWAIT);
        let _ = self.socket.send("", zmq::DONTWAIT);
    }
}
