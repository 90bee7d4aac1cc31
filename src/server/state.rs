//! What the threads of a gateway share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Result;
use crate::config::{self, Config};
use crate::device::Devices;
use crate::events::Hub;
use crate::journal::{Journal, Recovery};

use super::forward::Forward;
use super::live::Live;
use super::metrics::LogMetrics;
use super::sinks::Sinks;
use crate::util::guard;
use crate::wake::Waker;
use crate::wire::event::Fields;

/// What a thread that owns sockets is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Intake,
    Commands,
    Events,
    /// One thread for each `[[forward]]`.
    Forward,
    /// One thread for each `state` of a `[[forward]]`.
    ForwardState,
}

/// A thread that owns sockets shows by it that it is alive.
pub(super) struct Pulse {
    started: Instant,
    /// When it last came round, in milliseconds since the start.
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// Notes that the thread came round.
    pub fn beat(&self) {
        self.last.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

/// A thread that owns sockets, as others see it.
struct Attendant {
    role: Role,
    waker: Waker,
    last: Arc<AtomicU64>,
}

/// What the threads of a gateway share.
pub(super) struct Shared {
    /// What the gateway is called.
    pub name: String,
    /// Names this run of the gateway.
    pub session: String,
    pub started: Instant,
    /// Names and real endpoints, in the order of the settings.
    pub endpoints: Vec<(String, String)>,
    pub journal: Arc<Journal>,
    pub recovery: Recovery,
    pub sinks: Sinks,
    pub intake: Arc<LogMetrics>,
    /// Records that all channels dropped because the journal took nothing.
    pub lost_records: Arc<AtomicU64>,
    /// In the order of the settings.
    pub forwards: Vec<Arc<Forward>>,
    pub hub: Arc<Hub>,
    pub devices: Devices,
    pub live: Live,
    settings: Mutex<Settings>,
    stop: Mutex<Stop>,
    stop_changed: Condvar,
    attendants: Mutex<Vec<Attendant>>,
    degraded: Mutex<Option<String>>,
}

struct Settings {
    config: Config,
    intake: Arc<config::Intake>,
}

#[derive(Default)]
struct Stop {
    /// Somebody asked by command; whoever runs the gateway stops it.
    requested: bool,
    /// Stopping: sockets are drained until then at the latest.
    deadline: Option<Instant>,
    /// When the gateway shall have stopped.
    end: Option<Instant>,
    /// Everything else is closed; the command thread may end.
    commands_may_end: bool,
}

impl Shared {
    pub fn new(
        config: Config,
        endpoints: Vec<(String, String)>,
        journal: Arc<Journal>,
        recovery: Recovery,
        forwards: Vec<Arc<Forward>>,
    ) -> Result<Shared> {
        let lost_records = Arc::<AtomicU64>::default();
        let sinks = Sinks::start(&config, &journal, lost_records.clone())?;
        let session = uuid::Uuid::new_v4().to_string();
        let hub = Arc::new(Hub::new(&session));
        Ok(Shared {
            name: config.gateway.name.clone(),
            session,
            devices: Devices::start(&config, &hub),
            hub,
            live: Live::default(),
            started: Instant::now(),
            endpoints,
            journal,
            recovery,
            sinks,
            intake: Arc::default(),
            lost_records,
            forwards,
            settings: Mutex::new(Settings { intake: Arc::new(config.intake.clone()), config }),
            stop: Mutex::default(),
            stop_changed: Condvar::new(),
            attendants: Mutex::default(),
            degraded: Mutex::default(),
        })
    }

    /// The settings in force.
    pub fn config(&self) -> Config {
        guard(&self.settings).config.clone()
    }

    /// The limits of the intake in force.
    pub fn intake_limits(&self) -> Arc<config::Intake> {
        guard(&self.settings).intake.clone()
    }

    /// Reads the settings again and applies what can be: sinks and limits.
    pub fn reload(&self) -> Result<Reloaded> {
        let loaded = self.config().load_again()?;
        for warning in &loaded.warnings {
            log::warn!("{warning}");
        }
        let old = self.config();
        let new = loaded.config;
        let diff = config::diff(&old, &new);
        self.sinks.replace(&Config { logs: new.logs.clone(), ..old.clone() }, &self.journal)?;
        let mut settings = guard(&self.settings);
        // Keys that wait for a restart keep their old value here, so that `stats` and `hello` tell what
        // is in force and the next reload names them again.
        settings.config.intake.max_text = new.intake.max_text;
        settings.config.intake.encoding = new.intake.encoding;
        settings.config.logs = new.logs;
        settings.config.serial = new.serial.clone();
        settings.intake = Arc::new(settings.config.intake.clone());
        drop(settings);
        self.devices.serial.configure(&new.serial);
        self.announce("reloaded", &Fields::none().with("needs_restart", &diff.needs_restart));
        self.wake(Role::Intake);
        self.wake(Role::Forward);
        Ok(Reloaded { changed: diff.reload, waiting: diff.needs_restart })
    }

    /// Enters a thread that owns sockets: it is woken by its role, and watched by its pulse.
    pub fn attend(&self, role: Role, waker: Waker) -> Pulse {
        let pulse = Pulse { started: self.started, last: Arc::default() };
        pulse.beat();
        guard(&self.attendants).push(Attendant { role, waker, last: pulse.last.clone() });
        pulse
    }

    pub fn wake(&self, role: Role) {
        guard(&self.attendants).iter().filter(|one| one.role == role).for_each(|one| one.waker.wake());
    }

    /// Closes the wakers' sockets, without which the context cannot end.
    pub fn close_wakers(&self) {
        guard(&self.attendants).clear();
    }

    /// Whether every thread came round within `limit`.
    pub fn healthy(&self, limit: Duration) -> bool {
        let now = self.started.elapsed().as_millis() as u64;
        let age = |one: &Attendant| now.saturating_sub(one.last.load(Ordering::Relaxed));
        guard(&self.attendants).iter().all(|one| age(one) <= limit.as_millis() as u64)
    }

    /// Why records are being lost now, if they are.
    pub fn degraded(&self) -> Option<String> {
        guard(&self.degraded).clone()
    }

    pub fn set_degraded(&self, reason: Option<String>) {
        let before = std::mem::replace(&mut *guard(&self.degraded), reason.clone());
        match (before, reason) {
            (None, Some(reason)) => self.announce("degraded", &Fields::none().with("reason", reason)),
            (Some(_), None) => self.announce("ok", &Fields::none()),
            _ => {}
        }
    }

    /// Publishes what became of the gateway.
    pub fn announce(&self, state: &str, fields: &Fields) {
        self.hub.publish("gateway/state/", &fields.clone().with("state", state), state);
    }

    /// Asks whoever runs the gateway to stop it.
    pub fn request_shutdown(&self) {
        guard(&self.stop).requested = true;
        self.stop_changed.notify_all();
    }

    pub fn wait_for_shutdown_request(&self, timeout: Duration) -> bool {
        let stop = guard(&self.stop);
        let wait = self.stop_changed.wait_timeout_while(stop, timeout, |stop| !stop.requested);
        wait.unwrap_or_else(PoisonError::into_inner).0.requested
    }

    /// Begins to stop; sockets are drained until `deadline` at the latest, and all has ended at `end`.
    pub fn stop_by(&self, deadline: Instant, end: Instant) {
        let mut stop = guard(&self.stop);
        (stop.deadline, stop.end) = (Some(deadline), Some(end));
        drop(stop);
        self.announce("stopping", &Fields::none());
        for role in [Role::Intake, Role::Forward, Role::Commands, Role::ForwardState] {
            self.wake(role);
        }
    }

    /// How long stopping may still take.
    pub fn grace_left(&self) -> Duration {
        let end = guard(&self.stop).end;
        end.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Until when sockets are drained, once the gateway is stopping.
    pub fn stopping(&self) -> Option<Instant> {
        guard(&self.stop).deadline
    }

    /// Lets the threads of commands and of events end.
    pub fn finish_commands(&self) {
        guard(&self.stop).commands_may_end = true;
        for role in [Role::Commands, Role::ForwardState, Role::Events] {
            self.wake(role);
        }
    }

    pub fn commands_may_end(&self) -> bool {
        guard(&self.stop).commands_may_end
    }
}

/// What a reload did.
pub(super) struct Reloaded {
    /// What changed and is in force.
    pub changed: Vec<String>,
    /// Keys whose new value waits for a restart.
    pub waiting: Vec<String>,
}

impl std::fmt::Display for Reloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("settings reloaded; in force now: ")?;
        f.write_str(if self.changed.is_empty() { "nothing new" } else { "" })?;
        f.write_str(&self.changed.join(", "))?;
        if !self.waiting.is_empty() {
            write!(f, "; waiting for a restart: {}", self.waiting.join(", "))?;
        }
        Ok(())
    }
}
