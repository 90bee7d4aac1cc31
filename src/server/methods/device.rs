//! What all devices have in common: which there are, and who may write.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::{Called, MAX_TIMEOUT_MS, Method, Outcome, device};
use crate::server::state::Shared;
use crate::wire::rpc::{Fault, Params};

pub(super) const METHODS: &[Method] =
    &[("device.list", list), ("device.claim", claim), ("device.renew", renew), ("device.release", release)];

/// How long a lease may last, in milliseconds.
const TTL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

fn list(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    let mut devices = shared.devices.serial.devices();
    devices.push(json!({"id": "audio", "kind": "audio", "state": shared.devices.audio.status()["state"]}));
    Ok(Outcome::Now(json!({"devices": devices})))
}

#[derive(Deserialize)]
struct Claim {
    /// The port.
    id: String,
    /// Who claims, shown to others.
    #[serde(default)]
    owner: String,
    #[serde(default = "default_ttl_ms")]
    ttl_ms: u64,
    /// How long to wait while another holds it.
    #[serde(default)]
    wait_ms: u64,
}

fn default_ttl_ms() -> u64 {
    30_000
}

fn ttl(method: &str, ttl_ms: u64) -> Result<Duration, Fault> {
    if TTL_MS.contains(&ttl_ms) {
        return Ok(Duration::from_millis(ttl_ms));
    }
    Err(Fault::invalid_params(format!("{method}: ttl_ms must be {} to {}", TTL_MS.start(), TTL_MS.end())))
}

fn claim(_: &Shared, method: &str, params: Params) -> Called {
    let claim: Claim = params.read(method)?;
    let ttl = ttl(method, claim.ttl_ms)?;
    let wait = Duration::from_millis(claim.wait_ms.min(MAX_TIMEOUT_MS));
    device(move |shared, reply| shared.devices.serial.claim(&claim.id, claim.owner, ttl, wait, reply))
}

#[derive(Deserialize)]
struct Renew {
    id: String,
    lease: String,
    #[serde(default = "default_ttl_ms")]
    ttl_ms: u64,
}

fn renew(_: &Shared, method: &str, params: Params) -> Called {
    let renew: Renew = params.read(method)?;
    let ttl = ttl(method, renew.ttl_ms)?;
    device(move |shared, reply| shared.devices.serial.renew(&renew.id, renew.lease, ttl, reply))
}

#[derive(Deserialize)]
struct Release {
    id: String,
    lease: String,
}

fn release(_: &Shared, method: &str, params: Params) -> Called {
    let release: Release = params.read(method)?;
    device(move |shared, reply| shared.devices.serial.release(&release.id, release.lease, reply))
}
