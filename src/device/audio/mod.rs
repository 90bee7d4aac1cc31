//! Sounds: files or bytes, played over each other.
//!
//! request -> `audio` thread (player.rs) -> file read and checked on a thread of its own -> mixer -> output. The
//! output is the sound card, or a thread that takes the sound at the pace of the clock (output.rs). All outputs mix
//! the same way, so what `wav` writes is what a card would get at that rate.

mod board;
#[cfg(feature = "sound")]
mod device;
mod folder;
mod output;
mod player;
#[cfg(test)]
mod tests;
mod voice;
mod wav;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde_json::{Value, json};

use super::Reply;
use crate::config::{AudioConfig, AudioOutput};
use crate::events::Hub;
use crate::util::guard;
use crate::{Error, Kind, Result};
use board::Desk;
use player::{Ask, Player};

/// Sounds that may play at once.
pub const MAX_PLAYS: usize = 64;
/// The longest content that may be sent instead of a file, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The sound output of a gateway. No function waits for a device, a disk (but [`Audio::list`]) or a sound.
pub struct Audio {
    desk: Arc<Desk>,
    thread: Mutex<Thread>,
}

/// The audio thread.
enum Thread {
    /// Nothing has needed it yet.
    Unborn,
    Runs {
        asks: Sender<Ask>,
        /// Disconnected once it has ended.
        gone: Receiver<()>,
    },
    Over,
}

/// What to play.
#[derive(Clone, Debug)]
pub enum Sound {
    /// A file below `audio_dir`, as the client wrote it.
    File(String),
    /// The content of a file, at most [`MAX_BYTES`].
    Bytes(Vec<u8>),
}

impl Audio {
    /// Opens no device: that is done by the first sound. The WAV file of the output `wav` is made at once, so that
    /// what is in it is of this run; where that fails, the next play tries again.
    pub fn new(config: &AudioConfig, dir: &Path, hub: Arc<Hub>) -> Audio {
        // The settings have whole percents.
        let volume = (f64::from(config.volume) * 100.0).round() / 100.0;
        let desk = Arc::new(Desk::new(config.output.clone(), dir.to_owned(), hub, volume));
        let audio = Audio { desk, thread: Mutex::new(Thread::Unborn) };
        if matches!(config.output, AudioOutput::Wav(_))
            && let Ok(asks) = audio.asks()
        {
            let _ = asks.send(Ask::Open);
        }
        audio
    }

    /// Starts a sound at this volume (0.0 to 2.0, 1.0 without one). Answers when it is on its way:
    /// `{"play": id, "file": …, "duration_ms": …}`, the last two null where there is none.
    ///
    /// NOT_FOUND, PERMISSION, INVALID_ARGUMENT of the file; UNSUPPORTED_FORMAT; TOO_LARGE; BUSY beyond
    /// [`MAX_PLAYS`]; NO_DEVICE within two seconds; NOT_ENABLED.
    pub fn play(&self, sound: Sound, volume: Option<f64>, reply: Reply) {
        let checked = self.enabled().and_then(|()| match &sound {
            Sound::Bytes(bytes) if bytes.len() > MAX_BYTES => {
                let text = format!(
                    "data_base64: {} bytes, and at most {MAX_BYTES} are taken; play a file",
                    bytes.len()
                );
                Err(Error::new(Kind::TooLarge, text))
            }
            Sound::File(name) => folder::check(&self.desk.dir, name).map(|_| ()),
            Sound::Bytes(_) => Ok(()),
        });
        match checked.and_then(|()| self.asks()) {
            // Where the thread has ended, the reply is dropped and answers by itself.
            Ok(asks) => drop(asks.send(Ask::Play(sound, volume.unwrap_or(1.0), reply))),
            Err(error) => reply.answer(Err(error)),
        }
    }

