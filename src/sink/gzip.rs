//! Compresses a rotated file: there is always the whole original or the whole result.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::file::options;
use crate::util::sync_dir;

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// `x.log` becomes `x.log.gz`. Returns whether the original is gone: not if `stop` came first, or if
/// there is another `x.log.gz` already, which is never replaced.
pub(super) fn compress(path: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let (target, temporary) = (with(path, ".gz"), with(path, ".gz.tmp"));
    if target.try_exists()? {
        // The crash was between the rename and the removal, or the name was used before.
        let equal = same(path, &target, stop)?;
        if equal {
            fs::remove_file(path)?;
        }
        return Ok(equal);
    }
    let result = write(path, &temporary, stop);
    if !matches!(result, Ok(Some(_))) {
        // Without space there is none for half a copy either.
        let _ = fs::remove_file(&temporary);
    }
    let Some(bytes) = result? else { return Ok(false) };
    fs::rename(&temporary, &target)?;
    let dir = target.parent().unwrap_or(Path::new("."));
    sync_dir(dir)?;
    // Somebody may have written to it meanwhile.
    if fs::symlink_metadata(path)?.len() != bytes {
        fs::remove_file(&target)?;
        return Ok(false);
    }
    fs::remove_file(path)?;
    Ok(true)
}

/// Writes the compressed copy and syncs it; the number of bytes read, none if stopped.
fn write(path: &Path, temporary: &Path, stop: &AtomicBool) -> io::Result<Option<u64>> {
    let mut source = File::open(path)?;
    let out = options().write(true).create(true).truncate(true).open(temporary)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                encoder.write_all(&buffer[..count])?;
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let out = encoder.finish()?;
    // Where files are removed by age, it is the age of what is in them.
    out.set_modified(source.metadata()?.modified()?)?;
    out.sync_all()?;
    Ok(Some(bytes))
}

/// Whether `compressed` gives `plain`.
fn same(plain: &Path, compressed: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let mut left = File::open(plain)?;
    let mut right = MultiGzDecoder::new(File::open(compressed)?);
    let mut buffers = (vec![0; 64 << 10], vec![0; 64 << 10]);
    while !stop.load(Ordering::Relaxed) {
        let count = left.read(&mut buffers.0)?;
        if count == 0 {
            return Ok(matches!(right.read(&mut buffers.1), Ok(0)));
        }
        if right.read_exact(&mut buffers.1[..count]).is_err() || buffers.0[..count] != buffers.1[..count] {
            return Ok(false);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_goes_only_for_an_equal_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let stop = AtomicBool::new(false);
        let text = "line\n".repeat(100_000);
        fs::write(&path, &text).unwrap();
        assert!(compress(&path, &stop).unwrap());
        assert!(!path.exists() && !with(&path, ".gz.tmp").exists());
        let mut read = String::new();
        MultiGzDecoder::new(File::open(with(&path, ".gz")).unwrap()).read_to_string(&mut read).unwrap();
        assert!(read == text);

        fs::write(&path, &text).unwrap();
        assert!(compress(&path, &stop).unwrap(), "as after a crash before the removal");
        assert!(!path.exists());
        fs::write(&path, "other\n").unwrap();
        assert!(!compress(&path, &stop).unwrap(), "nothing is replaced");
        assert!(path.exists());

        let other = dir.path().join("y.log");
        fs::write(&other, &text).unwrap();
        assert!(!compress(&other, &AtomicBool::new(true)).unwrap());
        assert!(other.exists() && !with(&other, ".gz.tmp").exists());
    }
}
