//! The files below `audio_dir`: which there are, and the way from a name that a client wrote to an open file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::config::pattern::is_device;
use crate::wire::nearest;
use crate::{Error, Kind, Result};

/// Files that are listed, and folders that are looked into for them.
pub(super) const LISTED: usize = 1000;
const FOLDERS: usize = 1000;
/// How deep folders may lie in each other.
const DEPTH: usize = 16;
/// The longest name of a file system's entry, and of a path below `audio_dir`, in bytes.
const NAME_BYTES: usize = 255;
const PATH_BYTES: usize = 1024;

/// A file that can be played.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Below `audio_dir`, with `/` between folders.
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Opens the file of this name below `dir` and tells its length. `\` separates folders as `/` does, on every system.
/// Waits for the disk, but never for whoever writes into a pipe.
///
/// PERMISSION for what leads out of `dir`, INVALID_ARGUMENT for what names no plain file, NOT_FOUND.
pub(super) fn open(dir: &Path, text: &str) -> Result<(File, u64)> {
    let name = check(dir, text)?;
    let root = fs::canonicalize(dir).map_err(|error| folder_error(dir, &error))?;
    let path = match fs::canonicalize(root.join(&name)) {
        Ok(path) => path,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(not_found(dir, &name)),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Err(not_found(dir, &name)),
        Err(error) => return Err(Error::io(&name, &error)),
    };
    if !path.starts_with(&root) {
        return Err(outside(dir, &name));
    }
    let no_file = |kind: fs::FileType| {
        let what = if kind.is_dir() { "a folder" } else { "a pipe, socket or device" };
        Error::new(Kind::InvalidArgument, format!("{name} is {what}; name a file"))
    };
    let kind = fs::metadata(&path).map_err(|error| Error::io(&name, &error))?.file_type();
    if !kind.is_file() {
        return Err(no_file(kind));
    }
    let mut options = fs::OpenOptions::new();
    options.read(true);
    // Whoever put a link or a pipe there in the meantime gains nothing.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(&path).map_err(|error| Error::io(&name, &error))?;
    let found = file.metadata().map_err(|error| Error::io(&name, &error))?;
    if !found.is_file() {
        return Err(no_file(found.file_type()));
    }
    Ok((file, found.len()))
}

/// The name with `/` between folders, where it can lead nowhere but below `dir`.
pub(super) fn check(dir: &Path, text: &str) -> Result<String> {
    let wrong = |why: &str| {
        let short: String = text.chars().take(100).collect();
        Error::new(Kind::InvalidArgument, format!("{short:?}: {why}"))
    };
    if text.is_empty() {
        return Err(wrong("a file needs a name"));
    }
    if text.len() > PATH_BYTES {
        return Err(wrong("a path has at most 1024 bytes"));
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(wrong(&format!("there is {control:?} in it, which no name of a file should have")));
    }
    let name = text.replace('\\', "/");
    let drive = name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic();
    if name.starts_with('/') || drive {
        return Err(match Path::new(text).strip_prefix(dir) {
            Ok(rest) => wrong(&format!("name it from audio_dir on: {}", rest.display())),
            Err(_) => outside(dir, text),
        });
    }
    if name.split('/').any(|part| part == "..") {
        return Err(outside(dir, text));
    }
    if name.contains("://") {
        return Err(wrong("this is an address; give the name of a file below audio_dir, or its content"));
    }
    for part in name.split('/') {
        let why = if part.is_empty() || part == "." {
            "each name between two / needs text of its own"
        } else if part.len() > NAME_BYTES {
            "a name between two / has at most 255 bytes"
        } else if part.contains(':') {
            "a colon names a drive, a device or a hidden part of a file"
        } else if is_device(part) {
            "this is a device on Windows"
        } else if part.ends_with([' ', '.']) {
            "a name ends neither with a space nor with a dot"
        } else {
            continue;
        };
        return Err(wrong(why));
    }
    Ok(name)
}

/// All files below `dir`, by name, and whether there are more than those. Links are listed where they lead to a
/// file below `dir`; names that [`open`] would refuse are not.
///
/// NOT_FOUND where there is no such folder.
pub(super) fn list(dir: &Path) -> Result<(Vec<Entry>, bool)> {
    let root = fs::canonicalize(dir).map_err(|error| folder_error(dir, &error))?;
    let mut walk = Walk { dir, root: &root, files: Vec::new(), folders: 0, more: false };
    let entries = fs::read_dir(&root).map_err(|error| folder_error(dir, &error))?;
    walk.folder(entries, "", 0);
    let Walk { mut files, more, .. } = walk;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((files, more))
}

struct Walk<'a> {
    dir: &'a Path,
    root: &'a Path,
    files: Vec<Entry>,
    folders: usize,
    more: bool,
}

impl Walk<'_> {
    fn folder(&mut self, entries: fs::ReadDir, prefix: &str, depth: usize) {
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{prefix}{name}");
            if name.contains('\\') || check(self.dir, &name).is_err() {
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                self.folders += 1;
                if depth >= DEPTH || self.folders > FOLDERS {
                    self.more = true;
                } else if let Ok(entries) = fs::read_dir(entry.path()) {
                    self.folder(entries, &format!("{name}/"), depth + 1);
                }
            } else if let Some(bytes) = self.file(&entry.path(), kind) {
                self.files.push(Entry { name, bytes });
            }
            if self.files.len() > LISTED {
                self.files.truncate(LISTED);
                self.more = true;
            }
            if self.files.len() == LISTED && self.more {
                return;
            }
        }
    }

    /// The length of a plain file, or of one that a link leads to below the root.
    fn file(&self, path: &Path, kind: fs::FileType) -> Option<u64> {
        let real: PathBuf;
        let path = if kind.is_symlink() {
            real = fs::canonicalize(path).ok().filter(|real| real.starts_with(self.root))?;
            &real
        } else {
            path
        };
        let found = fs::metadata(path).ok()?;
        found.is_file().then_some(found.len())
    }
}

fn outside(dir: &Path, text: &str) -> Error {
    let text =
        format!("{text} is outside audio_dir {}; copy it there, or send it as data_base64", dir.display());
    Error::new(Kind::Permission, text)
}

fn not_found(dir: &Path, name: &str) -> Error {
    let files = list(dir).map(|(files, _)| files).unwrap_or_default();
    let hint = match nearest(name, files.iter().map(|file| &file.name[..])) {
        Some(near) => format!("did you mean {near}?"),
        None => "audio.list tells what is there".to_owned(),
    };
    Error::new(Kind::NotFound, format!("there is no {name} in audio_dir {}; {hint}", dir.display()))
}

fn folder_error(dir: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        let text = format!("audio_dir {} is not there; make it and put sounds into it", dir.display());
        return Error::new(Kind::NotFound, text);
    }
    Error::io(format_args!("audio_dir {}", dir.display()), error)
}
