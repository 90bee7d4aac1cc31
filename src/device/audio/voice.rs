//! A sound on its way to the mixer: decoded block by block, turned up or down, counted, and ended exactly once.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rodio::{ChannelCount, Decoder, Sample, SampleRate, Source};

use super::wav::data_chunk;
use crate::{Error, Kind, Result};

/// Samples decoded at once: some 6 ms of stereo, after which a new volume is heard.
const BLOCK: usize = 512;
/// Files up to this size are read into memory first, so that the sound card never waits for a disk.
const IN_MEMORY: u64 = 4 << 20;
/// How much of a file is looked at for the header of a WAV.
const HEAD: u64 = 64 << 10;
/// What a sound may be like. Beyond, the conversion to the output's rate needs more memory or wider numbers than it has.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
const CHANNELS: std::ops::RangeInclusive<u16> = 1..=32;

/// A volume that any thread may read and set.
#[derive(Debug)]
pub(super) struct Level(AtomicU64);

impl Level {
    pub(super) fn new(volume: f64) -> Level {
        Level(AtomicU64::new(volume.to_bits()))
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, volume: f64) {
        self.0.store(volume.to_bits(), Ordering::Relaxed);
    }
}

/// What others see of a voice and may do to it, while the mixer owns it.
#[derive(Debug)]
pub(super) struct Knobs {
    pub(super) volume: Level,
    stopped: AtomicBool,
    /// Samples that the output has taken, over all channels.
    taken: AtomicU64,
    samples_a_second: u64,
}

impl Knobs {
    /// How much was heard, or at least taken by the output.
    pub(super) fn position(&self) -> Duration {
        let taken = self.taken.load(Ordering::Relaxed);
        Duration::from_micros((u128::from(taken) * 1_000_000 / u128::from(self.samples_a_second)) as u64)
    }

    /// Ends the voice at its next sample.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// How a sound ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The output took its last sample.
    Finished,
    /// For this reason.
    Failed(String),
}

/// Told once how a voice ended.
pub(super) type Tell = Box<dyn FnOnce(End) + Send>;

/// What is to be decoded.
pub(super) enum Content {
    Bytes(Vec<u8>),
    File(File, u64),
}

/// A sound that was found good and waits for an output.
pub(super) struct Ready {
    decoder: Box<dyn Source + Send>,
    channels: ChannelCount,
    rate: SampleRate,
    block: Vec<Sample>,
    end: Option<End>,
    /// None where the format does not tell.
    pub(super) duration: Option<Duration>,
}

impl Ready {
    /// Opens the decoder and decodes the first samples. May wait for the disk.
    ///
    /// UNSUPPORTED_FORMAT where it is no sound, or has none in it although it says so; a panic of a decoder too.
    pub(super) fn read(content: Content) -> Result<Ready> {
        let (head, content) = head(content)?;
        if head.is_empty() {
            return Err(unsupported("it has 0 bytes"));
        }
        let length = match &content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, length) => *length,
        };
        let data = data_chunk(&head);
        if let Some((_, claimed)) = data.filter(|&(at, claimed)| claimed > 0 && at >= length) {
            return Err(unsupported(&format!(
                "truncated: its header tells of {claimed} bytes of sound and none are there"
            )));
        }
        let read = catch_unwind(AssertUnwindSafe(|| {
            let decoder = decoder(content)?;
            let (channels, rate) = (decoder.channels(), decoder.sample_rate());
            let duration = decoder.total_duration();
            let mut ready =
                Ready { decoder, channels, rate, block: Vec::with_capacity(BLOCK), end: None, duration };
            ready.end = fill(&mut *ready.decoder, (channels, rate), &mut ready.block);
            Ok(ready)
        }));
        let mut ready = read.unwrap_or_else(|_| Err(unsupported("its data is damaged")))?;
        if !RATES.contains(&ready.rate.get()) || !CHANNELS.contains(&ready.channels.get()) {
            let (rate, channels) = (ready.rate, ready.channels);
            return Err(unsupported(&format!(
                "{rate} Hz, {channels} channels; there may be {} to {} Hz and up to {} channels",
                RATES.start(),
                RATES.end(),
                CHANNELS.end()
            )));
        }
        match data {
            Some((_, 0)) if ready.block.is_empty() => ready.duration = Some(Duration::ZERO),
            _ if ready.block.is_empty() => return Err(unsupported("there is no sound in it")),
            // The header of a recording that was cut short, or of a stream, tells more than there is.
            Some((at, claimed)) if at + claimed > length => {
                let there = (length - at.min(length)) as f64 / claimed as f64;
                ready.duration = ready.duration.map(|duration| duration.mul_f64(there));
            }
            _ => {}
        }
        Ok(ready)
    }

    /// A voice for a mixer whose output has this rate, and the knobs that rule it; `tell` hears how it ended.
    ///
    /// UNSUPPORTED_FORMAT where the sound cannot be converted to that rate.
    pub(super) fn begin(
        self,
        output_rate: SampleRate,
        volume: f64,
        master: Arc<Level>,
        tell: Tell,
    ) -> Result<(Voice, Arc<Knobs>)> {
        if !convertible(self.rate.get(), output_rate.get()) {
            return Err(unsupported(&format!(
                "{} Hz cannot be converted to the {output_rate} Hz of the output",
                self.rate
            )));
        }
        let knobs = Arc::new(Knobs {
            volume: Level::new(volume),
            stopped: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            samples_a_second: u64::from(self.rate.get()) * u64::from(self.channels.get()),
        });
        let gain = (volume * master.get()) as Sample;
        let (ready, knobs_of_voice) = (self, knobs.clone());
        let voice = Voice { ready, at: 0, gain, taken: 0, knobs: knobs_of_voice, master, tell: Some(tell) };
        Ok((voice, knobs))
    }
}

