//! The durable append-only log of record batches, used by the server and by clients' spools.
//!
//! Stand-in with the real signatures: one file, read whole at open. The real journal replaces it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Where a frame is; grows with every byte ever appended.
pub type Position = u64;

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory.
    pub dir: PathBuf,
    /// The most that segments may take.
    pub max_bytes: u64,
    /// The age at which segments go.
    pub max_age: Duration,
    /// The size of a segment.
    pub segment_bytes: u64,
    /// How often it is synced.
    pub sync_interval: Duration,
}

impl Options {
    /// The defaults for a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            dir: dir.into(),
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(7 * 86_400),
            segment_bytes: 16 << 20,
            sync_interval: Duration::from_millis(100),
        }
    }
}

/// What open found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {}

/// What is common to the records of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// When the gateway got it, in nanoseconds.
    pub received: i64,
    /// The authenticated name or empty.
    pub client: String,
    /// The producer's id.
    pub producer: [u8; 16],
    /// The producer's epoch.
    pub epoch: u64,
    /// The number of the first record.
    pub first_seq: u64,
    /// How many records.
    pub records: u32,
}

/// A batch in the journal.
#[derive(Debug)]
pub struct Frame {
    /// Where it begins.
    pub position: Position,
    /// Where it ends.
    pub end: Position,
    /// What is common to its records.
    pub header: Header,
    body: Vec<u8>,
}

impl Frame {
    /// The records.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

#[derive(Default)]
struct State {
    frames: Vec<Arc<Frame>>,
    positions: BTreeMap<String, (Position, Vec<u8>)>,
    end: Position,
    wakes: u64,
}

/// The journal.
pub struct Journal {
    dir: PathBuf,
    file: Mutex<File>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Journal {
    /// Opens or creates it.
    pub fn open(options: Options) -> Result<(Arc<Journal>, Recovery)> {
        let dir = options.dir;
        let io = |error: std::io::Error| Error::io("journal", &error);
        fs::create_dir_all(&dir).map_err(io)?;
        let mut state = State { end: 64, ..State::default() };
        let path = dir.join("frames");
        let bytes = fs::read(&path).unwrap_or_default();
        let mut rest = &bytes[..];
        while rest.len() >= 8 {
            let (head, body) = (u32_at(rest, 0), u32_at(rest, 4));
            let value: serde_json::Value = serde_json::from_slice(&rest[8..8 + head]).unwrap_or_default();
            let header = Header {
                received: value["received"].as_i64().unwrap_or(0),
                client: value["client"].as_str().unwrap_or("").into(),
                producer: serde_json::from_value(value["producer"].clone()).unwrap_or_default(),
                epoch: value["epoch"].as_u64().unwrap_or(0),
                first_seq: value["first_seq"].as_u64().unwrap_or(0),
                records: value["records"].as_u64().unwrap_or(0) as u32,
            };
            let position = state.end;
            state.end += body as u64 + 100;
            let frame = Frame { position, end: state.end, header, body: rest[8 + head..][..body].to_vec() };
            state.frames.push(Arc::new(frame));
            rest = &rest[8 + head + body..];
        }
        if let Ok(text) = fs::read(dir.join("positions")) {
            state.positions = serde_json::from_slice(&text).unwrap_or_default();
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(io)?;
        let journal =
            Journal { dir, file: Mutex::new(file), state: Mutex::new(state), changed: Condvar::new() };
        Ok((Arc::new(journal), Recovery {}))
    }

    /// Appends a frame.
    pub fn append(&self, header: &Header, body: &[u8], _urgent: bool) -> Result<Arc<Frame>> {
        let mut state = self.state.lock().unwrap();
        let head = serde_json::json!({"received": header.received, "client": header.client, "producer": header.producer,
            "epoch": header.epoch, "first_seq": header.first_seq, "records": header.records})
        .to_string();
        let mut bytes = Vec::new();
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(head.as_bytes());
        bytes.extend(body);
        self.file.lock().unwrap().write_all(&bytes).map_err(|error| Error::io("journal", &error))?;
        let position = state.end;
        state.end += body.len() as u64 + 100;
        let frame = Arc::new(Frame { position, end: state.end, header: header.clone(), body: body.to_vec() });
        state.frames.push(frame.clone());
        self.changed.notify_all();
        Ok(frame)
    }

    /// Where the next frame goes.
    pub fn end(&self) -> Position {
        self.state.lock().unwrap().end
    }

    /// Reads from a position on.
    pub fn reader(self: &Arc<Self>, from: Position) -> Reader {
        let wakes = self.state.lock().unwrap().wakes;
        Reader { journal: self.clone(), position: from, wakes }
    }

    /// Keeps a consumer's position.
    pub fn set_position(&self, consumer: &str, position: Position, detail: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        state.positions.insert(consumer.to_owned(), (position, detail));
        let _ = fs::write(self.dir.join("positions"), serde_json::to_vec(&state.positions).unwrap());
    }

    /// Forgets a consumer.
    pub fn remove_position(&self, consumer: &str) {
        self.state.lock().unwrap().positions.remove(consumer);
    }

    /// The position that was found at open.
    pub fn recovered_position(&self, consumer: &str) -> Option<(Position, Vec<u8>)> {
        self.state.lock().unwrap().positions.get(consumer).cloned()
    }

    /// Wakes all readers.
    pub fn wake(&self) {
        self.state.lock().unwrap().wakes += 1;
        self.changed.notify_all();
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Reads frames in order.
pub struct Reader {
    journal: Arc<Journal>,
    position: Position,
    wakes: u64,
}

impl Reader {
    /// The next frame; none when nothing came or the reader was woken.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Arc<Frame>>> {
        let until = Instant::now() + timeout;
        let mut state = self.journal.state.lock().unwrap();
        loop {
            let at = state.frames.partition_point(|frame| frame.position < self.position);
            if let Some(frame) = state.frames.get(at) {
                self.position = frame.end;
                return Ok(Some(frame.clone()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.wakes != self.wakes || left.is_zero() {
                self.wakes = state.wakes;
                return Ok(None);
            }
            state = self.journal.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Where the next frame is looked for.
    pub fn position(&self) -> Position {
        self.position
    }

    /// How much was passed over.
    pub fn skipped(&self) -> u64 {
        0
    }
}
