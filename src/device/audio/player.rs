//! The audio thread: it starts and stops sounds, opens and watches the output, and tells of each play how it ended.
//!
//! It never waits for a disk or a device itself: files are read and outputs are opened on threads that end with
//! that, and the mixed sound is taken by the card's thread or that of the paced output.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use serde_json::{Value, json};

use super::board::{Desk, Play, State};
use super::folder;
use super::output::Output;
use super::voice::{Content, End, Ready};
use super::{MAX_PLAYS, Reply, Sound};
use crate::throttle::Throttle;
use crate::util::guard;
use crate::wire::event::Fields;
use crate::{Error, Kind, Result};

/// How often the thread looks at what may take too long.
const TICK: Duration = Duration::from_millis(250);
/// How long reading the head of a file may take.
const READ_WAIT: Duration = Duration::from_secs(10);
/// How long a play waits for the output to open; it is told NO_DEVICE within two seconds.
const OPEN_WAIT: Duration = Duration::from_millis(1500);
/// An output that takes no samples for so long is given up.
const STALL: Duration = Duration::from_secs(5);
/// How long closing the output may take at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
const TOPIC: &str = "audio/state/";

/// What the thread is asked, or told by its helpers.
pub(super) enum Ask {
    Play(Sound, f64, Reply),
    Stop(Option<u64>, Reply),
    /// Opens the output without a sound.
    Open,
    /// A sound was read, for the request of this number.
    Read(u64, Result<Ready>),
    /// The output is open, or is not.
    Opened(Result<Output>),
    /// A play has ended by itself.
    Ended(u64, End),
    /// The output of this generation has failed.
    Lost(u64, String),
    /// Stops everything and ends the thread.
    Finish,
}

/// A request to play that is not answered yet.
struct Request {
    /// None once it was answered for taking too long; it keeps its place until its helper comes back.
    reply: Option<Reply>,
    file: Option<String>,
    volume: f64,
    deadline: Instant,
    ready: Option<Ready>,
}

enum Sink {
    Closed,
    Opening,
    Open(Output),
}

/// What the thread owns.
pub(super) struct Player {
    desk: Arc<Desk>,
    asks: Sender<Ask>,
    requests: BTreeMap<u64, Request>,
    last_request: u64,
    sink: Sink,
    generation: u64,
    warnings: Throttle,
    stall: Duration,
}

impl Player {
    pub(super) fn new(desk: Arc<Desk>, asks: Sender<Ask>) -> Player {
        Player {
            desk,
            asks,
            requests: BTreeMap::new(),
            last_request: 0,
            sink: Sink::Closed,
            generation: 0,
            warnings: Throttle::every(Duration::from_secs(60)),
            stall: STALL,
        }
    }

    /// The body of the thread.
    pub(super) fn run(mut self, asked: &Receiver<Ask>) {
        loop {
            let idle = self.requests.is_empty() && guard(&self.desk.board).plays.is_empty();
            let ask = if idle {
                asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                asked.recv_timeout(TICK)
            };
            let ask = match ask {
                Ok(Ask::Finish) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(ask) => Some(ask),
                Err(RecvTimeoutError::Timeout) => None,
            };
            // A reply that is dropped answers by itself; the other sounds must not suffer.
            let handled = catch_unwind(AssertUnwindSafe(|| {
                if let Some(ask) = ask {
                    self.handle(ask);
                }
                self.look_at_the_clock();
            }));
            if handled.is_err() {
                log::error!("audio: a defect: a request panicked");
            }
        }
        self.finish();
    }

    fn handle(&mut self, ask: Ask) {
        match ask {
            Ask::Play(sound, volume, reply) => self.read(sound, volume, reply),
            Ask::Stop(play, reply) => {
                let answer = self.stop(play);
                reply.answer(answer);
            }
            Ask::Open => self.open(),
            Ask::Read(request, read) => self.was_read(request, read),
            Ask::Opened(output) => self.opened(output),
            Ask::Ended(play, end) => self.ended(play, end),
            Ask::Lost(generation, reason) => {
                let current = matches!(&self.sink, Sink::Open(output) if output.generation == generation);
                if current {
                    self.lost(&reason);
                }
            }
            Ask::Finish => {}
        }
    }

