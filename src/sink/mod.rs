//! journal → text or JSON files with rotation.
//!
//! A [`Sink`] is one `[[log]]`: a thread that reads the journal and writes files. The promise: *every
//! record is in the files exactly once, no line is torn*, through `kill -9`, a full disk, rotation and
//! files that somebody moves or deletes.
//!
//! | file | what |
//! |---|---|
//! | `handle`, `status` | a sink as the gateway holds it, and what it tells |
//! | `runner`, `report` | the thread: commands, trouble and retry |
//! | `writer`, `choose` | filters, chooses the file of a record, renders, decides about rotation |
//! | `files`, `entry` | all files of a sink: gathers, commits, makes checkpoints |
//! | `write` | from a buffer into a file, whatever is there already |
//! | `checkpoint` | what is known to be in the files, and where that is kept |
//! | `rotate` | when and how a file gets another name |
//! | `family` | the names of rotated files, read strictly |
//! | `keeper`, `gzip` | the thread beside it that compresses and removes rotated files |
//! | `file` | one file on the disk: identity, links, cutting |
//! | `path`, `pattern` | path templates, sources with `*` |
//! | `format`, `clock` | one record as one line, at the speed of a copy |

mod checkpoint;
mod choose;
mod clock;
mod crash;
mod entry;
mod family;
mod file;
mod files;
pub mod format;
mod gzip;
mod handle;
mod keeper;
mod path;
mod pattern;
mod report;
mod rotate;
mod runner;
mod status;
#[cfg(test)]
mod tests;
mod write;
mod writer;

use std::collections::HashMap;
use std::path::Path;

pub use handle::{Context, Sink};
pub use status::{Health, Status};

use crate::config::LogConfig;
use crate::error::{Error, Kind, Result};

/// Forgets what is known of a sink that is no longer in the settings.
pub fn forget(state_dir: &Path, id: &str) -> Result<()> {
    checkpoint::Store::open(state_dir, id)
        .and_then(|store| store.remove())
        .map_err(|error| Error::io(format_args!("log {id}: its checkpoint"), &error))
}

/// Checks the `[[log]]` tables without touching a file: paths, templates, and that no two share a path.
pub fn check(logs: &[LogConfig]) -> Result<()> {
    let mut seen = HashMap::new();
    for log in logs {
        path::Template::parse(&log.path)?;
        format::Formatter::new(log)?;
        // Some file systems take both cases for one.
        if let Some(other) = seen.insert(log.path.to_lowercase(), &log.path) {
            let message =
                format!("log.path {:?}: another [[log]] writes {other:?}; give each its own", log.path);
            return Err(Error::new(Kind::InvalidArgument, message));
        }
    }
    Ok(())
}
