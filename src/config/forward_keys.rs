//! The keys of `[[forward]]`.

use std::time::Duration;

use super::forward::ForwardConfig;
use super::keys::{ENDPOINT_OR_OFF, Key, MESSAGES, YES_NO, endpoint, messages, set, show_endpoint};
use super::serial_keys::id;
use super::value::{Raw, Read, show_duration, show_text};

const ENDPOINT: &str = "\"tcp://host:port\" or \"ipc://path\"";

/// The keys of each `[[forward]]`.
pub static FORWARD_KEYS: &[Key<ForwardConfig>] = &[
    Key {
        table: "forward",
        name: "id",
        help: "What clients call the forwarder, as in forward.stats.",
        default: "\"main\"",
        allowed: "1 to 64 of A-Z a-z 0-9 . _ -, each once in whatever case",
        example: "\"fleet\"",
        reload: false,
        set: |f, raw| set(&mut f.id, id(raw)?),
        get: |f| Some(show_text(&f.id)),
    },
    Key {
        table: "forward",
        name: "input",
        help: "Where publishers connect; everything is taken.",
        default: "none, it must be given",
        allowed: ENDPOINT,
        example: "\"tcp://127.0.0.1:5606\"",
        reload: false,
        set: |f, raw| set(&mut f.input, given(raw)?),
        get: |f| Some(show_text(&f.input)),
    },
    Key {
        table: "forward",
        name: "output",
        help: "Where subscribers connect.",
        default: "none, it must be given",
        allowed: ENDPOINT,
        example: "\"tcp://127.0.0.1:5608\"",
        reload: false,
        set: |f, raw| set(&mut f.output, given(raw)?),
        get: |f| Some(show_text(&f.output)),
    },
    Key {
        table: "forward",
        name: "state",
        help: "Where producers register their topics, and the forwarder is paused, resumed and asked for its counts.",
        default: "\"off\"",
        allowed: ENDPOINT_OR_OFF,
        example: "\"tcp://127.0.0.1:5607\"",
        reload: false,
        set: |f, raw| set(&mut f.state, endpoint(raw)?),
        get: |f| show_endpoint(&f.state),
    },
    Key {
        table: "forward",
        name: "monitor",
        help: "Where everything that comes in can be watched, with a first frame \"in\"; a watcher that is too slow misses messages, and nobody waits for it.",
        default: "\"off\"",
        allowed: ENDPOINT_OR_OFF,
        example: "\"tcp://127.0.0.1:5609\"",
        reload: false,
        set: |f, raw| set(&mut f.monitor, endpoint(raw)?),
        get: |f| show_endpoint(&f.monitor),
    },
    Key {
        table: "forward",
        name: "journal",
        help: "Whether what passes is logged too, as if it had been sent to logs; the topic is the source.",
        default: "false",
        allowed: YES_NO,
        example: "true",
        reload: false,
        set: |f, raw| set(&mut f.journal, raw.bool()?),
        get: |f| Some(f.journal.to_string()),
    },
    Key {
        table: "forward",
        name: "receive_hwm",
        help: "How many messages may wait in memory for each publisher.",
        default: "1000000",
        allowed: MESSAGES,
        example: "30000",
        reload: false,
        set: |f, raw| set(&mut f.receive_hwm, messages(raw)?),
        get: |f| Some(f.receive_hwm.to_string()),
    },
    Key {
        table: "forward",
        name: "send_hwm",
        help: "How many messages may wait in memory for each subscriber; what happens then is told by send_wait.",
        default: "1000000",
        allowed: MESSAGES,
        example: "30000",
        reload: false,
        set: |f, raw| set(&mut f.send_hwm, messages(raw)?),
        get: |f| Some(f.send_hwm.to_string()),
    },
    Key {
        table: "forward",
        name: "monitor_hwm",
        help: "How many messages may wait in memory for each subscriber of the monitor.",
        default: "100000",
        allowed: MESSAGES,
        example: "1000",
        reload: false,
        set: |f, raw| set(&mut f.monitor_hwm, messages(raw)?),
        get: |f| Some(f.monitor_hwm.to_string()),
    },
    Key {
        table: "forward",
        name: "send_wait",
        help: "How long everyone waits, once, for a subscriber whose queue is full, before it loses messages.",
        default: "\"1s\"",
        allowed: "a time from 0ms to 60s, in ms, s or m",
        example: "\"100ms\"",
        reload: false,
        set: |f, raw| {
            let wait = raw.duration(Duration::ZERO)?;
            if wait > Duration::from_secs(60) {
                return Err(format!("{} is too long", show_duration(wait)));
            }
            set(&mut f.send_wait, wait)
        },
        get: |f| Some(show_text(&show_duration(f.send_wait))),
    },
];

/// Whether what must be given is, where `given` tells it of a key.
pub(super) fn complete(given: impl Fn(&str) -> bool) -> Read<()> {
    match ["input", "output"].into_iter().find(|name| !given(name)) {
        Some(name) => Err(format!("{name}: it must be given")),
        None => Ok(()),
    }
}

fn given(raw: &Raw) -> Read<String> {
    endpoint(raw)?.ok_or_else(|| "it cannot be off; leave out the whole [[forward]]".to_owned())
}
