//! The I/O thread's side of one subscription: its SUB socket, opened anew after each loss.
//!
//! A socket that connected once and never again tells apart what came before a loss and what came after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::link::{self, Link, Tries};
use super::order::{Ask, Order};
use super::queue::Queue;
use crate::wire::event::SYNC;
use crate::wire::{Endpoint, Event};
use crate::{Error, Kind, Result};

/// Events taken before other sockets have their turn.
const TURN: usize = 1000;
/// Events that wait in the socket; the gateway's own queue comes before it.
const RECEIVE_HWM: i32 = 10_000;
/// Until it tries again where nobody listens.
const PAUSE: Duration = Duration::from_millis(300);
/// Within this time after `connect` a subscription is in force, or something is wrong with the connection.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// One subscription.
pub(super) struct Feed {
    pub id: u64,
    pub topics: Vec<String>,
    pub queue: Arc<Queue>,
    pub order: Order,
    /// Where events come from, as far as is known.
    endpoint: Option<Endpoint>,
    open: Option<Open>,
    /// When to connect again.
    retry: Option<Instant>,
    dead_after: Duration,
}

struct Open {
    link: Link,
    /// The topic that tells that the subscription is in force.
    sync: String,
    until: Instant,
    synced: bool,
}

impl Feed {
    pub fn new(id: u64, topics: Vec<String>, queue: Arc<Queue>, dead_after: Duration) -> Feed {
        let order = Order::new(queue.clone());
        Feed { id, topics, queue, order, endpoint: None, open: None, retry: None, dead_after }
    }

    /// A gateway is connected: connects to its events, unless it is already.
    pub fn aim(&mut self, context: &zmq::Context, endpoint: Option<Endpoint>, session: &str, now: Instant) {
        if endpoint.is_none() {
            let text = "this gateway has no events ([endpoints] events is off)";
            self.queue.set_trouble(Error::new(Kind::NotEnabled, text));
        }
        let other = endpoint != self.endpoint
            || self.order.in_force_with().is_some_and(|known| known != session)
            || self.open.is_none();
        self.endpoint = endpoint;
        if other {
            self.open = None;
            self.order.disconnected();
            self.connect(context, now);
        }
    }

    fn connect(&mut self, context: &zmq::Context, now: Instant) {
        self.retry = None;
        let Some(endpoint) = &self.endpoint else { return };
        match Open::new(context, endpoint, &self.topics, self.dead_after, now) {
            Ok(open) => self.open = Some(open),
            Err(error) => {
                self.queue.set_trouble(error);
                self.retry = Some(now + PAUSE);
            }
        }
    }

    /// The sockets to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = &zmq::Socket> {
        self.open.iter().flat_map(|open| [&open.link.socket, &open.link.monitor])
    }

    /// When [`Feed::turn`] has something to do though no socket has.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.open {
            Some(open) => (!open.synced).then_some(open.until),
            None => self.retry,
        }
    }

    /// Takes what has come; `ready` tells whether the gateway is connected. Gives the replays to ask for.
    pub fn turn(&mut self, context: &zmq::Context, ready: bool, now: Instant) -> Vec<Ask> {
        let mut asks = Vec::new();
        if let Some(open) = &mut self.open {
            // First whether it is over: what is then in the socket is all there will be.
            let gone = std::iter::from_fn(|| open.link.event()).any(|event| event != link::Event::Up);
            let turn = if gone { usize::MAX } else { TURN };
            let was_synced = open.synced;
            for _ in 0..turn {
                let Ok(frames) = open.link.socket.recv_multipart(zmq::DONTWAIT) else { break };
                let Ok(event) = Event::from_frames(&frames) else { continue };
                if event.topic == open.sync {
                    open.synced = true;
                    asks.extend(self.order.synced(&event.session, event.id, now));
                } else if !event.topic.starts_with(SYNC) {
                    // A subscription to everything hears the ~sync/ of others.
                    asks.extend(self.order.event(event, now));
                }
            }
            if gone || (!open.synced && open.until <= now) {
                // One that worked is likely to work again at once.
                self.retry = Some(if was_synced { now } else { now + PAUSE });
                self.open = None;
                self.order.disconnected();
            }
        }
        // Without the gateway there is nobody to connect to; `aim` comes when it is back.
        if self.open.is_none() && ready && self.retry.is_some_and(|at| at <= now) {
            self.connect(context, now);
        }
        asks
    }
}

impl Open {
    fn new(
        context: &zmq::Context,
        endpoint: &Endpoint,
        topics: &[String],
        dead_after: Duration,
        now: Instant,
    ) -> Result<Open> {
        let dead_after = dead_after.as_millis() as i32;
        let link = Link::open(context, zmq::SUB, endpoint, Tries::Once, &|socket| {
            socket.set_rcvhwm(RECEIVE_HWM)?;
            // libzmq's own pings: a subscriber sends nothing, so it would not notice that its gateway is frozen.
            socket.set_heartbeat_ivl(dead_after / 3)?;
            socket.set_heartbeat_timeout(dead_after - dead_after / 3)
        })?;
        let sync = format!("{SYNC}{}/", Uuid::new_v4());
        // Sent in this order, and taken so by the gateway.
        for topic in topics.iter().chain([&sync]) {
            link.socket.set_subscribe(topic.as_bytes()).map_err(|error| link::zmq_error(endpoint, error))?;
        }
        Ok(Open { link, sync, until: now + SYNC_TIMEOUT, synced: false })
    }
}
