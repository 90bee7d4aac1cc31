//! What the threads of a gateway share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Result;
use crate::config::{self, Config};
use crate::device::Devices;
use crate::events::Hub;
use crate::journal::{Journal, Recovery};

use super::live::Live;
use super::metrics::{Drop, IntakeMetrics};
use super::sinks::Sinks;
use crate::util::guard;
use crate::wake::Waker;
use crate::wire::event::Fields;

/// The threads that own a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Role {
    Intake,
    Commands,
    Events,
}

const ROLES: usize = 3;

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
    pub intake: IntakeMetrics,
    pub hub: Arc<Hub>,
    pub devices: Devices,
    pub live: Live,
    settings: Mutex<Settings>,
    stop: Mutex<Stop>,
    stop_changed: Condvar,
    wakers: Mutex<Vec<(Role, Waker)>>,
    /// When each thread last came round, in milliseconds since the start; 0 is a thread that is not there.
    beats: [AtomicU64; ROLES],
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
    /// Everything else is closed; the command thread may end.
    commands_may_end: bool,
}

impl Shared {
    pub fn new(
        config: Config,
        endpoints: Vec<(String, String)>,
        journal: Arc<Journal>,
        recovery: Recovery,
    ) -> Result<Shared> {
        let intake = IntakeMetrics::default();
        let sinks = Sinks::start(&config, &journal, intake.dropped_counter(Drop::DiskFull))?;
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
            intake,
            settings: Mutex::new(Settings { intake: Arc::new(config.intake.clone()), config }),
            stop: Mutex::default(),
            stop_changed: Condvar::new(),
            wakers: Mutex::default(),
            beats: Default::default(),
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
        Ok(Reloaded { changed: diff.reload, waiting: diff.needs_restart })
    }

    pub fn add_waker(&self, role: Role, waker: Waker) {
        guard(&self.wakers).push((role, waker));
    }

    pub fn wake(&self, role: Role) {
        for (_, waker) in guard(&self.wakers).iter().filter(|(of, _)| *of == role) {
            waker.wake();
        }
    }

    /// Closes the wakers' sockets, without which the context cannot end.
    pub fn close_wakers(&self) {
        guard(&self.wakers).clear();
    }

    /// Notes that a thread came round.
    pub fn beat(&self, role: Role) {
        let now = self.started.elapsed().as_millis() as u64;
        self.beats[role as usize].store(now.max(1), Ordering::Relaxed);
    }

    /// Whether every thread came round within `limit`.
    pub fn healthy(&self, limit: Duration) -> bool {
        let now = self.started.elapsed().as_millis() as u64;
        self.beats
            .iter()
            .map(|beat| beat.load(Ordering::Relaxed))
            .all(|beat| beat == 0 || now.saturating_sub(beat) <= limit.as_millis() as u64)
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

    /// Begins to stop; sockets are drained until `deadline` at the latest.
    pub fn stop_by(&self, deadline: Instant) {
        guard(&self.stop).deadline = Some(deadline);
        self.announce("stopping", &Fields::none());
        self.wake(Role::Intake);
        self.wake(Role::Commands);
    }

    /// Until when sockets are drained, once the gateway is stopping.
    pub fn stopping(&self) -> Option<Instant> {
        guard(&self.stop).deadline
    }

    /// Lets the threads of commands and of events end.
    pub fn finish_commands(&self) {
        guard(&self.stop).commands_may_end = true;
        self.wake(Role::Commands);
        self.wake(Role::Events);
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
