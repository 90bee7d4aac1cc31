//! The sound card that the system calls its default.
//!
//! On Linux libasound prints to standard error by itself when there is no card; only unsafe code could keep it quiet.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use rodio::cpal::traits::{DeviceTrait, HostTrait};
use rodio::cpal::{self, ErrorKind};
use rodio::{DeviceSinkBuilder, DeviceSinkError, MixerDeviceSink};
use serde_json::{Value, json};

use super::player::Ask;
use crate::{Error, Kind, Result};

/// How long the system may take to name its sound cards.
const NAMES_WAIT: Duration = Duration::from_secs(5);

/// Opens the default device. Waits for the system for as long as that likes.
///
/// NO_DEVICE, BUSY where another program holds it, PERMISSION.
pub(super) fn open(generation: u64, asks: Sender<Ask>) -> Result<MixerDeviceSink> {
    let mut trouble = Trouble::default();
    let failed = move |error: cpal::Error| {
        log::debug!("audio: {error}");
        let lost = match error.kind() {
            // A gap in the sound, or a note.
            ErrorKind::Xrun | ErrorKind::RealtimeDenied | ErrorKind::DeviceChanged => false,
            ErrorKind::DeviceNotAvailable | ErrorKind::StreamInvalidated => true,
            _ => trouble.lasts(Instant::now()),
        };
        if lost {
            let _ = asks.send(Ask::Lost(generation, format!("the sound card was lost: {error}")));
        }
    };
    let builder = DeviceSinkBuilder::from_default_device().map_err(no_device)?;
    let mut sink = builder.with_error_callback(failed).open_sink_or_fallback().map_err(no_device)?;
    // It would print to standard error.
    sink.log_on_drop(false);
    Ok(sink)
}

/// Tells errors that a card recovers from, as they come when sound systems start, from those that do not end. A card
/// that is dead may report them as fast as it can.
#[derive(Clone, Default)]
struct Trouble {
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Trouble {
    /// Notes an error; whether they have followed each other for a second.
    fn lasts(&mut self, now: Instant) -> bool {
        let follows = self.last.is_some_and(|last| now.duration_since(last) < Duration::from_millis(250));
        self.last = Some(now);
        if !follows {
            self.since = Some(now);
        }
        self.since.is_some_and(|since| now.duration_since(since) >= Duration::from_secs(1))
    }
}

fn no_device(error: DeviceSinkError) -> Error {
    use DeviceSinkError as E;
    let cause = match &error {
        E::PlayError(cause)
        | E::DefaultSinkConfigError(cause)
        | E::BuildError(cause)
        | E::SupportedConfigsError(cause) => Some(cause),
        _ => None,
    };
    let kind = match cause.map(cpal::Error::kind) {
        Some(ErrorKind::DeviceBusy) => Kind::Busy,
        Some(ErrorKind::PermissionDenied) => Kind::Permission,
        _ => Kind::NoDevice,
    };
    let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
    let why = why.trim_end_matches('.');
    Error::new(kind, format!("the default sound card does not open: {why}; the next play tries again"))
}

/// The sound cards, as the system names them; empty where it does not answer.
pub(super) fn names() -> Vec<Value> {
    let (sender, names) = bounded(1);
    let ask = move || {
        let host = cpal::default_host();
        let default = host.default_output_device().and_then(|device| device.id().ok());
        let devices = host.output_devices().into_iter().flatten();
        let named = devices.filter_map(|device| {
            let name = device.description().ok()?.name().to_owned();
            Some(json!({"name": name, "default": default.is_some() && device.id().ok() == default}))
        });
        let _ = sender.send(named.collect());
    };
    match thread::Builder::new().name("audio-names".into()).spawn(ask) {
        Ok(_) => names.recv_timeout(NAMES_WAIT).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trouble_that_lasts_is_a_loss() {
        let start = Instant::now();
        let mut trouble = Trouble::default();
        let mut at = |ms| trouble.lasts(start + Duration::from_millis(ms));
        assert!([0, 1, 2, 1000, 2000, 2100].iter().all(|ms| !at(*ms)));
        assert!((2200..3000).step_by(100).all(|ms| !at(ms)));
        assert!(at(3000));
    }
}