    /// Reads and checks a sound on a thread of its own, since a disk may hang and a decoder may be slow.
    fn read(&mut self, sound: Sound, volume: f64, reply: Reply) {
        if self.requests.len() + guard(&self.desk.board).plays.len() >= MAX_PLAYS {
            let text = format!("{MAX_PLAYS} sounds are playing; stop one or wait for one to end");
            return reply.answer(Err(Error::new(Kind::Busy, text)));
        }
        self.last_request += 1;
        let request = self.last_request;
        let file = match &sound {
            Sound::File(name) => Some(name.replace('\\', "/")),
            Sound::Bytes(_) => None,
        };
        let (desk, asks) = (self.desk.clone(), self.asks.clone());
        let work = move || {
            let read = catch_unwind(AssertUnwindSafe(|| read(&desk, sound)));
            let defect = || Err(Error::new(Kind::Internal, "a defect in the gateway; see its log"));
            let _ = asks.send(Ask::Read(request, read.unwrap_or_else(|_| defect())));
        };
        match thread::Builder::new().name("audio-read".into()).spawn(work) {
            Ok(_) => {
                let deadline = Instant::now() + READ_WAIT;
                self.requests
                    .insert(request, Request { reply: Some(reply), file, volume, deadline, ready: None });
            }
            Err(error) => reply.answer(Err(Error::io("starting a thread to read the sound", &error))),
        }
    }

    fn was_read(&mut self, request: u64, read: Result<Ready>) {
        let Some(mut entry) = self.requests.remove(&request) else { return };
        // Else it was too late, or was stopped.
        let Some(reply) = entry.reply.take() else { return };
        match read {
            Ok(ready) => {
                entry.reply = Some(reply);
                entry.ready = Some(ready);
                entry.deadline = Instant::now() + OPEN_WAIT;
                self.requests.insert(request, entry);
                self.open();
            }
            Err(error) => {
                let what = entry.file.as_deref().unwrap_or("the data");
                let error = match error.kind() {
                    Kind::UnsupportedFormat => {
                        Error::new(error.kind(), format!("{what}: {}", error.message()))
                    }
                    _ => error,
                };
                reply.answer(Err(error));
            }
        }
    }

    /// Makes sure that the output is open or being opened, and begins what waits for it.
    fn open(&mut self) {
        match &self.sink {
            Sink::Open(_) => self.start_all(),
            Sink::Opening => {}
            Sink::Closed => {
                self.generation += 1;
                let (desk, asks, generation) = (self.desk.clone(), self.asks.clone(), self.generation);
                let work = move || {
                    let output = catch_unwind(AssertUnwindSafe(|| {
                        let go_on = desk.was_open();
                        Output::open(&desk.output, go_on, generation, asks.clone())
                    }));
                    let defect = || {
                        Err(Error::new(Kind::NoDevice, "the sound system has failed; see the gateway's log"))
                    };
                    let _ = asks.send(Ask::Opened(output.unwrap_or_else(|_| defect())));
                };
                match thread::Builder::new().name("audio-open".into()).spawn(work) {
                    Ok(_) => self.sink = Sink::Opening,
                    Err(error) => self.opened(Err(Error::io("starting a thread for the sound", &error))),
                }
            }
        }
    }

    fn opened(&mut self, output: Result<Output>) {
        match output {
            Ok(output) => {
                log::info!(
                    "audio: the output {} is open with {} Hz and {} channels",
                    self.desk.output_text(),
                    output.rate,
                    output.channels
                );
                self.desk.set_state(State::Open { rate: output.rate.get(), channels: output.channels.get() });
                self.sink = Sink::Open(output);
                self.start_all();
            }
            Err(error) => {
                if let Some(held) = self.warnings.pass() {
                    let held = if held > 0 { format!(" ({held} more times since)") } else { String::new() };
                    log::warn!("audio: {error}{held}");
                }
                self.sink = Sink::Closed;
                self.desk.set_state(State::Failed(error.message().to_owned()));
                self.answer_ready(&error);
            }
        }
    }

