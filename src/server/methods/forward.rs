//! Forwarders: their counts, and pausing them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Called, Method, Outcome};
use crate::server::forward::Forward;
use crate::server::state::Shared;
use crate::wire::rpc::{Fault, Params};
use crate::{Error, Kind};

pub(super) const METHODS: &[Method] =
    &[("forward.pause", pause), ("forward.resume", resume), ("forward.stats", stats)];

#[derive(Deserialize)]
struct Which {
    /// The forwarder. For `pause` and `resume` it may be left out where there is one only.
    id: Option<String>,
}

/// The parameters as they are meant at a forwarder's own endpoint: for this one.
pub(super) fn at(forward: &Forward, method: &str, params: Params) -> std::result::Result<Params, Fault> {
    match params.get("id") {
        None | Some(Value::Null) => Ok(params.with("id", forward.id.as_str())),
        Some(id) if id == forward.id.as_str() => Ok(params),
        Some(id) => {
            let text = format!(
                "{method}: this endpoint is that of {:?}; ask the commands endpoint about {}",
                forward.id,
                shorten(&id.to_string())
            );
            Err(Error::new(Kind::NotFound, text).into())
        }
    }
}

fn pause(shared: &Shared, method: &str, params: Params) -> Called {
    set_paused(shared, method, params, true)
}

fn resume(shared: &Shared, method: &str, params: Params) -> Called {
    set_paused(shared, method, params, false)
}

fn set_paused(shared: &Shared, method: &str, params: Params, paused: bool) -> Called {
    let Which { id } = params.read(method)?;
    let forward = match (&id, &shared.forwards[..]) {
        (Some(id), _) => find(shared, method, id)?,
        (None, [one]) => one,
        (None, []) => return Err(none(method)),
        (None, _) => {
            return Err(Fault::invalid_params(format!(
                "{method}: parameter id is missing; there are {}",
                names(shared)
            )));
        }
    };
    forward.pause(paused, &shared.hub);
    Ok(Outcome::Now(json!({"id": forward.id, "paused": paused})))
}

fn stats(shared: &Shared, method: &str, params: Params) -> Called {
    let Which { id } = params.read(method)?;
    let forwards = match id {
        Some(id) => vec![find(shared, method, &id)?.to_json()],
        None => shared.forwards.iter().map(|forward| forward.to_json()).collect(),
    };
    Ok(Outcome::Now(json!({"forwards": forwards})))
}

fn find<'a>(shared: &'a Shared, method: &str, id: &str) -> std::result::Result<&'a Forward, Fault> {
    if let Some(forward) = shared.forwards.iter().find(|forward| forward.id == id) {
        return Ok(forward);
    }
    if shared.forwards.is_empty() {
        return Err(none(method));
    }
    let (shown, names) = (shorten(id), names(shared));
    let text = format!("{method}: no forwarder is called {shown:?}; there are {names}");
    Err(Error::new(Kind::NotFound, text).into())
}

fn shorten(id: &str) -> String {
    id.chars().take(64).collect()
}

fn none(method: &str) -> Fault {
    Error::new(Kind::NotFound, format!("{method}: there is no [[forward]] in the settings")).into()
}

fn names(shared: &Shared) -> String {
    shared.forwards.iter().map(|forward| forward.id.as_str()).collect::<Vec<_>>().join(", ")
}
