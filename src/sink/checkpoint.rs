//! What is known to be in the files: so that after a crash no line is there twice and none is missing.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{Identity, make_folder, options};
use crate::util::sync_dir;

/// The form of the file; another one is not read.
const VERSION: u32 = 1;

/// A record in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Of its frame.
    pub(super) position: u64,
    /// In the frame.
    pub(super) index: u32,
}

/// What the files held at one place of the journal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    version: u32,
    /// Everything before it is in the files.
    pub(super) place: Place,
    /// Whether the sink stopped here by itself: what came into the files later is not ours.
    pub(super) stopped: bool,
    /// The newest stamp given to a rotated file, in microseconds.
    pub(super) stamp: i64,
    pub(super) files: Vec<Known>,
}

/// A log file at a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Known {
    /// Relative to `log_dir`, with `/`, NUL in place of the date.
    pub(super) family: String,
    /// The day that its date is; 0 where it has none.
    pub(super) day: i64,
    /// When the last record for it was received.
    pub(super) used: i64,
    /// The hour or day of its records, where it is rotated by time.
    pub(super) period: Option<i64>,
    pub(super) identity: Option<Identity>,
    /// How long it was.
    pub(super) offset: u64,
}

impl Checkpoint {
    pub(super) fn new(place: Place, stopped: bool, stamp: i64, files: Vec<Known>) -> Checkpoint {
        Checkpoint { version: VERSION, place, stopped, stamp, files }
    }

    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Checkpoint> {
        serde_json::from_slice(bytes).ok().filter(|checkpoint: &Checkpoint| checkpoint.version == VERSION)
    }
}

/// Where the checkpoints of a sink are kept.
#[derive(Clone, Debug)]
pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn open(state_dir: &Path, id: &str) -> io::Result<Store> {
        let dir = state_dir.join("sinks");
        make_folder(&dir)?;
        #[cfg(unix)]
        fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(Store(dir.join(format!("{}.json", super::path::escaped(id)))))
    }

    /// The newest checkpoint; none where there is none that can be read.
    pub(super) fn load(&self) -> Option<Checkpoint> {
        Checkpoint::from_bytes(&fs::read(&self.0).ok()?)
    }

    /// Removes the checkpoint, if there is one.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Replaces the checkpoint; after a crash there is the old one or the new one.
    pub(super) fn save(&self, bytes: &[u8]) -> io::Result<()> {
        // With the path: it is in the journal's folder, where nobody looks who reads of a log file.
        self.replace(bytes).map_err(|error| {
            io::Error::new(error.kind(), format!("its checkpoint {}: {error}", self.0.display()))
        })
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.0.with_extension("json.tmp");
        let mut options = options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        drop(file);
        fs::rename(&temporary, &self.0)?;
        sync_dir(self.0.parent().unwrap_or(Path::new(".")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_checkpoint_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "{source}.log").unwrap();
        assert!(store.load().is_none());
        let place = Place { position: 7, index: 2 };
        let bytes = Checkpoint::new(place, false, 0, Vec::new()).to_bytes().unwrap();
        store.save(&bytes).unwrap();
        assert_eq!(store.load().unwrap().place, place);
        let lost = Store::open(&dir.path().join("lost"), "a.log").unwrap();
        fs::remove_dir_all(dir.path().join("lost")).unwrap();
        let error = lost.save(&bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(
            error.to_string().contains("checkpoint") && error.to_string().contains("a.log.json"),
            "{error}"
        );
        let path = dir.path().join("sinks/%7Bsource%7D.log.json");
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(store.load().is_none());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
