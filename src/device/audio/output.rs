//! Where the mixed sound goes: the sound card, or a thread that takes it at the pace of the clock and writes it
//! into a WAV file or throws it away.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use rodio::mixer::{Mixer, MixerSource, mixer};
use rodio::{ChannelCount, SampleRate};

#[cfg(feature = "sound")]
use super::device;
use super::player::Ask;
use super::voice::{End, Knobs, Level, Ready};
use super::wav::WavFile;
use crate::config::AudioOutput;
use crate::{Error, Kind, Result};

/// Rate and channels of the outputs `null` and `wav`.
pub(super) const RATE: SampleRate = NonZero::new(44_100).unwrap();
pub(super) const CHANNELS: ChannelCount = NonZero::new(2).unwrap();
/// How often a paced output takes sound.
const TICK: Duration = Duration::from_millis(10);
/// The most it takes at once, where it was held up.
const CATCH_UP: u64 = RATE.get() as u64;

/// An output that is open.
pub(super) struct Output {
    mixer: Mixer,
    /// What is told when the device is found lost belongs to this opening of it and to no later one.
    pub(super) generation: u64,
    pub(super) channels: ChannelCount,
    pub(super) rate: SampleRate,
    asks: Sender<Ask>,
    kind: Open,
}

enum Open {
    #[cfg(feature = "sound")]
    Device {
        _sink: rodio::MixerDeviceSink,
    },
    Paced(Paced),
}

struct Paced {
    /// There is a new voice. Dropped, the thread ends.
    wake: Sender<()>,
    /// Voices that have ended in the block that is being made.
    ended: Sender<(u64, End)>,
    /// Disconnected once the thread has ended and the file is closed.
    gone: Receiver<()>,
}

impl Output {
    /// Opens the output; may wait for a device or a disk for as long as that likes. `go_on`: a WAV file continues.
    ///
    /// NO_DEVICE, BUSY, PERMISSION of a device; errors of the file system of a WAV file.
    pub(super) fn open(
        wanted: &AudioOutput,
        go_on: bool,
        generation: u64,
        asks: Sender<Ask>,
    ) -> Result<Output> {
        let file = match wanted {
            #[cfg(feature = "sound")]
            AudioOutput::Device => {
                let sink = device::open(generation, asks.clone())?;
                let (channels, rate) = (sink.config().channel_count(), sink.config().sample_rate());
                let mixer = sink.mixer().clone();
                return Ok(Output {
                    mixer,
                    generation,
                    channels,
                    rate,
                    asks,
                    kind: Open::Device { _sink: sink },
                });
            }
            #[cfg(not(feature = "sound"))]
            AudioOutput::Device => return Err(not_enabled(wanted)),
            AudioOutput::Off => return Err(not_enabled(wanted)),
            AudioOutput::Null => None,
            AudioOutput::Wav(path) => Some(WavFile::open(path, go_on, CHANNELS.get(), RATE.get())?),
        };
        let (mixer, source) = mixer(CHANNELS, RATE);
        let (wake, waked) = unbounded();
        let (ended, endings) = unbounded();
        let (here, gone) = bounded(0);
        let puller = Puller { source, file, endings, asks: asks.clone(), generation };
        thread::Builder::new()
            .name("audio-out".into())
            .spawn(move || {
                puller.run(&waked);
                drop(here);
            })
            .map_err(|error| Error::io("starting a thread for the sound", &error))?;
        let kind = Open::Paced(Paced { wake, ended, gone });
        Ok(Output { mixer, generation, channels: CHANNELS, rate: RATE, asks, kind })
    }

    /// Begins a sound. Its end arrives as [`Ask::Ended`], for a WAV file after it was written.
    ///
    /// UNSUPPORTED_FORMAT where it cannot be converted to the rate of the output.
    pub(super) fn start(
        &self,
        play: u64,
        ready: Ready,
        volume: f64,
        master: Arc<Level>,
    ) -> Result<Arc<Knobs>> {
        let (voice, knobs) = match &self.kind {
            #[cfg(feature = "sound")]
            Open::Device { .. } => {
                let asks = self.asks.clone();
                let tell = Box::new(move |end| drop(asks.send(Ask::Ended(play, end))));
                ready.begin(self.rate, volume, master, tell)?
            }
            Open::Paced(paced) => {
                let ended = paced.ended.clone();
                let asks = self.asks.clone();
                let tell = Box::new(move |end| {
                    // Without the thread nobody hands it on.
                    if let Err(unsent) = ended.send((play, end)) {
                        let (play, end) = unsent.into_inner();
                        let _ = asks.send(Ask::Ended(play, end));
                    }
                });
                ready.begin(self.rate, volume, master, tell)?
            }
        };
        self.mixer.add(voice);
        match &self.kind {
            #[cfg(feature = "sound")]
            Open::Device { .. } => {}
            Open::Paced(paced) => drop(paced.wake.send(())),
        }
        Ok(knobs)
    }

