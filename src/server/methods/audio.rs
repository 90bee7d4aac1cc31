//! Sounds.

use serde::Deserialize;

use super::{Called, Method, Outcome, device, later};
use crate::device::audio::Sound;
use crate::server::state::Shared;
use crate::wire::data;
use crate::wire::rpc::{Fault, Params};

pub(super) const METHODS: &[Method] = &[
    ("audio.list", list),
    ("audio.play", play),
    ("audio.stop", stop),
    ("audio.volume", volume),
    ("audio.status", status),
];

fn list(_: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    later(|shared| Ok(shared.devices.audio.list()?))
}

#[derive(Deserialize)]
struct Play {
    /// A file below `audio_dir`.
    file: Option<String>,
    /// The content of a file instead.
    data_base64: Option<String>,
    volume: Option<f64>,
}

fn play(_: &Shared, method: &str, params: Params) -> Called {
    let play: Play = params.read(method)?;
    let sound = match (play.file, play.data_base64) {
        (Some(file), None) => Sound::File(file),
        (None, Some(text)) => Sound::Bytes(
            data::decode(&text)
                .ok_or_else(|| Fault::invalid_params(format!("{method}: data_base64: this is not base64")))?,
        ),
        _ => return Err(Fault::invalid_params(format!("{method}: give either file or data_base64"))),
    };
    check_volume(method, play.volume)?;
    device(move |shared, reply| shared.devices.audio.play(sound, play.volume, reply))
}

fn check_volume(method: &str, volume: Option<f64>) -> Result<(), Fault> {
    match volume {
        Some(volume) if !(0.0..=2.0).contains(&volume) => Err(Fault::invalid_params(format!(
            "{method}: volume must be 0.0 to 2.0; 1.0 leaves a sound as it is"
        ))),
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
struct Stop {
    /// One play; all without it.
    play: Option<u64>,
}

fn stop(_: &Shared, method: &str, params: Params) -> Called {
    let Stop { play } = params.read(method)?;
    device(move |shared, reply| shared.devices.audio.stop(play, reply))
}

#[derive(Deserialize)]
struct Volume {
    /// One play; everything without it.
    play: Option<u64>,
    /// Without it the volume is told and stays.
    volume: Option<f64>,
}

fn volume(shared: &Shared, method: &str, params: Params) -> Called {
    let Volume { play, volume } = params.read(method)?;
    check_volume(method, volume)?;
    Ok(Outcome::Now(shared.devices.audio.volume(play, volume)?))
}

fn status(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    Ok(Outcome::Now(shared.devices.audio.status()))
}
