//! The gateway itself: who it is, how it does, its settings and its end.

use serde_json::{Value, json};

use super::{Called, Method, Outcome, later};
use crate::server::state::Shared;
use crate::util::now;
use crate::wire::rpc::Params;

pub(super) const METHODS: &[Method] = &[
    ("hello", hello),
    ("ping", ping),
    ("stats", stats),
    ("config.reload", config_reload),
    ("shutdown", shutdown),
];

fn hello(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    let config = shared.config();
    let endpoints: serde_json::Map<String, Value> = shared
        .endpoints
        .iter()
        .map(|(name, endpoint)| {
            (name.clone(), json!(advertised(endpoint, config.endpoints.advertise.as_deref())))
        })
        .collect();
    Ok(Outcome::Now(json!({
        "name": shared.name,
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": 1,
        "session": shared.session,
        "host": gethostname::gethostname().to_string_lossy(),
        "pid": std::process::id(),
        "time_ns": now().to_string(),
        "config": config.file,
        "endpoints": endpoints,
        "limits": {"max_text": config.intake.max_text, "max_message": config.intake.max_message},
        "features": features(),
        "curve": null,
    })))
}

fn features() -> Vec<&'static str> {
    let mut features = vec!["logs", "events", "serial", "audio", "forward"];
    if cfg!(feature = "sound") {
        features.push("sound");
    }
    features
}

/// The endpoint as clients shall use it: with the host of `advertise`, where it is set.
fn advertised(endpoint: &str, advertise: Option<&str>) -> String {
    match (advertise, endpoint.rsplit_once(':')) {
        (Some(host), Some((_, port))) if endpoint.starts_with("tcp://") => format!("tcp://{host}:{port}"),
        _ => endpoint.to_owned(),
    }
}

fn ping(_: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    Ok(Outcome::Now(json!({"time_ns": now().to_string()})))
}

fn stats(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    let sinks = shared.sinks.status(&shared.journal);
    let degraded = shared.degraded().or_else(|| shared.sinks.degraded());
    Ok(Outcome::Now(json!({
        "name": shared.name,
        "version": env!("CARGO_PKG_VERSION"),
        "session": shared.session,
        "pid": std::process::id(),
        "uptime_ms": shared.started.elapsed().as_millis() as u64,
        "state": if degraded.is_some() { "degraded" } else { "ok" },
        "reason": degraded,
        "config": shared.config().file,
        "intake": shared.intake.to_json(),
        "journal": shared.journal.stats(),
        "recovery": {
            "records": shared.recovery.records,
            "damaged_places": shared.recovery.damaged_places,
            "damaged_bytes": shared.recovery.damaged_bytes,
            "cut_bytes": shared.recovery.cut_bytes,
        },
        "sinks": sinks,
        "events": shared.hub.stats(),
        "forwards": shared.forwards.iter().map(|forward| forward.to_json()).collect::<Vec<_>>(),
    })))
}

fn config_reload(_: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    later(|shared| {
        let done = shared.reload()?;
        log::info!("{done}");
        Ok(json!({"message": done.to_string(), "needs_restart": done.waiting}))
    })
}

fn shutdown(shared: &Shared, method: &str, params: Params) -> Called {
    params.none(method)?;
    shared.request_shutdown();
    Ok(Outcome::Now(json!({"stopping": true})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertise_replaces_the_host_only() {
        assert_eq!(advertised("tcp://0.0.0.0:10000", Some("kiosk-7")), "tcp://kiosk-7:10000");
        assert_eq!(advertised("tcp://[::]:10000", Some("kiosk-7")), "tcp://kiosk-7:10000");
        assert_eq!(advertised("ipc:///run/x", Some("kiosk-7")), "ipc:///run/x");
        assert_eq!(advertised("tcp://127.0.0.1:1", None), "tcp://127.0.0.1:1");
    }
}
