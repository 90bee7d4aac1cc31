//! The WAV file of the output `wav`, and the little that is read of a WAV's header.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavSpec, WavWriter};

use crate::{Error, Kind, Result};

/// The format counts bytes in 32 bits, and several programs with a sign: three hours.
const LIMIT: u64 = 2 << 30;

/// A WAV file of 16 bits that is whole after each block.
pub(super) struct WavFile {
    writer: WavWriter<BufWriter<File>>,
    path: PathBuf,
    limit: u64,
}

impl WavFile {
    /// Makes the file anew, or goes on behind what is there already.
    ///
    /// Errors are those of the file system.
    pub(super) fn open(path: &Path, go_on: bool, channels: u16, rate: u32) -> Result<WavFile> {
        let spec =
            WavSpec { channels, sample_rate: rate, bits_per_sample: 16, sample_format: SampleFormat::Int };
        let old =
            if go_on { WavWriter::append(path).ok().filter(|writer| writer.spec() == spec) } else { None };
        let writer = match old {
            Some(writer) => writer,
            None => WavWriter::create(path, spec).map_err(|error| failed(path, error))?,
        };
        let mut file = WavFile { writer, path: path.to_owned(), limit: LIMIT };
        file.writer.flush().map_err(|error| failed(path, error))?;
        Ok(file)
    }

    /// Appends a block of whole frames and writes the new length into the header.
    pub(super) fn write(&mut self, block: &[i16]) -> Result<()> {
        if u64::from(self.writer.len()) * 2 + block.len() as u64 * 2 > self.limit {
            let text = format!(
                "{}: the WAV has reached {} bytes; it is written anew at the next start",
                self.path.display(),
                self.limit
            );
            return Err(Error::new(Kind::TooLarge, text));
        }
        let written = block.iter().try_for_each(|&sample| self.writer.write_sample(sample));
        written.and_then(|()| self.writer.flush()).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: hound::Error) -> Error {
    match error {
        hound::Error::IoError(error) => match Error::io(format_args!("writing {}", path.display()), &error) {
            // NOT_FOUND is what is said of the sound.
            missing if missing.kind() == Kind::NotFound => Error::new(Kind::Io, missing.message()),
            error => error,
        },
        other => Error::new(Kind::Io, format!("writing {}: {other}", path.display())),
    }
}

/// Where the samples of a WAV begin and how many bytes its header tells of; none where it is no WAV, or the header
/// is longer than what is given.
pub(super) fn data_chunk(head: &[u8]) -> Option<(u64, u64)> {
    let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if head.get(..4)? != b"RIFF" || head.get(8..12)? != b"WAVE" {
        return None;
    }
    let mut at = 12_usize;
    loop {
        let (name, length) = (head.get(at..at.checked_add(4)?)?, number(at + 4)?);
        at += 8;
        if name == b"data" {
            return Some((at as u64, u64::from(length)));
        }
        at = at.checked_add(length as usize)?.checked_add(length as usize % 2)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_whole_wav_after_each_block_goes_on_and_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heard.wav");
        let read = || {
            let reader = hound::WavReader::open(&path).unwrap();
            reader.into_samples::<i16>().map(|sample| sample.unwrap()).collect::<Vec<_>>()
        };
        let mut file = WavFile::open(&path, false, 2, 44_100).unwrap();
        assert!(read().is_empty());
        file.write(&[1, -1]).unwrap();
        assert_eq!(read(), [1, -1]);
        drop(file);
        let mut file = WavFile::open(&path, true, 2, 44_100).unwrap();
        file.write(&[i16::MIN, i16::MAX]).unwrap();
        assert_eq!(read(), [1, -1, i16::MIN, i16::MAX]);
        file.limit = 10;
        let error = file.write(&[5, 6]).unwrap_err();
        assert_eq!(error.kind(), Kind::TooLarge, "{error}");
        assert_eq!(read().len(), 4);
        drop(file);
        std::fs::write(&path, b"RIFF").unwrap();
        WavFile::open(&path, true, 2, 44_100).unwrap();
        assert!(read().is_empty());
        let error = WavFile::open(&dir.path().join("none/x.wav"), false, 2, 44_100).err().unwrap();
        assert_eq!(error.kind(), Kind::Io, "{error}");
    }

    #[test]
    fn the_data_chunk_is_found_behind_others() {
        let mut wav = b"RIFF....WAVEfmt \x04\0\0\0abcdodd \x01\0\0\0x\0data\x05\0\0\0".to_vec();
        assert_eq!(data_chunk(&wav), Some((42, 5)));
        wav.truncate(41);
        assert_eq!(data_chunk(&wav), None);
        assert_eq!(data_chunk(b"RIFF....WAVELIST\xff\xff\xff\xffx"), None);
        assert_eq!(data_chunk(b"ID3"), None);
    }
}