/// A source for the mixer. Its end, whatever it is, is told once; a stop by the knobs is not.
pub(super) struct Voice {
    ready: Ready,
    at: usize,
    gain: Sample,
    taken: u64,
    knobs: Arc<Knobs>,
    master: Arc<Level>,
    tell: Option<Tell>,
}

impl Voice {
    /// The next block; whether there was one.
    fn refill(&mut self) -> bool {
        let Ready { decoder, channels, rate, block, end, .. } = &mut self.ready;
        block.clear();
        self.at = 0;
        if end.is_none() {
            let format = (*channels, *rate);
            *end = catch_unwind(AssertUnwindSafe(|| fill(&mut **decoder, format, block)))
                .unwrap_or_else(|_| Some(End::Failed("its data is damaged".to_owned())));
        }
        self.gain = (self.knobs.volume.get() * self.master.get()) as Sample;
        match end {
            Some(end) if block.is_empty() => {
                let end = end.clone();
                self.tell(end);
                false
            }
            _ => !block.is_empty(),
        }
    }

    fn tell(&mut self, end: End) {
        if let Some(tell) = self.tell.take() {
            tell(end);
        }
    }
}

impl Iterator for Voice {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.knobs.stopped.load(Ordering::Relaxed) {
            self.tell = None;
            return None;
        }
        if self.at == self.ready.block.len() && !self.refill() {
            return None;
        }
        let sample = self.ready.block[self.at];
        self.at += 1;
        self.taken += 1;
        self.knobs.taken.store(self.taken, Ordering::Relaxed);
        Some(sample * self.gain)
    }
}

impl Source for Voice {
    /// One span from the first sample to the last: rate and channels never change, and the conversion of rates
    /// would begin anew with each span.
    fn current_span_len(&self) -> Option<usize> {
        None
    }

    fn channels(&self) -> ChannelCount {
        self.ready.channels
    }

    fn sample_rate(&self) -> SampleRate {
        self.ready.rate
    }

    fn total_duration(&self) -> Option<Duration> {
        self.ready.duration
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        if !self.knobs.stopped.load(Ordering::Relaxed) {
            self.tell(End::Failed("the output was closed".to_owned()));
        }
    }
}

/// Decodes into an empty block until it is full or the sound ends.
fn fill(
    decoder: &mut (dyn Source + Send),
    format: (ChannelCount, SampleRate),
    block: &mut Vec<Sample>,
) -> Option<End> {
    while block.len() < BLOCK {
        let Some(sample) = decoder.next() else { return Some(End::Finished) };
        if (decoder.channels(), decoder.sample_rate()) != format {
            return Some(End::Failed("its rate or channels change in the middle".to_owned()));
        }
        // One value that is no number would silence everything that plays.
        block.push(if sample.is_finite() { sample } else { 0.0 });
    }
    None
}

/// The first bytes, and the content, small files in memory.
fn head(content: Content) -> Result<(Vec<u8>, Content)> {
    let failed = |error: &std::io::Error| Error::io("reading it", error);
    match content {
        Content::Bytes(bytes) => {
            let head = bytes[..bytes.len().min(HEAD as usize)].to_vec();
            Ok((head, Content::Bytes(bytes)))
        }
        Content::File(mut file, length) => {
            let mut bytes = Vec::new();
            let wanted = if length <= IN_MEMORY { IN_MEMORY } else { HEAD };
            (&mut file).take(wanted).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
            if length <= IN_MEMORY {
                return head(Content::Bytes(bytes));
            }
            file.rewind().map_err(|error| failed(&error))?;
            Ok((bytes, Content::File(file, length)))
        }
    }
}

