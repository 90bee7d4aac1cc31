//! What each method does. Names and parameters are described in docs/commands.json and docs/PROTOCOL.md.

mod audio;
mod device;
mod events;
mod forward;
mod gateway;
mod log;
mod serial;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::forward::Forward;
use super::state::Shared;
use crate::device::Reply;
use crate::wire::rpc::{Fault, Params};

/// What a method may do after its parameters were read.
pub(super) type Work = Box<dyn FnOnce(&Shared) -> Answer + Send>;
type Answer = std::result::Result<Value, Fault>;
type Called = std::result::Result<Outcome, Fault>;

/// Hands a request to a device; must not wait.
pub(super) type Handover = Box<dyn FnOnce(&Shared, Reply)>;

/// The answer, or the way to it.
pub(super) enum Outcome {
    Now(Value),
    /// May wait for files or sinks, and runs on a thread of its own.
    Later(Work),
    /// Is handed to a device, which answers by itself.
    Device(Handover),
}

type Call = fn(&Shared, &str, Params) -> Called;
type Method = (&'static str, Call);

/// Every method, in the order of the documentation.
fn methods() -> impl Iterator<Item = &'static Method> {
    let groups = [
        gateway::METHODS,
        log::METHODS,
        events::METHODS,
        device::METHODS,
        serial::METHODS,
        audio::METHODS,
        forward::METHODS,
    ];
    groups.into_iter().flatten()
}

/// The longest a method waits, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Calls a method.
pub(super) fn call(shared: &Shared, method: &str, params: Params) -> Called {
    match methods().find(|(name, _)| *name == method) {
        Some((name, call)) => call(shared, name, params),
        None => {
            let names: Vec<&str> = methods().map(|(name, _)| *name).collect();
            Err(Fault::method_not_found(method, &names))
        }
    }
}

/// Calls a method at the `state` endpoint of a forwarder: `ping`, and those that concern it.
pub(super) fn call_forward(shared: &Shared, forward: &Forward, method: &str, params: Params) -> Called {
    let known = || ["ping"].into_iter().chain(forward::METHODS.iter().map(|(name, _)| *name));
    match known().find(|name| *name == method) {
        None => Err(Fault::method_not_found(method, &known().collect::<Vec<_>>())),
        Some("ping") => call(shared, method, params),
        Some(_) => call(shared, method, forward::at(forward, method, params)?),
    }
}

fn later(work: impl FnOnce(&Shared) -> Answer + Send + 'static) -> Called {
    Ok(Outcome::Later(Box::new(work)))
}

fn device(work: impl FnOnce(&Shared, Reply) + 'static) -> Called {
    Ok(Outcome::Device(Box::new(work)))
}

#[derive(Deserialize)]
struct Wait {
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    10_000
}

impl Wait {
    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.min(MAX_TIMEOUT_MS))
    }
}
