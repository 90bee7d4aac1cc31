//! What an open port can do, whatever is behind it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use serde_json::Value;

use super::{Lines, native, path, sim};
use crate::config::serial::{LineSettings, PortPath, SerialConfig};
use crate::util::guard;
use crate::{Error, Kind, Result};

/// The longest that a [`Link::write`] waits.
pub(super) const WRITE_SLICE: Duration = Duration::from_millis(5);
/// Reads that may wait for the port's thread; beyond, the device's own buffer fills.
pub(super) const READS: usize = 64;

/// An open port. It belongs to one thread; dropping it closes the port.
pub(super) trait Link: Send {
    /// Hands some bytes to the device and tells how many; 0 where it takes none within [`WRITE_SLICE`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Changes rate, bits and flow control.
    fn set(&mut self, line: &LineSettings) -> Result<()>;
    /// Sets DTR and RTS where given.
    fn set_lines(&mut self, lines: Lines) -> Result<()>;
    /// `dtr`, `rts`, `cts`, `dsr`, `ri`, `cd`: true or false; null where it is not known.
    fn lines(&mut self) -> Result<Value>;
    /// Begins or ends a break.
    fn set_break(&mut self, on: bool) -> Result<()>;
    /// Whether `sim.inject` is allowed.
    fn is_sim(&self) -> bool;
}

/// What comes from an open port.
pub(super) enum Read {
    /// Bytes, and when they came.
    Bytes(Instant, Vec<u8>),
    /// It is gone, for this reason.
    Lost(String),
}

/// A port that was just opened.
pub(super) struct Opened {
    pub link: Box<dyn Link>,
    pub reads: Receiver<Read>,
    /// What the path led to; none for simulations.
    pub device: Option<String>,
    /// Keeps other ports of this gateway from the device, until it is closed.
    pub _held: Option<Held>,
}

/// Opens a port. May take as long as the driver likes, so only the port's own thread calls it.
///
/// NOT_FOUND, PERMISSION, BUSY, INVALID_ARGUMENT for what is no serial port or refuses the settings, NO_DEVICE where
/// nothing is behind the name, else IO.
pub(super) fn open(config: &SerialConfig, devices: &Arc<InUse>) -> Result<Opened> {
    if config.port == PortPath::SimLoop {
        let (link, reads) = sim::open(config);
        return Ok(Opened { link: Box::new(link), reads, device: None, _held: None });
    }
    let found = path::find(&config.port)?;
    let held = devices.hold(&found.device, &config.id).map_err(|other| {
        let text = format!("{} is open as {other:?} already; close that first", found.path);
        Error::new(Kind::Busy, text)
    })?;
    let (link, reads) = native::open(&found.path, config)?;
    Ok(Opened { link: Box::new(link), reads, device: Some(found.device), _held: Some(held) })
}

/// The devices that ports of this gateway have open. One may have several names, and root none of the system's locks.
#[derive(Default)]
pub(super) struct InUse(Mutex<Vec<(String, String)>>);

/// A device held by one port until this is dropped.
pub(super) struct Held {
    device: String,
    devices: Arc<InUse>,
}

impl InUse {
    /// Notes that port `id` has this device. The error is the id of the port that has it.
    pub fn hold(self: &Arc<InUse>, device: &str, id: &str) -> std::result::Result<Held, String> {
        let mut held = guard(&self.0);
        if let Some((_, other)) = held.iter().find(|(held, _)| held == device) {
            return Err(other.clone());
        }
        held.push((device.to_owned(), id.to_owned()));
        Ok(Held { device: device.to_owned(), devices: self.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        guard(&self.devices.0).retain(|(device, _)| *device != self.device);
    }
}