    /// Begins all sounds that were read.
    fn start_all(&mut self) {
        let ready: Vec<u64> =
            self.requests.iter().filter(|(_, request)| request.ready.is_some()).map(|(id, _)| *id).collect();
        for id in ready {
            let Some(Request { reply, ready: Some(ready), file, volume, .. }) = self.requests.remove(&id)
            else {
                continue;
            };
            let started = self.start(ready, file, volume);
            if let Some(reply) = reply {
                reply.answer(started);
            }
        }
    }

    fn start(&mut self, ready: Ready, file: Option<String>, volume: f64) -> Result<Value> {
        let Sink::Open(output) = &self.sink else {
            return Err(Error::new(Kind::NoDevice, "the output was closed"));
        };
        let play = guard(&self.desk.board).last_play + 1;
        let duration = ready.duration;
        let knobs = output.start(play, ready, volume, self.desk.master.clone())?;
        let entry = Play { file: file.clone(), duration, knobs, seen: Duration::ZERO, moved: Instant::now() };
        self.tell(play, &entry, "started", None);
        let mut board = guard(&self.desk.board);
        board.last_play = play;
        board.plays.insert(play, entry);
        Ok(json!({"play": play, "file": file, "duration_ms": duration.map(millis)}))
    }

    fn ended(&mut self, play: u64, end: End) {
        // Whoever takes it off the board tells of its end; so there is one end.
        let Some(entry) = self.desk.take(play) else { return };
        match end {
            End::Finished => self.tell(play, &entry, "finished", None),
            End::Failed(reason) => {
                log::warn!(
                    "audio: play {play} ({}) failed: {reason}",
                    entry.file.as_deref().unwrap_or("sent as bytes")
                );
                self.tell(play, &entry, "failed", Some(&reason));
            }
        }
    }

    fn stop(&mut self, play: Option<u64>) -> Result<Value> {
        let plays: Vec<u64> = match play {
            Some(play) => {
                if play == 0 || play > guard(&self.desk.board).last_play {
                    return Err(super::no_such_play(play));
                }
                vec![play]
            }
            None => {
                for request in self.requests.values_mut() {
                    if let Some(reply) = request.reply.take() {
                        reply.answer(Err(Error::new(Kind::Closed, "everything was stopped before it began")));
                    }
                }
                self.requests.retain(|_, request| request.ready.is_none());
                guard(&self.desk.board).plays.keys().copied().collect()
            }
        };
        let mut stopped = 0;
        for play in plays {
            if let Some(entry) = self.desk.take(play) {
                entry.knobs.stop();
                self.tell(play, &entry, "stopped", None);
                stopped += 1;
            }
        }
        Ok(json!({"stopped": stopped}))
    }

    /// Gives the output up: all plays have failed, and the next one opens it again.
    fn lost(&mut self, reason: &str) {
        log::warn!("audio: {reason}");
        if let Sink::Open(output) = std::mem::replace(&mut self.sink, Sink::Closed) {
            output.close(Instant::now());
        }
        self.desk.set_state(State::Failed(reason.to_owned()));
        for (play, entry) in self.desk.take_all() {
            entry.knobs.stop();
            self.tell(play, &entry, "failed", Some(reason));
        }
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        // What still reads keeps its place until its helper comes back.
        self.requests.retain(|_, request| {
            let late = request.deadline <= now && request.reply.is_some();
            let error = match request.ready {
                _ if !late => return true,
                Some(_) => {
                    Error::new(Kind::NoDevice, "the output has not opened yet; the next play looks again")
                }
                None => Error::new(Kind::Timeout, format!("reading the sound takes more than {READ_WAIT:?}")),
            };
            if let Some(reply) = request.reply.take() {
                reply.answer(Err(error));
            }
            request.ready.is_none()
        });
        self.watch(now);
    }

    /// Finds an output that takes nothing any more.
    fn watch(&mut self, now: Instant) {
        let stalled = guard(&self.desk.board).plays.values_mut().any(|play| {
            let position = play.knobs.position();
            if position != play.seen {
                (play.seen, play.moved) = (position, now);
            }
            now.duration_since(play.moved) >= self.stall
        });
        if stalled {
            self.lost(&format!("the output took no sound for {:?}", self.stall));
        }
    }

