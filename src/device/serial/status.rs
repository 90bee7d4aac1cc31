//! What is known of a port, for whoever asks: kept by the port's thread, read without waiting for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use crate::config::serial::SerialConfig;
use crate::device::lease::Known;
use crate::util::guard;
use crate::{Error, Kind, Result};

/// Requests and bytes that may wait to be written to one port.
const QUEUED: usize = 1000;
const QUEUED_BYTES: usize = 1 << 20;
/// The longest single write.
const WRITE_BYTES: usize = 16 << 20;

/// How a port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Being opened by command for the first time; nobody sees it yet.
    Opening,
    /// Bytes come and go.
    Open,
    /// It was open, is gone, and is opened again as soon as it is back.
    Lost,
    /// A declared port that could not be opened yet; it is tried again.
    Failed,
    /// For good.
    Closed,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Opening => "opening",
            State::Open => "open",
            State::Lost => "lost",
            State::Failed => "failed",
            State::Closed => "closed",
        }
    }
}

/// What a port's thread and all others share.
pub(super) struct Shared {
    pub id: String,
    status: Mutex<Status>,
    queued: AtomicUsize,
    queued_bytes: AtomicUsize,
}

/// What is known of a port.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub state: State,
    pub reason: Option<String>,
    pub device: Option<String>,
    /// As they are now, after `serial.set`.
    pub config: SerialConfig,
    pub declared: bool,
    pub lease: Option<Known>,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub rx_bytes: u64,
    pub rx_frames: u64,
    pub tx_bytes: u64,
    pub truncated: u64,
    pub partial: u64,
    pub skipped_bytes: u64,
    pub opens: u64,
    pub losses: u64,
}

impl Shared {
    pub fn new(config: SerialConfig, declared: bool) -> Shared {
        let state = if declared { State::Failed } else { State::Opening };
        let status = Status {
            state,
            reason: declared.then(|| "it is being opened".to_owned()),
            device: None,
            declared,
            lease: None,
            counts: Counts::default(),
            config: config.clone(),
        };
        Shared {
            id: config.id,
            status: Mutex::new(status),
            queued: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
        }
    }

    /// Changes what is known, or asks for it.
    pub fn status<T>(&self, use_it: impl FnOnce(&mut Status) -> T) -> T {
        use_it(&mut guard(&self.status))
    }

    /// Makes room in the queue for a job with so many bytes. TOO_LARGE where it never fits, QUEUE_FULL where not now.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        if bytes > WRITE_BYTES {
            let text = format!("{bytes} bytes are more than {WRITE_BYTES} at once; send them in parts");
            return Err(Error::new(Kind::TooLarge, text));
        }
        let requests = self.queued.fetch_add(1, Ordering::AcqRel);
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        // A long write may be alone in the queue.
        if requests >= QUEUED || (before > 0 && before + bytes > QUEUED_BYTES) {
            self.free(bytes);
            let text =
                format!("{requests} requests with {before} bytes wait for {}; try again later", self.id);
            return Err(Error::new(Kind::QueueFull, text));
        }
        Ok(())
    }

    /// Gives room back.
    pub fn free(&self, bytes: usize) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
        self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// The answer of `serial.status`.
    pub fn to_json(&self) -> Map<String, Value> {
        let Status { state, reason, device, config, declared, lease, counts } =
            self.status(|now| now.clone());
        let queue = json!({
            "requests": self.queued.load(Ordering::Acquire),
            "bytes": self.queued_bytes.load(Ordering::Acquire),
        });
        let mut members = object(config.port.to_json());
        members.extend(object(json!({
            "id": self.id,
            "kind": "serial",
            "state": state.name(),
            "reason": reason,
            "device": device,
            "declared": declared,
            "settings": config.to_json(),
            "rx_bytes": counts.rx_bytes,
            "rx_frames": counts.rx_frames,
            "tx_bytes": counts.tx_bytes,
            "truncated": counts.truncated,
            "partial": counts.partial,
            "skipped_bytes": counts.skipped_bytes,
            "opens": counts.opens,
            "losses": counts.losses,
            "write_queue": queue,
            "lease": lease.map(|known| known.to_json()),
        })));
        members
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
