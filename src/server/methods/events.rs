//! Events of clients, and events that a client has lost.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Called, Method, Outcome, later};
use crate::events::Replay;
use crate::server::state::Shared;
use crate::wire::data;
use crate::wire::event::{self, COMMON, Fields};
use crate::wire::rpc::{Fault, Params};
use crate::{Error, Kind};

pub(super) const METHODS: &[Method] = &[("events.publish", publish), ("events.replay", replay)];

/// The longest reply to `events.replay`, about, in bytes.
const REPLAY_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct Publish {
    /// Below `app/`; a missing `/` at the end is added.
    topic: String,
    data: Option<String>,
    data_base64: Option<String>,
    /// Members of the header besides the common ones.
    #[serde(default)]
    fields: Map<String, Value>,
}

fn publish(shared: &Shared, method: &str, params: Params) -> Called {
    let publish: Publish = params.read(method)?;
    let topic = event::topic(&publish.topic)
        .map_err(|error| Fault::invalid_params(format!("{method}: {}", error.message())))?;
    if !topic.starts_with("app/") || topic.len() == "app/".len() {
        let text = format!(
            "{method}: topic {topic:?} is not the clients' own; theirs begin with app/, as in app/door/"
        );
        return Err(Error::new(Kind::Permission, text).into());
    }
    if let Some(name) = publish.fields.keys().find(|name| COMMON.contains(&name.as_str())) {
        return Err(Fault::invalid_params(format!(
            "{method}: fields: {name} is set by the gateway; use another name"
        )));
    }
    // An event may be empty, so here both may be missing.
    let bytes = match (&publish.data, &publish.data_base64) {
        (None, None) => Vec::new(),
        _ => data::read(method, publish.data, publish.data_base64)?,
    };
    let fields = publish.fields.iter().fold(Fields::none(), |fields, (name, value)| fields.with(name, value));
    let published = shared.hub.publish(&topic, &fields, bytes);
    Ok(Outcome::Now(json!({"id": published.id, "seq": published.seq})))
}

#[derive(Deserialize)]
struct ReplayParams {
    /// The session of the last event that the client has.
    session: Option<String>,
    /// The id of that event.
    #[serde(default)]
    after: u64,
    /// Prefixes of topics, as in subscriptions; all topics without any.
    #[serde(default)]
    topics: Vec<String>,
    #[serde(default = "default_max_bytes")]
    max_bytes: usize,
}

fn default_max_bytes() -> usize {
    1 << 20
}

fn replay(_: &Shared, method: &str, params: Params) -> Called {
    let ReplayParams { session, after, topics, max_bytes } = params.read(method)?;
    if topics.len() > 1000 {
        return Err(Fault::invalid_params(format!("{method}: topics: at most 1000")));
    }
    let replay = Replay { session, after, topics, max_bytes: max_bytes.min(REPLAY_BYTES) };
    // Megabytes of JSON take some milliseconds, in which pings shall not wait.
    later(move |shared| Ok(shared.hub.replay(&replay)))
}