fn decoder(content: Content) -> Result<Box<dyn Source + Send>> {
    fn open<R: Read + Seek + Send + Sync + 'static>(data: R, length: u64) -> Result<Box<dyn Source + Send>> {
        match Decoder::builder().with_data(data).with_byte_len(length).build() {
            Ok(decoder) => Ok(Box::new(decoder)),
            Err(error) => {
                log::debug!("audio: {error}");
                Err(unsupported("this is no WAV, FLAC, MP3 or Ogg Vorbis, or it is damaged"))
            }
        }
    }
    match content {
        Content::Bytes(bytes) => {
            let length = bytes.len() as u64;
            open(Cursor::new(bytes), length)
        }
        Content::File(file, length) => open(BufReader::new(file), length),
    }
}

/// Whether the mixer's arithmetic of 32 bits holds: it multiplies both rates, without what they have in common.
fn convertible(from: u32, to: u32) -> bool {
    let (mut a, mut b) = (from, to);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    u64::from(from / a) * u64::from(to / a) < u64::from(u32::MAX)
}

fn unsupported(why: &str) -> Error {
    Error::new(Kind::UnsupportedFormat, why)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::num::NonZero;

    /// A decoder made of a function, mono at 8 kHz.
    pub(crate) struct Made<F>(pub(crate) F);

    impl<F: FnMut() -> Option<Sample>> Iterator for Made<F> {
        type Item = Sample;

        fn next(&mut self) -> Option<Sample> {
            (self.0)()
        }
    }

    impl<F: FnMut() -> Option<Sample>> Source for Made<F> {
        fn current_span_len(&self) -> Option<usize> {
            None
        }

        fn channels(&self) -> ChannelCount {
            NonZero::new(1).unwrap()
        }

        fn sample_rate(&self) -> SampleRate {
            NonZero::new(8_000).unwrap()
        }

        fn total_duration(&self) -> Option<Duration> {
            None
        }
    }

    impl Ready {
        /// Nothing of it is decoded yet.
        pub(crate) fn of(decoder: impl Source + Send + 'static) -> Ready {
            let (channels, rate) = (decoder.channels(), decoder.sample_rate());
            Ready { decoder: Box::new(decoder), channels, rate, block: Vec::new(), end: None, duration: None }
        }
    }

    /// All samples and the ends that were told.
    fn play(decoder: impl Source + Send + 'static, volume: f64) -> (Vec<Sample>, Vec<End>) {
        let (sender, ends) = crossbeam_channel::unbounded();
        let tell = Box::new(move |end| sender.send(end).unwrap());
        let master = Arc::new(Level::new(0.5));
        let rate = NonZero::new(44_100).unwrap();
        let (mut voice, knobs) = Ready::of(decoder).begin(rate, volume, master, tell).unwrap();
        let samples: Vec<Sample> = voice.by_ref().collect();
        assert_eq!(voice.next(), None);
        assert_eq!(knobs.position(), Duration::from_micros(samples.len() as u64 * 125));
        drop(voice);
        (samples, ends.iter().collect())
    }

    #[test]
    fn a_voice_is_turned_down_and_its_end_is_told_once() {
        let mut left = 1000;
        let count = move || {
            left -= 1;
            (left >= 0).then_some(if left == 500 { Sample::NAN } else { 0.5 })
        };
        let (samples, ends) = play(Made(count), 0.5);
        assert_eq!((samples.len(), ends), (1000, vec![End::Finished]));
        assert_eq!((samples[0], samples[499]), (0.125, 0.0));
    }

    #[test]
    fn a_decoder_that_panics_ends_its_own_sound_only() {
        let mut left = 700;
        let count = move || {
            left -= 1;
            assert!(left >= 0, "this panic is part of the test");
            Some(0.5)
        };
        let (samples, ends) = play(Made(count), 1.0);
        assert_eq!((samples.len(), ends), (700, vec![End::Failed("its data is damaged".to_owned())]));
    }

    #[test]
    fn a_voice_that_is_dropped_has_failed_and_one_that_was_stopped_tells_nothing() {
        for stop in [false, true] {
            let (sender, ends) = crossbeam_channel::unbounded();
            let tell = Box::new(move |end| sender.send(end).unwrap());
            let (rate, master) = (NonZero::new(44_100).unwrap(), Arc::new(Level::new(1.0)));
            let ready = Ready::of(Made(|| Some(0.1)));
            let (mut voice, knobs) = ready.begin(rate, 1.0, master, tell).unwrap();
            assert_eq!(voice.next(), Some(0.1));
            if stop {
                knobs.stop();
                assert_eq!(voice.next(), None);
            }
            drop(voice);
            assert_eq!(ends.iter().count(), usize::from(!stop));
        }
    }

    #[test]
    fn usual_rates_can_be_converted_and_those_that_would_overflow_cannot() {
        for from in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000] {
            assert!(convertible(from, 44_100) && convertible(from, 48_000), "{from}");
        }
        assert!(!convertible(192_001, 44_100));
    }
}
