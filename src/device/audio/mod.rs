//! Sounds: files or bytes, played over each other.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::Reply;
use crate::config::AudioConfig;
use crate::events::Hub;
use crate::{Error, Kind, Result};

/// The sound output of a gateway.
pub struct Audio {}

/// What to play.
#[derive(Clone, Debug)]
pub enum Sound {
    /// A file below `audio_dir`, as the client wrote it.
    File(String),
    /// The content of a file.
    Bytes(Vec<u8>),
}

impl Audio {
    /// Opens nothing: the device is opened by the first sound.
    pub fn new(_config: &AudioConfig, _dir: &Path, _hub: Arc<Hub>) -> Audio {
        Audio {}
    }

    /// Starts a sound; answers `{"play": id, …}` when it is on its way.
    pub fn play(&self, _sound: Sound, _volume: Option<f32>, reply: Reply) {
        reply.answer(Err(Error::new(Kind::NotEnabled, "sound is not built yet")));
    }

    /// Stops one play, or all.
    pub fn stop(&self, _play: Option<u64>) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "sound is not built yet"))
    }

    /// Sets the volume of a play, or of everything; without one tells it.
    pub fn volume(&self, _play: Option<u64>, _volume: Option<f32>) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "sound is not built yet"))
    }

    /// What plays, and where to. Never waits for the device.
    pub fn status(&self) -> Value {
        Value::Null
    }

    /// The files that can be played, and the outputs that there are. May ask the system.
    pub fn list(&self) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "sound is not built yet"))
    }

    /// Stops everything and ends the thread; see [`super::Devices::stop`].
    pub fn stop_all(&self, _deadline: Instant) {}
}
