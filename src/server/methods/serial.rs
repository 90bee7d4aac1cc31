//! Serial ports.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Called, MAX_TIMEOUT_MS, Method, Outcome, device, later};
use crate::config::serial::{LineSettings, SerialConfig};
use crate::device::serial::{Expect, Lines, Write, list};
use crate::server::state::Shared;
use crate::wire::data;
use crate::wire::rpc::{Fault, Params};

pub(super) const METHODS: &[Method] = &[
    ("serial.list", serial_list),
    ("serial.open", open),
    ("serial.close", close),
    ("serial.write", write),
    ("serial.transact", transact),
    ("serial.set", set),
    ("serial.lines", lines),
    ("serial.break", send_break),
    ("serial.status", status),
    ("sim.inject", inject),
];

fn serial_list(_: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    later(|_| Ok(json!({"ports": list::list()?})))
}

/// The keys of `[[serial]]`.
#[derive(Deserialize)]
struct Open {
    id: String,
    path: Option<String>,
    usb: Option<Value>,
    baud: Option<Value>,
    any_baud: Option<Value>,
    data_bits: Option<Value>,
    parity: Option<Value>,
    stop_bits: Option<Value>,
    flow: Option<Value>,
    dtr: Option<Value>,
    rts: Option<Value>,
    framing: Option<Value>,
}

fn open(_: &Shared, method: &str, params: Params) -> Called {
    let open: Open = params.read(method)?;
    let settings = [
        ("id", Some(open.id.into())),
        ("path", open.path.map(Value::from)),
        ("usb", open.usb),
        ("baud", open.baud),
        ("any_baud", open.any_baud),
        ("data_bits", open.data_bits),
        ("parity", open.parity),
        ("stop_bits", open.stop_bits),
        ("flow", open.flow),
        ("dtr", open.dtr),
        ("rts", open.rts),
        ("framing", open.framing),
    ];
    let config = SerialConfig::from_json(given(settings)).map_err(|text| bad(method, &text))?;
    device(move |shared, reply| shared.devices.serial.open(config, reply))
}

fn given<const N: usize>(settings: [(&str, Option<Value>); N]) -> Map<String, Value> {
    settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn bad(method: &str, text: &str) -> Fault {
    Fault::invalid_params(format!("{method}: {text}"))
}

#[derive(Deserialize)]
struct Close {
    id: String,
    lease: Option<String>,
}

fn close(_: &Shared, method: &str, params: Params) -> Called {
    let close: Close = params.read(method)?;
    device(move |shared, reply| shared.devices.serial.close(&close.id, close.lease, reply))
}

#[derive(Deserialize)]
struct WriteParams {
    id: String,
    data: Option<String>,
    data_base64: Option<String>,
    lease: Option<String>,
    /// Who writes, for those who hear it.
    #[serde(default)]
    by: String,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    5_000
}

fn timeout(ms: u64) -> Duration {
    Duration::from_millis(ms.min(MAX_TIMEOUT_MS))
}

fn write(_: &Shared, method: &str, params: Params) -> Called {
    let WriteParams { id, data, data_base64, lease, by, timeout_ms } = params.read(method)?;
    let data = data::read(method, data, data_base64)?;
    let write = Write { data, lease, by, timeout: timeout(timeout_ms) };
    device(move |shared, reply| shared.devices.serial.write(&id, write, reply))
}

#[derive(Deserialize)]
struct Transact {
    id: String,
    data: Option<String>,
    data_base64: Option<String>,
    /// The text that the answering frame has in it.
    expect: Option<String>,
    expect_base64: Option<String>,
    expect_regex: Option<String>,
    lease: Option<String>,
    #[serde(default)]
    by: String,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn transact(_: &Shared, method: &str, params: Params) -> Called {
    let transact: Transact = params.read(method)?;
    let data = data::read(method, transact.data, transact.data_base64)?;
    let expect = match (transact.expect, transact.expect_base64, transact.expect_regex) {
        (None, None, None) => Expect::Any,
        (Some(text), None, None) => Expect::Bytes(text.into_bytes()),
        (None, Some(text), None) => Expect::Bytes(
            data::decode(&text).ok_or_else(|| bad(method, "expect_base64: this is not base64"))?,
        ),
        (None, None, Some(pattern)) => {
            let regex = regex::bytes::RegexBuilder::new(&pattern).size_limit(1 << 20).build();
            Expect::Regex(regex.map_err(|error| bad(method, &format!("expect_regex: {error}")))?)
        }
        _ => return Err(bad(method, "give at most one of expect, expect_base64 and expect_regex")),
    };
    let write = Write { data, lease: transact.lease, by: transact.by, timeout: timeout(transact.timeout_ms) };
    device(move |shared, reply| shared.devices.serial.transact(&transact.id, write, expect, reply))
}

#[derive(Deserialize)]
struct Set {
    id: String,
    baud: Option<Value>,
    any_baud: Option<Value>,
    data_bits: Option<Value>,
    parity: Option<Value>,
    stop_bits: Option<Value>,
    flow: Option<Value>,
    lease: Option<String>,
}

/// What is not given stays as it is.
fn set(_: &Shared, method: &str, params: Params) -> Called {
    let set: Set = params.read(method)?;
    let settings = given([
        ("baud", set.baud),
        ("any_baud", set.any_baud),
        ("data_bits", set.data_bits),
        ("parity", set.parity),
        ("stop_bits", set.stop_bits),
        ("flow", set.flow),
    ]);
    let method = method.to_owned();
    // Checked before a device is asked, against the defaults for what is not given.
    LineSettings::default().changed(&settings).map_err(|text| bad(&method, &text))?;
    device(move |shared, reply| shared.devices.serial.set(&set.id, settings, set.lease, reply))
}

#[derive(Deserialize)]
struct LinesParams {
    id: String,
    dtr: Option<bool>,
    rts: Option<bool>,
    lease: Option<String>,
}

fn lines(_: &Shared, method: &str, params: Params) -> Called {
    let LinesParams { id, dtr, rts, lease } = params.read(method)?;
    device(move |shared, reply| shared.devices.serial.lines(&id, Lines { dtr, rts }, lease, reply))
}

#[derive(Deserialize)]
struct Break {
    id: String,
    #[serde(default = "default_duration_ms")]
    duration_ms: u64,
    lease: Option<String>,
}

fn default_duration_ms() -> u64 {
    250
}

fn send_break(_: &Shared, method: &str, params: Params) -> Called {
    let Break { id, duration_ms, lease } = params.read(method)?;
    if !(1..=5000).contains(&duration_ms) {
        return Err(bad(method, "duration_ms must be 1 to 5000"));
    }
    let length = Duration::from_millis(duration_ms);
    device(move |shared, reply| shared.devices.serial.send_break(&id, length, lease, reply))
}

#[derive(Deserialize)]
struct Status {
    /// One port; all without it.
    id: Option<String>,
}

fn status(shared: &Shared, method: &str, params: Params) -> Called {
    let Status { id } = params.read(method)?;
    let status = shared.devices.serial.status(id.as_deref())?;
    Ok(Outcome::Now(if id.is_some() { status } else { json!({"ports": status}) }))
}

#[derive(Deserialize)]
struct Inject {
    id: String,
    data: Option<String>,
    data_base64: Option<String>,
}

fn inject(_: &Shared, method: &str, params: Params) -> Called {
    let Inject { id, data, data_base64 } = params.read(method)?;
    let data = data::read(method, data, data_base64)?;
    device(move |shared, reply| shared.devices.serial.inject(&id, data, reply))
}