    fn answer_ready(&mut self, error: &Error) {
        for request in self.requests.values_mut().filter(|request| request.ready.is_some()) {
            if let Some(reply) = request.reply.take() {
                reply.answer(Err(error.clone()));
            }
        }
        self.requests.retain(|_, request| request.ready.is_none());
    }

    fn finish(&mut self) {
        for request in std::mem::take(&mut self.requests).into_values() {
            if let Some(reply) = request.reply {
                reply.answer(Err(Error::new(Kind::ShuttingDown, "the gateway is stopping")));
            }
        }
        let _ = self.stop(None);
        if let Sink::Open(output) = std::mem::replace(&mut self.sink, Sink::Closed) {
            output.close(Instant::now() + CLOSE_WAIT);
        }
        self.desk.set_state(State::Closed);
    }

    fn tell(&self, play: u64, entry: &Play, state: &str, reason: Option<&str>) {
        let mut fields = Fields::none().with("play", play).with("state", state);
        if let Some(file) = &entry.file {
            fields = fields.with("file", file);
        }
        if let Some(reason) = reason {
            fields = fields.with("reason", reason);
        }
        self.desk.hub.publish(TOPIC, &fields, state);
    }
}

fn read(desk: &Desk, sound: Sound) -> Result<Ready> {
    let content = match sound {
        Sound::Bytes(bytes) => Content::Bytes(bytes),
        Sound::File(name) => {
            let (file, length) = folder::open(&desk.dir, &name)?;
            Content::File(file, length)
        }
    };
    Ready::read(content)
}

/// A time in whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AudioOutput;
    use crate::device::audio::voice::tests::Made;
    use crate::events::{Hub, Replay};

    #[test]
    fn an_output_that_stalls_fails_all_plays_and_is_opened_again_by_the_next() {
        let hub = Arc::new(Hub::new("s"));
        let desk = Arc::new(Desk::new(AudioOutput::Null, "sounds".into(), hub.clone(), 1.0));
        let (asks, asked) = crossbeam_channel::unbounded();
        let mut player = Player::new(desk.clone(), asks.clone());
        player.stall = Duration::from_millis(300);
        // A decoder that hangs holds up everything that is mixed with it.
        let (release, hung) = crossbeam_channel::bounded::<()>(0);
        let mut left = 1000;
        let hanging = Ready::of(Made(move || {
            left -= 1;
            if left > 0 { Some(0.5) } else { hung.recv().ok().map(|()| 0.0) }
        }));
        let waiting = |ready, reply| Request {
            reply: Some(reply),
            file: None,
            volume: 1.0,
            deadline: Instant::now() + Duration::from_secs(60),
            ready: Some(ready),
        };
        let (reply, answer) = Reply::channel();
        player.requests.insert(1, waiting(hanging, reply));
        asks.send(Ask::Open).unwrap();
        let thread = thread::spawn(move || player.run(&asked));
        let wait = Duration::from_secs(60);
        assert_eq!(answer.recv_timeout(wait).unwrap().unwrap()["play"], 1);
        let end = Instant::now() + wait;
        while desk.status()["state"] != "failed" {
            assert!(Instant::now() < end);
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(desk.status()["playing"], json!([]));
        // The next one.
        let (reply, answer) = Reply::channel();
        let wav = b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x02\0\0\0\x01\0";
        asks.send(Ask::Play(Sound::Bytes(wav.to_vec()), 1.0, reply)).unwrap();
        assert_eq!(answer.recv_timeout(wait).unwrap().unwrap()["play"], 2);
        let states = || -> Vec<String> {
            let events = hub.replay(&Replay { max_bytes: 1 << 20, ..Replay::default() });
            let events = events["events"].as_array().unwrap().clone();
            events
                .iter()
                .map(|event| format!("{} {}", event["header"]["play"], event["data"].as_str().unwrap()))
                .collect()
        };
        while states().len() < 4 {
            assert!(Instant::now() < end, "{:?}", states());
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(states(), ["1 started", "1 failed", "2 started", "2 finished"]);
        drop(release);
        asks.send(Ask::Finish).unwrap();
        thread.join().unwrap();
    }
}
