//! What is shared between the audio thread and those who ask: settings, what plays, and the state of the output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::player::millis;
use super::voice::{Knobs, Level};
use crate::config::AudioOutput;
use crate::events::Hub;
use crate::util::guard;

/// Everything that outlives the thread.
pub(super) struct Desk {
    pub(super) output: AudioOutput,
    pub(super) dir: PathBuf,
    pub(super) hub: Arc<Hub>,
    /// The volume of everything.
    pub(super) master: Arc<Level>,
    /// Held for moments only.
    pub(super) board: Mutex<Board>,
    /// Whether the output was opened before in this run.
    opened: AtomicBool,
}

#[derive(Default)]
pub(super) struct Board {
    pub(super) state: State,
    /// What plays, by id.
    pub(super) plays: BTreeMap<u64, Play>,
    /// The newest id that was given.
    pub(super) last_play: u64,
}

/// The state of the output.
#[derive(Clone, Debug, Default)]
pub(super) enum State {
    #[default]
    Closed,
    Open {
        rate: u32,
        channels: u16,
    },
    Failed(String),
}

/// A sound that plays.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) file: Option<String>,
    pub(super) duration: Option<Duration>,
    pub(super) knobs: Arc<Knobs>,
    /// The position when it was last looked at, and when that was last another one.
    pub(super) seen: Duration,
    pub(super) moved: Instant,
}

impl Desk {
    pub(super) fn new(output: AudioOutput, dir: PathBuf, hub: Arc<Hub>, volume: f64) -> Desk {
        let master = Arc::new(Level::new(volume));
        Desk { output, dir, hub, master, board: Mutex::default(), opened: AtomicBool::new(false) }
    }

    /// The output as `[audio] output` writes it.
    pub(super) fn output_text(&self) -> String {
        match &self.output {
            AudioOutput::Device => "device".to_owned(),
            AudioOutput::Null => "null".to_owned(),
            AudioOutput::Wav(path) => format!("wav:{}", path.display()),
            AudioOutput::Off => "off".to_owned(),
        }
    }

    /// Whether the output was open before; a WAV file then goes on.
    pub(super) fn was_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    pub(super) fn set_state(&self, state: State) {
        if matches!(state, State::Open { .. }) {
            self.opened.store(true, Ordering::Relaxed);
        }
        guard(&self.board).state = state;
    }

    /// Takes a play off the board.
    pub(super) fn take(&self, play: u64) -> Option<Play> {
        guard(&self.board).plays.remove(&play)
    }

    pub(super) fn take_all(&self) -> BTreeMap<u64, Play> {
        std::mem::take(&mut guard(&self.board).plays)
    }

    /// For `audio.status`.
    pub(super) fn status(&self) -> Value {
        let board = guard(&self.board);
        let playing: Vec<Value> = board
            .plays
            .iter()
            .map(|(id, play)| {
                json!({
                    "play": id,
                    "file": play.file,
                    "position_ms": millis(play.knobs.position()),
                    "duration_ms": play.duration.map(millis),
                    "volume": play.knobs.volume.get(),
                })
            })
            .collect();
        let mut status = json!({
            "state": "closed",
            "output": self.output_text(),
            "volume": self.master.get(),
            "playing": playing,
        });
        match &board.state {
            State::Closed => {}
            State::Open { rate, channels } => {
                status["state"] = "open".into();
                status["rate"] = (*rate).into();
                status["channels"] = (*channels).into();
            }
            State::Failed(reason) => {
                status["state"] = "failed".into();
                status["reason"] = reason.clone().into();
            }
        }
        status
    }
}
