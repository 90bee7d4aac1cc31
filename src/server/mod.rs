//! The gateway itself: [`start`] binds, recovers and serves until [`Server::stop`].
//!
//! Each socket belongs to one thread, woken by a `wake::Waker`; data flows one way:
//! channel -> journal -> sink. What threads share is in `state::Shared`.
//!
//! | file | what is in it |
//! |---|---|
//! | `socket.rs` | listening sockets and their options |
//! | `intake.rs` | `logs`: plain messages become batches in the journal |
//! | `commands.rs` | `commands`: requests and their replies |
//! | `methods/` | what each method does |
//! | `repeats.rs` | requests that come again |
//! | `events.rs` | `events`: from the hub to the subscribers |
//! | `live.rs` | log records as events |
//! | `sinks.rs` | the set of `[[log]]` sinks, and changing it |
//! | `metrics.rs` | counts |

mod commands;
mod events;
mod intake;
mod live;
mod methods;
mod metrics;
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
    let mut locks = Vec::new();
    let mut endpoints = Vec::new();
    let mut bind = |kind, name, endpoint: &Option<String>| -> Result<Option<zmq::Socket>> {
        let Some(endpoint) = endpoint else { return Ok(None) };
        let bound = socket::bind(&context, kind, name, endpoint, &config)?;
        locks.extend(bound.lock);
        endpoints.push((name.to_owned(), bound.endpoint));
        Ok(Some(bound.socket))
    };
    // All sockets first: a second gateway must fail before it touches a file of the first.
    let commands = bind(zmq::ROUTER, "commands", &config.endpoints.commands)?;
    let logs = bind(zmq::PULL, "logs", &config.endpoints.logs)?;
    let events = bind(zmq::XPUB, "events", &config.endpoints.events)?;

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
    let shared = Arc::new(Shared::new(config, endpoints, journal, recovery)?);
    match Channels::spawn(&shared, &context, commands, logs, events) {
        Ok(channels) => {
            shared.announce("started", &Fields::none().with("version", env!("CARGO_PKG_VERSION")));
            Ok(Server { shared, channels, context, _locks: locks })
        }
        Err(error) => {
            let now = Instant::now();
            shared.stop_by(now);
            shared.devices.stop(now);
            shared.hub.close();
            shared.finish_commands();
            let _ = shared.sinks.stop(now);
            shared.close_wakers();
            Err(error)
        }
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
}

impl Channels {
    fn spawn(
        shared: &Arc<Shared>,
        context: &zmq::Context,
        commands: Option<zmq::Socket>,
        logs: Option<zmq::Socket>,
        events: Option<zmq::Socket>,
    ) -> Result<Channels> {
        Ok(Channels {
            live: events.is_some().then(|| live::spawn(shared)).transpose()?,
            commands: commands.map(|socket| commands::spawn(shared, context, socket)).transpose()?,
            intake: logs.map(|socket| intake::spawn(shared, context, socket)).transpose()?,
            events: events.map(|socket| events::spawn(shared, context, socket)).transpose()?,
        })
    }

    fn any(&self) -> bool {
        self.intake.is_some() || self.commands.is_some() || self.events.is_some()
    }
}

fn join(thread: &mut Option<JoinHandle<()>>) -> Result<()> {
    let panicked = |_| Error::new(Kind::Internal, "a thread ended by a panic; see the log");
    thread.take().map_or(Ok(()), |thread| thread.join().map_err(panicked))
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
        self.shared.stop_by(start + grace.mul_f64(DRAIN_SHARE));
        let intake = join(&mut self.channels.intake);
        self.shared.devices.stop(deadline);
        let sinks = self.shared.sinks.stop(deadline);
        let journal = self.shared.journal.close();
        let live = join(&mut self.channels.live);
        // What the end itself caused is published before the socket goes.
        self.shared.hub.drain(deadline);
        self.shared.hub.close();
        self.shared.finish_commands();
        let events = join(&mut self.channels.events);
        let commands = join(&mut self.channels.commands);
        // Then no socket is left, and ending the context returns at once.
        self.shared.close_wakers();
        let _ = self.context.destroy();
        intake.and(sinks).and(journal).and(live).and(events).and(commands)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.channels.any() {
            let _ = self.shut_down(Duration::from_secs(1));
        }
    }
}
