//! The gateway itself: [`start`] binds, recovers and serves until [`Server::stop`].
//!
//! Each socket belongs to one thread, woken by a `wake::Waker`; data flows one way:
//! channel -> journal -> sink. What threads share is in `state::Shared`.
//!
//! | file | what is in it |
//! |---|---|
//! | `socket.rs` | listening sockets and their options |
//! | `intake.rs` | `logs`: plain messages go into the journal |
//! | `recorder.rs` | messages become records, batches, frames of the journal |
//! | `forward/` | `[[forward]]`: publishers' messages go to subscribers |
//! | `commands.rs` | `commands`: requests and their replies |
//! | `methods/` | what each method does |
//! | `repeats.rs` | requests that come again |
//! | `events.rs` | `events`: from the hub to the subscribers |
//! | `live.rs` | log records as events |
//! | `sinks.rs` | the set of `[[log]]` sinks, and changing it |
//! | `metrics.rs` | counts |

mod commands;
mod events;
mod forward;
mod intake;
mod live;
mod methods;
mod metrics;
mod recorder;
mod repeats;
mod sinks;
mod socket;
mod state;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::journal::{self, Journal};
use crate::{Error, Kind, Result};

use crate::wire::event::Fields;
use state::Shared;

/// How much of the time for stopping goes to messages that are still under way.
const DRAIN_SHARE: f64 = 0.5;

/// A gateway that serves. Dropping it stops it, with a second of grace.
pub struct Server {
    shared: Arc<Shared>,
    channels: Channels,
    context: zmq::Context,
    /// Locks of ipc endpoints, held as long as they are bound.
    _locks: Vec<std::fs::File>,
}

/// Binds all endpoints, opens the journal, starts the sinks and serves.
///
/// Returns when everything is up: what is sent from now on is taken.
///
/// # Errors
/// ADDR_IN_USE when an endpoint or the journal belongs to another process, PERMISSION, NOT_FOUND,
/// DISK_FULL or IO with the path when something cannot be made. Nothing is left half open.
pub fn start(config: Config) -> Result<Server> {
    crate::sink::check(&config.logs)?;
    let context = zmq::Context::new();
    // All sockets first: a second gateway must fail before it touches a file of the first.
    let mut binder = socket::Binder::new(&context, &config);
    let sockets = Sockets::bind(&mut binder, &config)?;
    let socket::Binder { endpoints, locks, .. } = binder;
    let forwards = sockets.forwards.iter().map(forward::Bound::handle).collect();

    let (journal, recovery) = Journal::open(journal::Options {
        max_bytes: config.journal.max_bytes,
        max_age: config.journal.max_age,
        ..journal::Options::new(&config.journal.dir)
    })?;
    if recovery.cut_bytes > 0 || recovery.damaged_places > 0 {
        log::warn!(
            "journal: {} bytes of an unfinished write cut off, {} damaged bytes in {} places passed over",
            recovery.cut_bytes,
            recovery.damaged_bytes,
            recovery.damaged_places
        );
    }
    let shared = Arc::new(Shared::new(config, endpoints, journal, recovery, forwards)?);
    match Channels::spawn(&shared, &context, sockets) {
        Ok(channels) => {
            shared.announce("started", &Fields::none().with("version", env!("CARGO_PKG_VERSION")));
            Ok(Server { shared, channels, context, _locks: locks })
        }
        Err(error) => {
            let now = Instant::now();
            shared.stop_by(now, now);
            shared.devices.stop(now);
            shared.hub.close();
            shared.finish_commands();
            let _ = shared.sinks.stop(now);
            shared.close_wakers();
            Err(error)
        }
    }
}

/// The sockets, bound, before their threads are there; none where an endpoint is off.
struct Sockets {
    commands: Option<zmq::Socket>,
    logs: Option<zmq::Socket>,
    events: Option<zmq::Socket>,
    forwards: Vec<forward::Bound>,
}

impl Sockets {
    fn bind(binder: &mut socket::Binder<'_>, config: &Config) -> Result<Sockets> {
        let mut bind = |kind,
                        name,
                        endpoint: &Option<String>,
                        set: fn(&zmq::Socket, &Config) -> zmq::Result<()>| {
            let Some(endpoint) = endpoint else { return Ok(None) };
            binder.bind(kind, name, endpoint, |socket| set(socket, config)).map(|(socket, _)| Some(socket))
        };
        Ok(Sockets {
            commands: bind(zmq::ROUTER, "commands", &config.endpoints.commands, |_, _| Ok(()))?,
            logs: bind(zmq::PULL, "logs", &config.endpoints.logs, |_, _| Ok(()))?,
            events: bind(zmq::XPUB, "events", &config.endpoints.events, events::set_options)?,
            forwards: forward::bind(binder, &config.forward)?,
        })
    }
}