    /// Stops one play, or all: `{"stopped": n}`. One that has ended: 0. What is about to begin is answered with
    /// CLOSED where all are stopped.
    ///
    /// NOT_FOUND for an id that was never given.
    pub fn stop(&self, play: Option<u64>, reply: Reply) {
        match (&*guard(&self.thread), play) {
            (Thread::Runs { asks, .. }, _) => drop(asks.send(Ask::Stop(play, reply))),
            (_, None) => reply.answer(Ok(json!({"stopped": 0}))),
            (_, Some(play)) => reply.answer(Err(no_such_play(play))),
        }
    }

    /// Sets the volume (0.0 to 2.0) of a play, or that of everything, which multiplies those of the plays; without
    /// one tells it: `{"volume": v}`. Heard with the next samples that the output takes.
    ///
    /// NOT_FOUND for a play that was never started or has ended.
    pub fn volume(&self, play: Option<u64>, volume: Option<f64>) -> Result<Value> {
        let board = guard(&self.desk.board);
        let level = match play {
            None => &*self.desk.master,
            Some(play) => match board.plays.get(&play) {
                Some(entry) => &entry.knobs.volume,
                None if play > 0 && play <= board.last_play => {
                    return Err(Error::new(Kind::NotFound, format!("play {play} has ended")));
                }
                None => return Err(no_such_play(play)),
            },
        };
        if let Some(volume) = volume {
            level.set(volume);
        }
        Ok(json!({"volume": level.get()}))
    }

    /// What plays, and where to. Never waits for the device.
    pub fn status(&self) -> Value {
        self.desk.status()
    }

    /// The files that can be played, and the sound cards that there are. Reads folders and asks the system, which
    /// may take seconds.
    ///
    /// NOT_FOUND where `audio_dir` is not there.
    pub fn list(&self) -> Result<Value> {
        let (files, more) = folder::list(&self.desk.dir)?;
        let files: Vec<Value> =
            files.iter().map(|file| json!({"file": file.name, "bytes": file.bytes})).collect();
        #[cfg(feature = "sound")]
        let outputs = device::names();
        #[cfg(not(feature = "sound"))]
        let outputs: Vec<Value> = Vec::new();
        Ok(json!({"audio_dir": self.desk.dir, "files": files, "more": more, "outputs": outputs}))
    }

    /// Stops everything and ends the thread, at the latest at `deadline`; see [`super::Devices::stop`].
    pub fn stop_all(&self, deadline: Instant) {
        let thread = std::mem::replace(&mut *guard(&self.thread), Thread::Over);
        if let Thread::Runs { asks, gone } = thread {
            let _ = asks.send(Ask::Finish);
            let _ = gone.recv_deadline(deadline);
        }
    }

    fn enabled(&self) -> Result<()> {
        match self.desk.output {
            AudioOutput::Off => Err(output::not_enabled(&self.desk.output)),
            AudioOutput::Device if !cfg!(feature = "sound") => Err(output::not_enabled(&self.desk.output)),
            _ => Ok(()),
        }
    }

    /// The way to the thread, which is started where there is none.
    fn asks(&self) -> Result<Sender<Ask>> {
        let mut thread = guard(&self.thread);
        match &*thread {
            Thread::Runs { asks, .. } => return Ok(asks.clone()),
            Thread::Over => return Err(Error::new(Kind::ShuttingDown, "the gateway is stopping")),
            Thread::Unborn => {}
        }
        let (asks, asked) = unbounded();
        let (here, gone) = bounded::<()>(0);
        let player = Player::new(self.desk.clone(), asks.clone());
        thread::Builder::new()
            .name("audio".into())
            .spawn(move || {
                player.run(&asked);
                drop(here);
            })
            .map_err(|error| Error::io("starting the audio thread", &error))?;
        *thread = Thread::Runs { asks: asks.clone(), gone };
        Ok(asks)
    }
}

fn no_such_play(play: u64) -> Error {
    Error::new(Kind::NotFound, format!("there was no play {play}; audio.play answers with the id"))
}
