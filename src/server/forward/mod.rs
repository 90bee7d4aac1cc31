//! `[[forward]]`: what publishers send is passed on to subscribers, counted, and logged where that is wanted.
//!
//! | file | what is in it |
//! |---|---|
//! | `relay.rs` | the thread that owns a forwarder's sockets and passes messages on |
//! | `output.rs` | sending to subscribers, some of which may be too slow |
//! | `monitor.rs` | showing what comes in to whoever watches |
//! | `connections.rs` | how many publishers and subscribers are connected |
//! | `counts.rs` | counts that add up |
//! | `report.rs` | when to tell people of what was dropped |
//!
//! Its `state` endpoint is served as `commands` is, by `server/commands.rs`, with the methods of `methods/forward.rs`.

mod connections;
mod counts;
mod monitor;
mod output;
mod relay;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::metrics::LogMetrics;
use super::socket::{Binder, set_publisher};
use super::state::{Role, Shared};
use crate::config::ForwardConfig;
use crate::events::Hub;
use crate::util::guard;
use crate::wake;
use crate::wire::event::Fields;
use crate::wire::text;
use crate::{Error, Kind, Result};

use connections::Connections;
use counts::Counts;
use monitor::Monitor;
use output::Output;
use relay::Relay;

/// Topics that are remembered by name; further registrations are answered and counted all the same.
const REGISTERED: usize = 1000;
/// Of a longer topic the rest is not remembered, in bytes.
const TOPIC_BYTES: usize = 1024;

/// A forwarder as other threads see it.
pub(super) struct Forward {
    pub id: String,
    /// Names and real endpoints.
    endpoints: Vec<(&'static str, String)>,
    paused: AtomicBool,
    counts: Mutex<Counts>,
    /// Counts of what is logged, with `journal = true`.
    pub log: Option<Arc<LogMetrics>>,
    registered: Mutex<Registered>,
    state: Mutex<State>,
}

/// What subscribers to `forward/<id>/state/` know.
#[derive(Default)]
struct State {
    paused: bool,
    /// Subscribers lose messages.
    slow: bool,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State { paused: true, .. } => "paused",
            State { slow: true, .. } => "slow",
            _ => "running",
        }
    }
}

/// Topics that producers registered by INIT.
#[derive(Default)]
struct Registered {
    /// How often each came.
    topics: BTreeMap<String, u64>,
    /// How many came, in all.
    count: u64,
}

impl Forward {
    /// Begins to drop what comes in, or ends it. In force for every message that is sent after this returned.
    pub fn pause(&self, paused: bool, hub: &Hub) {
        if self.paused.swap(paused, Ordering::AcqRel) != paused {
            log::info!("forward {}: {}", self.id, if paused { "paused" } else { "resumed" });
        }
        self.change(hub, &Fields::none(), |state| state.paused = paused);
    }

    /// Notes that subscribers have begun to lose messages, or that none has for a while; `dropped` is how many there were
    /// in all.
    fn set_slow(&self, slow: bool, dropped: u64, hub: &Hub) {
        self.change(hub, &Fields::none().with("dropped", dropped), |state| state.slow = slow);
    }

