//! One log file on the disk: opened with care, known again by its identity, cut where it is torn.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::util::make_dir;

use serde::{Deserialize, Serialize};

/// What makes a file the same file under another name and after a restart.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    device: u64,
    /// Inode, or Windows file id, upper and lower half.
    file: (u64, u64),
    /// Creation time where the file system has one: an inode number is soon used again.
    created: Option<u64>,
}

impl Identity {
    /// The identity of the file at `path`, without following a link.
    pub(super) fn at(path: &Path) -> io::Result<(Identity, Metadata)> {
        let meta = fs::symlink_metadata(path)?;
        Ok((Identity::of(path, &meta)?, meta))
    }

    #[cfg(unix)]
    fn of(_: &Path, meta: &Metadata) -> io::Result<Identity> {
        use std::os::unix::fs::MetadataExt;
        Ok(Identity { device: meta.dev(), file: (0, meta.ino()), created: created(meta) })
    }

    #[cfg(windows)]
    fn of(path: &Path, meta: &Metadata) -> io::Result<Identity> {
        let (device, file) = match file_id::get_file_id(path)? {
            file_id::FileId::HighRes { volume_serial_number, file_id } => (volume_serial_number, file_id),
            file_id::FileId::LowRes { volume_serial_number, file_index } => {
                (volume_serial_number.into(), file_index.into())
            }
            file_id::FileId::Inode { device_id, inode_number } => (device_id, inode_number.into()),
        };
        Ok(Identity { device, file: ((file >> 64) as u64, file as u64), created: created(meta) })
    }

    /// Whether both are the same file.
    pub(super) fn same(&self, other: &Identity) -> bool {
        let created = self.created.is_none() || other.created.is_none() || self.created == other.created;
        self.device == other.device && self.file == other.file && created
    }
}

fn created(meta: &Metadata) -> Option<u64> {
    Some(meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos() as u64)
}

/// The folder of `relative` below `root` (which is canonical), made if it is not there. A link on the
/// way that leads out of `root` is refused before anything is made behind it.
pub(super) fn folder(root: &Path, relative: &Path) -> io::Result<PathBuf> {
    let mut dir = root.to_path_buf();
    if let Err(error) = fs::symlink_metadata(root)
        && error.kind() == io::ErrorKind::NotFound
    {
        // Somebody moved or removed log_dir while the gateway runs.
        make_folder(root)?;
    }
    for component in relative.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(name) = component else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "leads out of log_dir"));
        };
        dir.push(name);
        match fs::symlink_metadata(&dir) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                dir = fs::canonicalize(&dir)?;
                if !dir.starts_with(root) {
                    let message = "a symbolic link leads out of log_dir; remove it";
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_folder(&dir)?,
            Err(error) => return Err(error),
        }
    }
    Ok(dir)
}

/// Makes a folder and those above it, readable for the group only.
pub(super) fn make_folder(dir: &Path) -> io::Result<()> {
    make_dir(dir, 0o750)
}

/// How log files and what becomes of them are made: mode 0640, never through a link.
#[cfg_attr(not(unix), allow(unused_mut))]
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o640).custom_flags(libc::O_NOFOLLOW);
    }
    options
}

/// Opens the file at `path` for appending, made if it is not there.
pub(super) fn open(path: &Path) -> io::Result<(File, Identity, Metadata)> {
    let file = match options().read(true).append(true).create(true).open(path) {
        // What the system says of O_NOFOLLOW is about levels of links.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink()) => {
            let message = "is a symbolic link; log files are written in place";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        result => result?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a file"));
    }
    let identity = Identity::of(path, &meta)?;
    Ok((file, identity, meta))
}

/// Cuts the file to `len` bytes.
pub(super) fn cut(file: &File, path: &Path, len: u64) -> io::Result<()> {
    if cfg!(windows) {
        // A handle for appending may not cut.
        return OpenOptions::new().write(true).open(path)?.set_len(len);
    }
    file.set_len(len)
}

/// Whether the file was deleted, though it is still open.
pub(super) fn is_deleted(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let _ = path;
        Ok(file.metadata()?.nlink() == 0)
    }
    #[cfg(not(unix))]
    {
        // There is no count of names; what is moved has one, but cannot be told from what is deleted.
        // The check before each write finds both, so only a deletion during the write is missed.
        let _ = (file, path);
        Ok(false)
    }
}

/// Reads `len` bytes from `at` on; fewer where the file is shorter.
pub(super) fn read(mut file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where the whole lines from `from` on end, at most at `len`. No line of ours has a NUL: those are what
/// some file systems show of a write that the power did not last for.
pub(super) fn last_line_end(file: &File, from: u64, len: u64) -> io::Result<u64> {
    const CHUNK: u64 = 64 << 10;
    let (mut at, mut end) = (from, from);
    while at < len {
        let bytes = read(file, at, CHUNK.min(len - at))?;
        let nul = bytes.iter().position(|&byte| byte == 0);
        let good = &bytes[..nul.unwrap_or(bytes.len())];
        if let Some(last) = good.iter().rposition(|&byte| byte == b'\n') {
            end = at + last as u64 + 1;
        }
        if nul.is_some() || bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn c35_links_do_not_lead_out() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("x"), root.join("a.log")).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("in")).unwrap();
        for path in ["out/a.log", "out/b/a.log"] {
            let error = folder(&root, Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        }
        assert_eq!(open(&root.join("a.log")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing was made outside");
        assert_eq!(folder(&root, Path::new("in/x/a.log")).unwrap(), root.join("real/x"));
    }

    #[test]
    fn the_last_line_end_is_found_over_chunks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, format!("a\nb\n{}", "x".repeat(200_000))).unwrap();
        let (file, _, meta) = open(&path).unwrap();
        assert_eq!(last_line_end(&file, 0, meta.len()).unwrap(), 4);
        assert_eq!(last_line_end(&file, 4, meta.len()).unwrap(), 4);
        assert_eq!(last_line_end(&file, 0, 3).unwrap(), 2);
        fs::write(&path, format!("{}\n\0\0\n", "x".repeat(100_000))).unwrap();
        assert_eq!(last_line_end(&file, 0, 100_004).unwrap(), 100_001);
    }
}
