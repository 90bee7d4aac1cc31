//! Hardware: what it says becomes events, what it is asked becomes replies.
//!
//! device -> event; command -> device -> reply. Each serial port and the sound output has a thread of its own that
//! does what takes time; whoever asks gets the answer through a [`Reply`] and waits for nothing.

pub mod audio;
pub mod lease;
mod reply;
pub mod serial;

pub use reply::Reply;

use std::sync::Arc;
use std::time::Instant;

use crate::config::Config;
use crate::events::Hub;

/// All devices of a gateway.
pub struct Devices {
    /// The serial ports.
    pub serial: serial::Ports,
    /// The sound output.
    pub audio: audio::Audio,
}

impl Devices {
    /// Starts the threads; what cannot be opened now is tried again later and does not fail the start.
    pub fn start(config: &Config, hub: &Arc<Hub>) -> Devices {
        let serial = serial::Ports::new(hub.clone());
        serial.configure(&config.serial);
        let audio = audio::Audio::new(&config.audio, &config.gateway.audio_dir, hub.clone());
        Devices { serial, audio }
    }

    /// Ends all threads: ports are closed, sounds stopped, requests that wait answered with SHUTTING_DOWN.
    pub fn stop(&self, deadline: Instant) {
        self.serial.stop(deadline);
        self.audio.stop_all(deadline);
    }
}