/// The threads that own sockets; none where an endpoint is off or the thread has ended.
#[derive(Default)]
struct Channels {
    intake: Option<JoinHandle<()>>,
    commands: Option<JoinHandle<()>>,
    events: Option<JoinHandle<()>>,
    /// Owns no socket, and is there while `events` is.
    live: Option<JoinHandle<()>>,
    forwards: Vec<JoinHandle<()>>,
    forward_states: Vec<JoinHandle<()>>,
}

impl Channels {
    fn spawn(shared: &Arc<Shared>, context: &zmq::Context, sockets: Sockets) -> Result<Channels> {
        let Sockets { commands, logs, events, forwards } = sockets;
        let mut channels = Channels {
            live: events.is_some().then(|| live::spawn(shared)).transpose()?,
            commands: commands.map(|socket| commands::spawn(shared, context, socket, None)).transpose()?,
            intake: logs.map(|socket| intake::spawn(shared, context, socket)).transpose()?,
            events: events.map(|socket| events::spawn(shared, context, socket)).transpose()?,
            ..Channels::default()
        };
        for (bound, forward) in forwards.into_iter().zip(&shared.forwards) {
            let (thread, state) = bound.spawn(shared, context, forward)?;
            channels.forwards.push(thread);
            if let Some(socket) = state {
                let thread = commands::spawn(shared, context, socket, Some(forward.clone()))?;
                channels.forward_states.push(thread);
            }
        }
        Ok(channels)
    }

    fn any(&self) -> bool {
        let some = self.intake.is_some() || self.commands.is_some() || self.events.is_some();
        some || !self.forwards.is_empty()
    }
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) -> Result<()> {
    let panicked = |_| Error::new(Kind::Internal, "a thread ended by a panic; see the log");
    // All are waited for, whatever became of the first.
    let ends: Vec<Result<()>> = threads.into_iter().map(|thread| thread.join().map_err(panicked)).collect();
    ends.into_iter().collect()
}

impl Server {
    /// The endpoints with the ports that were really bound, in the order of the settings.
    pub fn endpoints(&self) -> &[(String, String)] {
        &self.shared.endpoints
    }

    /// Reads the settings again and applies what can be applied while running; tells what was done. A
    /// bad file is an error and leaves the old settings in force.
    pub fn reload(&self) -> Result<String> {
        self.shared.reload().map(|outcome| outcome.to_string())
    }

    /// Closes all log files and opens them again by their paths. Waits for the sinks, at most 3 s.
    pub fn reopen(&self) -> Result<()> {
        self.shared.sinks.reopen(Duration::from_secs(3))
    }

    /// Waits up to `timeout` and tells whether somebody asked for a shutdown by command.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait_for_shutdown_request(timeout)
    }

    /// Whether every thread that owns a socket has come round within the last ten seconds.
    pub fn healthy(&self) -> bool {
        self.shared.healthy(Duration::from_secs(10))
    }

    /// Stops: new requests are answered with SHUTTING_DOWN, messages under way are taken until none has
    /// come for 200 ms, files are written and synced, sockets closed. All within `grace`.
    ///
    /// # Errors
    /// TIMEOUT when a sink could not write everything in time: what is missing in the files is in the
    /// journal and is written at the next start.
    pub fn stop(mut self, grace: Duration) -> Result<()> {
        self.shut_down(grace)
    }

    fn shut_down(&mut self, grace: Duration) -> Result<()> {
        let start = Instant::now();
        let deadline = start + grace;
        self.shared.stop_by(start + grace.mul_f64(DRAIN_SHARE), deadline);
        let channels = std::mem::take(&mut self.channels);
        let intake = join(channels.intake);
        let forwards = join(channels.forwards);
        self.shared.devices.stop(deadline);
        let sinks = self.shared.sinks.stop(deadline);
        let journal = self.shared.journal.close();
        let live = join(channels.live);
        // What the end itself caused is published before the socket goes.
        self.shared.hub.drain(deadline);
        self.shared.hub.close();
        self.shared.finish_commands();
        let events = join(channels.events);
        let commands = join(channels.commands.into_iter().chain(channels.forward_states));
        // Then no socket is left, and ending the context waits only for what forwarders' subscribers still read.
        self.shared.close_wakers();
        let _ = self.context.destroy();
        intake.and(forwards).and(sinks).and(journal).and(live).and(events).and(commands)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.channels.any() {
            let _ = self.shut_down(Duration::from_secs(1));
        }
    }
}