    /// Closes it, waiting at most until `deadline` for a device that hangs or a file to be closed.
    pub(super) fn close(self, deadline: Instant) {
        match self.kind {
            #[cfg(feature = "sound")]
            Open::Device { _sink } => {
                let (here, gone) = bounded::<()>(0);
                let closing = move || {
                    drop(_sink);
                    drop(here);
                };
                if thread::Builder::new().name("audio-close".into()).spawn(closing).is_ok() {
                    let _ = gone.recv_deadline(deadline);
                }
            }
            Open::Paced(Paced { wake, gone, .. }) => {
                drop(wake);
                let _ = gone.recv_deadline(deadline);
            }
        }
    }
}

/// The error of an output that is not to be had at all.
pub(super) fn not_enabled(wanted: &AudioOutput) -> Error {
    let text = match wanted {
        AudioOutput::Off => "sound is off: [audio] output = \"off\"",
        _ => "this build cannot use a sound card; set [audio] output to \"null\" or \"wav:PATH\"",
    };
    Error::new(Kind::NotEnabled, text)
}

/// The thread of a paced output.
struct Puller {
    source: MixerSource,
    file: Option<WavFile>,
    endings: Receiver<(u64, End)>,
    asks: Sender<Ask>,
    generation: u64,
}

impl Puller {
    fn run(mut self, waked: &Receiver<()>) {
        let played = catch_unwind(AssertUnwindSafe(|| {
            while waked.recv().is_ok() && self.play(waked)? {}
            Ok(())
        }));
        let reason = match played {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Error::to_string(&error),
            Err(_) => "a defect in the gateway; see its log".to_owned(),
        };
        // Closed before another thread may open it again.
        self.file = None;
        let _ = self.asks.send(Ask::Lost(self.generation, reason));
    }

    /// Takes sound until there is none; false when the output is to be closed.
    fn play(&mut self, waked: &Receiver<()>) -> Result<bool> {
        let start = Instant::now();
        let mut taken = 0;
        let mut block = Vec::new();
        loop {
            if waked.recv_timeout(TICK) == Err(RecvTimeoutError::Disconnected) {
                return Ok(false);
            }
            // Never ahead of the clock: a sound of a second has ended after a second.
            let due = (start.elapsed().as_secs_f64() * f64::from(RATE.get())) as u64;
            block.clear();
            let more = self.pull((due - taken).min(CATCH_UP), &mut block);
            taken = due;
            if let Some(file) = self.file.as_mut().filter(|_| !block.is_empty()) {
                file.write(&block)?;
            }
            for (play, end) in self.endings.try_iter() {
                let _ = self.asks.send(Ask::Ended(play, end));
            }
            if !more {
                return Ok(true);
            }
        }
    }

    /// Appends up to so many frames to the block; false at silence.
    fn pull(&mut self, frames: u64, block: &mut Vec<i16>) -> bool {
        for _ in 0..frames {
            // Always a whole frame, since the mixer lets new sounds begin with one.
            let frame: [Option<f32>; CHANNELS.get() as usize] = std::array::from_fn(|_| self.source.next());
            if frame.iter().all(Option::is_none) {
                return false;
            }
            block.extend(frame.map(|sample| to_i16(sample.unwrap_or(0.0))));
        }
        true
    }
}

/// The reverse of how decoders make numbers of samples of 16 bits; what is too loud is cut.
fn to_i16(sample: f32) -> i16 {
    (sample * 32768.0).round().clamp(-32768.0, 32767.0) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_16_bits_come_back_as_they_were() {
        for sample in i16::MIN..=i16::MAX {
            assert_eq!(to_i16(f32::from(sample) / 32768.0), sample);
        }
        assert_eq!((to_i16(2.0), to_i16(-2.0)), (i16::MAX, i16::MIN));
    }
}