    /// Changes the state and publishes it, if it is another one.
    fn change(&self, hub: &Hub, fields: &Fields, change: impl FnOnce(&mut State)) {
        // Locked while it is published, so that the last event is the last state.
        let mut state = guard(&self.state);
        let before = state.name();
        change(&mut state);
        let name = state.name();
        if name != before {
            let topic = format!("forward/{}/state/", self.id);
            hub.publish(&topic, &fields.clone().with("state", name), name);
        }
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Notes that a producer registered a topic.
    pub fn register(&self, topic: &[u8]) {
        let decoded = text::decode(text::classify(topic, None), topic).text;
        let name = &decoded[..decoded.floor_char_boundary(TOPIC_BYTES)];
        let mut registered = guard(&self.registered);
        registered.count += 1;
        let room = registered.topics.len() < REGISTERED;
        match registered.topics.get_mut(name) {
            Some(count) => *count += 1,
            None if room => drop(registered.topics.insert(name.to_owned(), 1)),
            None => {}
        }
    }

    pub fn to_json(&self) -> Value {
        // A copy, taken at once: what it counts adds up.
        let counts = guard(&self.counts).clone();
        let endpoints: serde_json::Map<String, Value> =
            self.endpoints.iter().map(|(name, endpoint)| (name.to_string(), json!(endpoint))).collect();
        let registered = guard(&self.registered);
        let mut stats = json!({
            "id": self.id,
            "endpoints": endpoints,
            "paused": self.is_paused(),
            "registrations": registered.count,
            "registered": registered.topics,
            "log": self.log.as_ref().map(|log| log.to_json()),
        });
        counts.write(&mut stats, self.endpoints.iter().any(|(name, _)| *name == "monitor"));
        stats
    }
}

/// The sockets of a forwarder, bound, before its threads are there.
pub(super) struct Bound {
    config: ForwardConfig,
    input: (zmq::Socket, Connections),
    output: (Output, Connections),
    monitor: Option<Monitor>,
    state: Option<zmq::Socket>,
    endpoints: Vec<(&'static str, String)>,
}

/// Binds all sockets of all forwarders.
pub(super) fn bind(binder: &mut Binder<'_>, configs: &[ForwardConfig]) -> Result<Vec<Bound>> {
    configs.iter().map(|config| bind_one(binder, config)).collect()
}

fn bind_one(binder: &mut Binder<'_>, config: &ForwardConfig) -> Result<Bound> {
    let context = binder.context().clone();
    let mut endpoints = Vec::new();
    let mut bind =
        |kind, key: &'static str, endpoint: &str, set: &mut dyn FnMut(&zmq::Socket) -> zmq::Result<()>| {
            let name = format!("forward.{}.{key}", config.id);
            let (socket, real) = binder.bind(kind, &name, endpoint, set)?;
            endpoints.push((key, real));
            Ok::<_, Error>(socket)
        };
    let mut publishers = None;
    let input = bind(zmq::SUB, "input", &config.input, &mut |socket| {
        socket.set_rcvhwm(config.receive_hwm)?;
        socket.set_subscribe(b"")?;
        publishers = Some(Connections::watch(&context, socket)?);
        Ok(())
    })?;
    let mut subscribers = None;
    let output = bind(zmq::XPUB, "output", &config.output, &mut |socket| {
        set_publisher(socket, config.send_hwm)?;
        subscribers = Some(Connections::watch(&context, socket)?);
        Ok(())
    })?;
    let output = Output::new(output).map_err(failed)?;
    let mut watchers = None;
    let monitor = match &config.monitor {
        Some(endpoint) => Some(bind(zmq::XPUB, "monitor", endpoint, &mut |socket| {
            set_publisher(socket, config.monitor_hwm)?;
            watchers = Some(Connections::watch(&context, socket)?);
            Ok(())
        })?),
        None => None,
    };
    let monitor = monitor.zip(watchers).map(|(socket, watchers)| Monitor::new(socket, watchers));
    let state = match &config.state {
        Some(endpoint) => Some(bind(zmq::ROUTER, "state", endpoint, &mut |_| Ok(()))?),
        None => None,
    };
    let (Some(publishers), Some(subscribers)) = (publishers, subscribers) else {
        return Err(failed(zmq::Error::EFAULT));
    };
    let (input, output) = ((input, publishers), (output, subscribers));
    Ok(Bound { config: config.clone(), input, output, monitor, state, endpoints })
}

fn failed(error: zmq::Error) -> Error {
    Error::new(Kind::Internal, format!("forward: {error}"))
}

impl Bound {
    /// What other threads share of this forwarder.
    pub fn handle(&self) -> Arc<Forward> {
        Arc::new(Forward {
            id: self.config.id.clone(),
            endpoints: self.endpoints.clone(),
            paused: AtomicBool::new(false),
            counts: Mutex::default(),
            log: self.config.journal.then(Arc::default),
            registered: Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Starts the thread that passes messages on, and gives back the socket of `state`. The thread ends when
    /// [`Shared::stop_by`] was called and the input is drained.
    pub fn spawn(
        mut self,
        shared: &Arc<Shared>,
        context: &zmq::Context,
        forward: &Arc<Forward>,
    ) -> Result<(JoinHandle<()>, Option<zmq::Socket>)> {
        let state = self.state.take();
        let (woken, waker) = wake::pair(context)?;
        let pulse = shared.attend(Role::Forward, waker);
        let mut relay = Relay::new(shared, forward, pulse, woken, self);
        let thread = std::thread::Builder::new().name("forward".into()).spawn(move || relay.run());
        let failed = |error| Error::new(Kind::Internal, format!("cannot start the forward thread: {error}"));
        Ok((thread.map_err(failed)?, state))
    }
}
