//! Serial ports: everyone hears, the holder of the lease writes.

pub mod framing;
pub mod list;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::Reply;
use crate::config::SerialConfig;
use crate::events::Hub;
use crate::{Error, Kind, Result};

/// The serial ports of a gateway. All functions return at once; answers come through the [`Reply`].
pub struct Ports {
    #[allow(dead_code)]
    hub: Arc<Hub>,
}

/// What a transaction waits for.
#[derive(Clone, Debug)]
pub enum Expect {
    /// The next frame, whatever it is.
    Any,
    /// A frame that has these bytes in it.
    Bytes(Vec<u8>),
    /// A frame that matches.
    Regex(regex::bytes::Regex),
}

/// Who writes what, and how long it may take.
#[derive(Clone, Debug)]
pub struct Write {
    /// The bytes, sent as they are.
    pub data: Vec<u8>,
    /// The token of the lease, where one is held.
    pub lease: Option<String>,
    /// Who writes, for the `tx` event: the `by` parameter, else empty; the owner of the lease where one is given.
    pub by: String,
    /// From the call to the last byte, or the matching frame.
    pub timeout: Duration,
}

/// Lines that can be set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    /// Data terminal ready; none leaves it.
    pub dtr: Option<bool>,
    /// Request to send; none leaves it.
    pub rts: Option<bool>,
}

fn not_yet(reply: Reply) {
    reply.answer(Err(Error::new(Kind::NotEnabled, "serial ports are not built yet")));
}

impl Ports {
    /// None yet.
    pub fn new(hub: Arc<Hub>) -> Ports {
        Ports { hub }
    }

    /// Makes the declared ports be these: opens new ones, closes those that are gone, reopens those whose settings
    /// changed; ports opened by command stay. Also for a reload; tells what changed, for people.
    pub fn configure(&self, _wanted: &[SerialConfig]) -> Vec<String> {
        Vec::new()
    }

    /// Opens a port. Same id and settings: ok, with `already` true. Same id or same device with others: BUSY.
    pub fn open(&self, _config: SerialConfig, reply: Reply) {
        not_yet(reply);
    }

    /// Closes a port; a declared one as well, until a reload or `open`.
    pub fn close(&self, _id: &str, _lease: Option<String>, reply: Reply) {
        not_yet(reply);
    }

    /// Queues bytes. The answer comes when they are written: `{"written": n}`.
    pub fn write(&self, _id: &str, _write: Write, reply: Reply) {
        not_yet(reply);
    }

    /// Writes, then answers with the first frame that fits.
    pub fn transact(&self, _id: &str, _write: Write, _expect: Expect, reply: Reply) {
        not_yet(reply);
    }

    /// Changes what `settings` names, see [`crate::config::serial::LineSettings::changed`]; answers with all settings.
    pub fn set(&self, _id: &str, _settings: Map<String, Value>, _lease: Option<String>, reply: Reply) {
        not_yet(reply);
    }

    /// Sets DTR and RTS where given, and answers with all lines.
    pub fn lines(&self, _id: &str, _lines: Lines, _lease: Option<String>, reply: Reply) {
        not_yet(reply);
    }

    /// Sends a break of this length, 1 ms to 5 s.
    pub fn send_break(&self, _id: &str, _length: Duration, _lease: Option<String>, reply: Reply) {
        not_yet(reply);
    }

    /// Makes a `sim:` port read these bytes.
    pub fn inject(&self, _id: &str, _data: Vec<u8>, reply: Reply) {
        not_yet(reply);
    }

    /// Gives the lease of a port to `owner` for `ttl`, waiting up to `wait` while another holds it.
    pub fn claim(&self, _id: &str, _owner: String, _ttl: Duration, _wait: Duration, reply: Reply) {
        not_yet(reply);
    }

    /// Makes a lease last for `ttl` from now.
    pub fn renew(&self, _id: &str, _lease: &str, _ttl: Duration) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "serial ports are not built yet"))
    }

    /// Ends a lease; a transaction under it ends with CLOSED.
    pub fn release(&self, _id: &str, _lease: &str) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "serial ports are not built yet"))
    }

    /// One port, or with no id an array of all. Never waits for a device.
    pub fn status(&self, _id: Option<&str>) -> Result<Value> {
        Err(Error::new(Kind::NotEnabled, "serial ports are not built yet"))
    }

    /// Id, kind, state and lease of each, for `device.list`.
    pub fn devices(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Closes all; see [`super::Devices::stop`].
    pub fn stop(&self, _deadline: Instant) {}
}
