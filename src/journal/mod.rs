//! The durable append-only log of record batches, used by the server and by clients' spools.
//!
//! A channel hands in a batch, [`Journal::append`] writes it as one [`Frame`]; sinks follow with a
//! [`Reader`] each: from memory (the very frame that was written) while they keep up, from disk when
//! they are behind. One thread syncs what was written. Segments that every consumer has read are
//! removed when the journal is too large or too old.
//!
//! | file | what is in it |
//! |---|---|
//! | `frame.rs` | one batch on disk, intact or not |
//! | `segment.rs` | files of frames, and reading them whatever their state |
//! | `snapshot.rs` | what a segment begins with: producers and positions |
//! | `recovery.rs` | start-up |
//! | `store.rs` | [`Journal`]: append, roll, positions |
//! | `retention.rs` | which segments may go |
//! | `sync.rs` | the one thread that syncs |
//! | `reader.rs` | [`Reader`]: following the journal |
//!
//! ```
//! # fn main() -> hwgate::Result<()> {
//! use hwgate::journal::{Header, Journal, Options};
//! use std::time::Duration;
//! let dir = tempfile::tempdir().unwrap();
//! let (journal, _recovery) = Journal::open(Options::new(dir.path()))?;
//! let mut reader = journal.reader(journal.end());
//! journal.append(&Header::default(), b"one batch", false)?;
//! let frame = reader.next(Duration::from_secs(1))?.expect("the frame just written");
//! assert_eq!(frame.body(), b"one batch");
//! # Ok(()) }
//! ```

mod frame;
mod reader;
mod recovery;
mod retention;
mod segment;
mod snapshot;
mod store;
mod sync;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub use frame::{Frame, Header};
pub use reader::Reader;
pub use recovery::Recovery;
pub use snapshot::Producer;
pub use store::{Journal, Stats};

/// A place in the journal. It grows with every byte ever appended, is never reused and outlives
/// restarts; after a start it jumps to the next multiple of 2^40.
pub type Position = u64;

/// Where a journal is and how large it may become.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory; made with mode 0700 where it is missing.
    pub dir: PathBuf,
    /// The most that all segments may take, in bytes. Default 1 GiB.
    pub max_bytes: u64,
    /// How long segments are kept. Default 7 days.
    pub max_age: Duration,
    /// When a new segment is begun, in bytes. Default 64 MiB, and no more than a sixteenth of `max_bytes`.
    pub segment_bytes: u64,
    /// A sync starts at the latest this long after the first byte that is not synced. Default 100 ms.
    pub sync_interval: Duration,
}

impl Options {
    /// The defaults, in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            dir: dir.into(),
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(7 * 24 * 3600),
            segment_bytes: 64 << 20,
            sync_interval: Duration::from_millis(100),
        }
    }

    /// The size at which a new segment is begun.
    fn segment_limit(&self) -> u64 {
        self.segment_bytes.min(self.max_bytes / 16).max(4096)
    }
}
