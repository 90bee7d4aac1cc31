//! What the service manager is told. Only systemd listens; elsewhere all of it does nothing.

use std::time::{Duration, Instant};

/// The service manager that started us, if it did.
pub struct Supervisor {
    /// How often it wants to hear that all is well.
    every: Option<Duration>,
    last: Instant,
}

impl Supervisor {
    /// Reads what the manager asks for.
    pub fn new() -> Supervisor {
        // Twice in the time it waits, so that one late beat does no harm.
        Supervisor { every: watchdog().map(|time| time / 2), last: Instant::now() }
    }

    /// The gateway serves.
    pub fn ready(&self) {
        notify(State::Ready);
    }

    /// The settings are being read again; followed by [`Supervisor::ready`].
    pub fn reloading(&self) {
        notify(State::Reloading);
    }

    /// The gateway stops.
    pub fn stopping(&self) {
        notify(State::Stopping);
    }

    /// Beats when it is time and all is well.
    pub fn beat(&mut self, healthy: impl FnOnce() -> bool) {
        let Some(every) = self.every else { return };
        if self.last.elapsed() >= every && healthy() {
            self.last = Instant::now();
            notify(State::Alive);
        }
    }
}

/// What the manager can be told.
enum State {
    Ready,
    Reloading,
    Stopping,
    Alive,
}

#[cfg(target_os = "linux")]
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

#[cfg(target_os = "linux")]
fn notify(state: State) {
    use sd_notify::NotifyState;
    let sent = match state {
        State::Ready => sd_notify::notify(&[NotifyState::Ready]),
        // The time tells systemd which READY belongs to this reload.
        State::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        State::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        State::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
    };
    if let Err(error) = sent {
        log::warn!("the service manager cannot be told: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn watchdog() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
fn notify(_: State) {}
