//! Sounds through the outputs `null` and `wav`, with no sound card.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::events::Replay;

const WATCHDOG: Duration = Duration::from_secs(60);

/// A sound output with a folder of sounds of its own.
struct Rig {
    audio: Audio,
    hub: Arc<Hub>,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(output: impl FnOnce(&Path) -> AudioOutput) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let hub = Arc::new(Hub::new("s"));
        std::fs::create_dir(folder.path().join("sounds")).unwrap();
        let config = AudioConfig { output: output(folder.path()), volume: 1.0 };
        let audio = Audio::new(&config, &folder.path().join("sounds"), hub.clone());
        Rig { audio, hub, folder }
    }

    fn null() -> Rig {
        Rig::new(|_| AudioOutput::Null)
    }

    fn wav() -> Rig {
        Rig::new(|folder| AudioOutput::Wav(folder.join("heard.wav")))
    }

    fn sounds(&self) -> PathBuf {
        self.folder.path().join("sounds")
    }

    fn put(&self, name: &str, content: &[u8]) {
        let path = self.sounds().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn play(&self, sound: Sound, volume: Option<f64>) -> Result<Value> {
        let (reply, answer) = Reply::channel();
        self.audio.play(sound, volume, reply);
        answer.recv_timeout(WATCHDOG).unwrap()
    }

    fn play_file(&self, name: &str) -> Result<Value> {
        self.play(Sound::File(name.to_owned()), None)
    }

    fn play_bytes(&self, bytes: &[u8]) -> u64 {
        self.play(Sound::Bytes(bytes.to_vec()), None).unwrap()["play"].as_u64().unwrap()
    }

    fn stop(&self, play: Option<u64>) -> Result<Value> {
        let (reply, answer) = Reply::channel();
        self.audio.stop(play, reply);
        answer.recv_timeout(WATCHDOG).unwrap()
    }

    /// The headers of all events, the payload checked against them.
    fn events(&self) -> Vec<Value> {
        let topics = vec!["audio/state/".to_owned()];
        let events = self.hub.replay(&Replay { topics, max_bytes: 1 << 20, ..Replay::default() });
        let events = events["events"].as_array().unwrap().clone();
        events
            .into_iter()
            .map(|event| {
                assert_eq!(event["data"], event["header"]["state"]);
                event["header"].clone()
            })
            .collect()
    }

    /// Waits until a play has ended; how.
    fn ended(&self, play: u64) -> Value {
        let end = Instant::now() + WATCHDOG;
        loop {
            let found = self.events().into_iter().find(|e| e["play"] == play && e["state"] != "started");
            match found {
                Some(event) => return event,
                None => assert!(Instant::now() < end, "play {play} does not end: {:?}", self.events()),
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn heard(&self) -> Vec<i16> {
        let reader = hound::WavReader::open(self.folder.path().join("heard.wav")).unwrap();
        let spec = reader.spec();
        assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (2, 44_100, 16));
        reader.into_samples().map(|sample| sample.unwrap()).collect()
    }
}

/// A WAV of 16 bits.
fn wav(channels: u16, rate: u32, samples: &[i16]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let mut wav = b"RIFF".to_vec();
    wav.extend((data.len() as u32 + 36).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    wav.extend(channels.to_le_bytes());
    wav.extend(rate.to_le_bytes());
    wav.extend((rate * u32::from(channels) * 2).to_le_bytes());
    wav.extend((channels * 2).to_le_bytes());
    wav.extend(b"\x10\0data");
    wav.extend((data.len() as u32).to_le_bytes());
    wav.extend(data);
    wav
}

/// Samples of every size, the same each time.
fn noise(count: usize) -> Vec<i16> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i16
    };
    let mut samples: Vec<i16> = (0..count).map(|_| next()).collect();
    samples[..2].copy_from_slice(&[i16::MIN, i16::MAX]);
    samples
}

/// So many milliseconds of stereo silence at 44.1 kHz.
fn silence(ms: usize) -> Vec<u8> {
    wav(2, 44_100, &vec![0; ms * 441 / 10 * 2])
}

fn kind(answer: Result<Value>) -> Kind {
    answer.unwrap_err().kind()
}

#[test]
fn a_wav_of_the_outputs_format_comes_out_as_it_was() {
    let rig = Rig::wav();
    let first = noise(44_100 / 5 * 2);
    rig.put("beeps/a.wav", &wav(2, 44_100, &first));
    let answer = rig.play_file("beeps/a.wav").unwrap();
    assert_eq!(answer, json!({"play": 1, "file": "beeps/a.wav", "duration_ms": 200}));
    let end = rig.ended(1);
    assert_eq!((&end["state"], &end["file"]), (&json!("finished"), &json!("beeps/a.wav")));
    assert!(rig.heard() == first);
    // A longer file is not read into memory; mono comes out on both sides; one after the other, no gap.
    let mono = noise(50_000);
    rig.play_bytes(&wav(1, 44_100, &mono));
    assert_eq!(rig.ended(2)["state"], "finished");
    let both: Vec<i16> = mono.iter().flat_map(|sample| [*sample, *sample]).collect();
    assert!(rig.heard()[first.len()..] == both);
    assert_eq!(rig.audio.status()["state"], "open");
}

#[test]
fn a_file_too_long_for_memory_is_played_as_it_is() {
    let rig = Rig::wav();
    let long = noise(2_200_000);
    rig.put("long.wav", &wav(2, 44_100, &long));
    let answer = rig.play_file("long.wav").unwrap();
    assert_eq!(answer["duration_ms"], 24_943);
    let end = Instant::now() + WATCHDOG;
    while rig.heard().len() < 100_000 {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(rig.stop(None), Ok(json!({"stopped": 1})));
    let heard = rig.heard();
    assert!(long.starts_with(&heard[..]) && heard.len() < long.len());
}

#[test]
fn other_rates_last_as_long() {
    let rig = Rig::wav();
    let answer = rig.play(Sound::Bytes(wav(1, 8_000, &vec![8_000; 1_600])), Some(0.5)).unwrap();
    assert_eq!(answer, json!({"play": 1, "file": null, "duration_ms": 200}));
    rig.ended(1);
    let heard = rig.heard();
    assert!(heard.len().abs_diff(44_100 / 5 * 2) < 20, "{}", heard.len());
    assert!(heard.iter().all(|sample| *sample == 4_000));
    assert_eq!(kind(rig.play(Sound::Bytes(wav(1, 192_001, &[1; 100])), None)), Kind::UnsupportedFormat);
    assert_eq!(kind(rig.play(Sound::Bytes(wav(1, 999, &[1; 100])), None)), Kind::UnsupportedFormat);
}

#[test]
fn c22_odd_files() {
    let rig = Rig::null();
    let header = wav(1, 22_050, &[]);
    assert_eq!(header.len(), 44);
    let mut claims = header.clone();
    claims[40..].copy_from_slice(&100_000_u32.to_le_bytes());
    rig.put("empty.wav", b"");
    rig.put("header.wav", &header);
    rig.put("claims.wav", &claims);
    rig.put("text.mp3", "No sound at all.\n".repeat(400).as_bytes());
    rig.put("silent.mp3", b"ID3\x03\0\0\0\0\0\x0a0123456789");
    rig.put("good.wav", &wav(1, 44_100, &[0; 8_820]));
    std::fs::create_dir(rig.sounds().join("folder.wav")).unwrap();
    for (name, wanted, says) in [
        ("empty.wav", Kind::UnsupportedFormat, "0 bytes"),
        ("claims.wav", Kind::UnsupportedFormat, "100000 bytes"),
        ("text.mp3", Kind::UnsupportedFormat, "no WAV, FLAC, MP3"),
        ("silent.mp3", Kind::UnsupportedFormat, "silent.mp3"),
        ("god.wav", Kind::NotFound, "did you mean good.wav?"),
        ("good.wav/x", Kind::NotFound, "there is no"),
        ("folder.wav", Kind::InvalidArgument, "a folder"),
    ] {
        let error = rig.play_file(name).unwrap_err();
        assert!(error.kind() == wanted && error.message().contains(says), "{name}: {error}");
    }
    #[cfg(unix)]
    {
        let fifo = rig.sounds().join("fifo.wav");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = rig.play_file("fifo.wav").unwrap_err();
        assert!(error.kind() == Kind::InvalidArgument && error.message().contains("a pipe"), "{error}");
    }
    assert_eq!(
        rig.play_file("header.wav").unwrap(),
        json!({"play": 1, "file": "header.wav", "duration_ms": 0})
    );
    assert_eq!(rig.ended(1)["state"], "finished");
    assert_eq!(rig.play_file("good.wav").unwrap()["duration_ms"], 200);
    assert_eq!(rig.ended(2)["state"], "finished");
    assert_eq!(rig.events().len(), 4);
    // A recording that was cut short plays as far as it goes.
    let mut cut = wav(1, 44_100, &[0; 8_820]);
    cut.truncate(44 + 8_820);
    let answer = rig.play(Sound::Bytes(cut), None).unwrap();
    assert_eq!(answer["duration_ms"], 100);
    assert_eq!(rig.ended(3)["state"], "finished");
}

#[test]
fn c48_sounds_overlap_and_each_is_stopped_by_its_own_id() {
    let rig = Rig::null();
    assert_eq!(kind(rig.stop(Some(1))), Kind::NotFound);
    assert_eq!(rig.stop(None), Ok(json!({"stopped": 0})));
    let a = rig.play_bytes(&silence(30_000));
    let b = rig.play_bytes(&silence(300));
    assert_eq!((a, b), (1, 2));
    let playing = rig.audio.status()["playing"].as_array().unwrap().len();
    assert!((1..=2).contains(&playing), "{playing}");
    let start = Instant::now();
    assert_eq!(rig.ended(b)["state"], "finished");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(rig.stop(Some(a)), Ok(json!({"stopped": 1})));
    assert_eq!(rig.ended(a)["state"], "stopped");
    assert_eq!(rig.stop(Some(a)), Ok(json!({"stopped": 0})));
    assert_eq!(kind(rig.stop(Some(3))), Kind::NotFound);
    assert_eq!(kind(rig.stop(Some(0))), Kind::NotFound);
    let c = rig.play_bytes(&silence(50));
    assert_eq!((c, rig.ended(c)["state"].as_str().unwrap()), (3, "finished"));
    let states: Vec<_> = rig.events().iter().map(|e| (e["play"].clone(), e["state"].clone())).collect();
    let expected =
        [(1, "started"), (2, "started"), (2, "finished"), (1, "stopped"), (3, "started"), (3, "finished")];
    assert_eq!(states, expected.map(|(play, state)| (json!(play), json!(state))));
}

#[test]
fn sounds_are_added_to_each_other_and_cut_where_too_loud() {
    let rig = Rig::wav();
    let long = rig.play_bytes(&wav(2, 44_100, &vec![20_000; 60 * 44_100 * 2]));
    let short = rig.play_bytes(&wav(2, 44_100, &vec![15_000; 4_410 * 2]));
    rig.ended(short);
    rig.stop(Some(long)).unwrap();
    let heard = rig.heard();
    assert_eq!(heard.iter().filter(|sample| **sample == i16::MAX).count(), 4_410 * 2);
    assert!(heard.iter().all(|sample| [20_000, i16::MAX].contains(sample)));
}

#[test]
fn c35_nothing_outside_the_folder_is_opened() {
    let rig = Rig::null();
    let good = silence(10);
    rig.put("ok/ok.wav", &good);
    std::fs::write(rig.folder.path().join("outside.wav"), &good).unwrap();
    let absolute = rig.folder.path().join("outside.wav").display().to_string();
    let long = format!("{}.wav", "x".repeat(300));
    for (name, wanted) in [
        ("../outside.wav", Kind::Permission),
        ("ok/../../outside.wav", Kind::Permission),
        ("ok\\..\\..\\outside.wav", Kind::Permission),
        (&absolute, Kind::Permission),
        ("/etc/passwd", Kind::Permission),
        ("C:\\x.wav", Kind::Permission),
        ("C:x.wav", Kind::Permission),
        ("\\\\host\\s\\a.wav", Kind::Permission),
        ("//host/s/a.wav", Kind::Permission),
        ("\\\\?\\C:\\x.wav", Kind::Permission),
        ("file:///etc/passwd", Kind::InvalidArgument),
        ("http://host/a.wav", Kind::InvalidArgument),
        ("NUL", Kind::InvalidArgument),
        ("ok/COM3.wav", Kind::InvalidArgument),
        ("aux.wav", Kind::InvalidArgument),
        ("ok/ok.wav:b", Kind::InvalidArgument),
        ("a\0.wav", Kind::InvalidArgument),
        ("a\n.wav", Kind::InvalidArgument),
        ("con ", Kind::InvalidArgument),
        ("ok.wav.", Kind::InvalidArgument),
        ("", Kind::InvalidArgument),
        (".", Kind::InvalidArgument),
        ("ok//ok.wav", Kind::InvalidArgument),
        ("ok/", Kind::InvalidArgument),
        (&long, Kind::InvalidArgument),
        (&"x/".repeat(1000), Kind::InvalidArgument),
    ] {
        let error = rig.play_file(name).unwrap_err();
        assert_eq!(error.kind(), wanted, "{name:?}: {error}");
    }
    let error = rig.play_file("/etc/passwd").unwrap_err();
    let expected = format!(
        "/etc/passwd is outside audio_dir {}; copy it there, or send it as data_base64",
        rig.sounds().display()
    );
    assert_eq!(error.message(), expected);
    let inside = rig.sounds().join("ok/ok.wav").display().to_string();
    let error = rig.play_file(&inside).unwrap_err();
    assert!(cfg!(windows) || error.message().ends_with("from audio_dir on: ok/ok.wav"), "{error}");
    assert_eq!(rig.play_file("ok\\ok.wav").unwrap()["file"], "ok/ok.wav");
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../outside.wav", rig.sounds().join("out.wav")).unwrap();
        symlink("../..", rig.sounds().join("up")).unwrap();
        symlink("ok/ok.wav", rig.sounds().join("in.wav")).unwrap();
        symlink("/dev/zero", rig.sounds().join("zero.wav")).unwrap();
        assert_eq!(kind(rig.play_file("out.wav")), Kind::Permission);
        assert_eq!(kind(rig.play_file("zero.wav")), Kind::Permission);
        let up = format!("up/{}", rig.folder.path().file_name().unwrap().to_str().unwrap());
        assert_eq!(kind(rig.play_file(&format!("{up}/outside.wav"))), Kind::Permission);
        assert_eq!(rig.play_file("in.wav").unwrap()["file"], "in.wav");
        let list = rig.audio.list().unwrap();
        let names =
            json!([{"file": "in.wav", "bytes": good.len()}, {"file": "ok/ok.wav", "bytes": good.len()}]);
        assert_eq!((&list["files"], &list["more"]), (&names, &json!(false)));
    }
}

#[test]
fn a_thousand_files_are_listed_at_most() {
    let rig = Rig::null();
    for n in 0..folder::LISTED {
        rig.put(&format!("{}/{n}.wav", n % 7), b"x");
    }
    rig.put("CON.wav", b"x");
    let list = rig.audio.list().unwrap();
    assert_eq!((list["files"].as_array().unwrap().len(), &list["more"]), (1000, &json!(false)));
    assert_eq!(list["audio_dir"], json!(rig.sounds()));
    rig.put("more.wav", b"x");
    let list = rig.audio.list().unwrap();
    assert_eq!((list["files"].as_array().unwrap().len(), &list["more"]), (1000, &json!(true)));
    std::fs::remove_dir_all(rig.sounds()).unwrap();
    let error = rig.audio.list().unwrap_err();
    assert!(error.kind() == Kind::NotFound && error.message().contains("make it"), "{error}");
    assert_eq!(kind(rig.play_file("a.wav")), Kind::NotFound);
}

#[test]
fn volumes_multiply_and_hold_for_what_plays() {
    let rig = Rig::wav();
    assert_eq!(rig.audio.volume(None, None), Ok(json!({"volume": 1.0})));
    assert_eq!(rig.audio.volume(None, Some(0.5)), Ok(json!({"volume": 0.5})));
    assert_eq!(kind(rig.audio.volume(Some(1), None)), Kind::NotFound);
    rig.play(Sound::Bytes(wav(2, 44_100, &vec![8_000; 200_000])), Some(0.5)).unwrap();
    assert_eq!(rig.audio.volume(Some(1), None), Ok(json!({"volume": 0.5})));
    let wait = |wanted: i16| {
        let end = Instant::now() + WATCHDOG;
        while rig.heard().last() != Some(&wanted) {
            assert!(Instant::now() < end, "{:?}", rig.heard().last());
            thread::sleep(Duration::from_millis(5));
        }
    };
    wait(2_000);
    let status = rig.audio.status();
    assert_eq!(
        (&status["volume"], &status["rate"], &status["channels"]),
        (&json!(0.5), &json!(44_100), &json!(2))
    );
    let playing = &status["playing"][0];
    assert_eq!(
        (&playing["play"], &playing["file"], &playing["volume"]),
        (&json!(1), &Value::Null, &json!(0.5))
    );
    assert_eq!(playing["duration_ms"], 2_267);
    assert!(playing["position_ms"].as_u64().unwrap() > 0);
    rig.audio.volume(Some(1), Some(2.0)).unwrap();
    wait(8_000);
    rig.audio.volume(None, Some(0.0)).unwrap();
    wait(0);
    rig.stop(Some(1)).unwrap();
    let error = rig.audio.volume(Some(1), None).unwrap_err();
    assert!(error.kind() == Kind::NotFound && error.message().contains("ended"), "{error}");
}

#[test]
fn beyond_64_plays_it_is_busy() {
    let rig = Rig::null();
    let long = wav(1, 8_000, &[0; 60 * 8_000]);
    for _ in 0..MAX_PLAYS {
        rig.play_bytes(&long);
    }
    assert_eq!(kind(rig.play(Sound::Bytes(silence(10)), None)), Kind::Busy);
    assert_eq!(rig.stop(Some(7)), Ok(json!({"stopped": 1})));
    rig.play_bytes(&long);
    assert_eq!(rig.stop(None), Ok(json!({"stopped": 64})));
    let end = rig.play_bytes(&silence(10));
    assert_eq!((end, rig.ended(end)["state"].as_str().unwrap()), (66, "finished"));
    assert_eq!(kind(rig.play(Sound::Bytes(vec![0; MAX_BYTES + 1]), None)), Kind::TooLarge);
}

#[test]
fn the_end_stops_all_in_time_and_leaves_a_whole_file() {
    let rig = Rig::wav();
    let samples = noise(400_000);
    for _ in 0..3 {
        rig.play_bytes(&wav(2, 44_100, &samples));
    }
    let start = Instant::now();
    rig.audio.stop_all(start + Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(rig.heard().len() < samples.len());
    let states: Vec<_> = rig.events().iter().skip(3).map(|e| e["state"].clone()).collect();
    assert_eq!(states, ["stopped", "stopped", "stopped"]);
    assert_eq!(rig.audio.status()["state"], "closed");
    assert_eq!(kind(rig.play(Sound::Bytes(silence(10)), None)), Kind::ShuttingDown);
    Rig::null().audio.stop_all(Instant::now());
}

#[test]
fn an_output_that_cannot_be_had_says_so_and_is_tried_again() {
    let rig = Rig::new(|_| AudioOutput::Off);
    assert_eq!(kind(rig.play(Sound::Bytes(silence(10)), None)), Kind::NotEnabled);
    assert_eq!(
        (&rig.audio.status()["state"], &rig.audio.status()["output"]),
        (&json!("closed"), &json!("off"))
    );
    if cfg!(not(feature = "sound")) {
        let rig = Rig::new(|_| AudioOutput::Device);
        assert_eq!(kind(rig.play(Sound::Bytes(silence(10)), None)), Kind::NotEnabled);
    }
    let rig = Rig::new(|folder| AudioOutput::Wav(folder.join("none/heard.wav")));
    for _ in 0..2 {
        let error = rig.play(Sound::Bytes(silence(10)), None).unwrap_err();
        assert!(error.kind() == Kind::Io && error.message().contains("heard.wav"), "{error}");
        assert_eq!(rig.audio.status()["state"], "failed");
        assert!(rig.audio.status()["reason"].as_str().unwrap().contains("heard.wav"));
    }
    std::fs::create_dir(rig.folder.path().join("none")).unwrap();
    let play = rig.play_bytes(&silence(10));
    assert_eq!((play, rig.ended(play)["state"].as_str().unwrap()), (1, "finished"));
}

#[test]
fn the_file_of_the_output_is_made_at_the_start() {
    let rig = Rig::wav();
    let path = rig.folder.path().join("heard.wav");
    let end = Instant::now() + WATCHDOG;
    while !path.metadata().is_ok_and(|found| found.len() == 44) {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(rig.heard().is_empty());
}

#[test]
fn every_format_is_decoded() {
    // Each is a tone of 440 Hz, 0.3 s, mono at 8 kHz.
    let formats: [(&str, &[u8]); 3] = [
        ("flac", include_bytes!("../../../tests/sounds/tone.flac")),
        ("mp3", include_bytes!("../../../tests/sounds/tone.mp3")),
        ("ogg", include_bytes!("../../../tests/sounds/tone.ogg")),
    ];
    for (format, content) in formats {
        let rig = Rig::wav();
        let name = format!("tone.{format}");
        rig.put(&name, content);
        let answer = rig.play_file(&name).unwrap();
        assert_eq!(rig.ended(1)["state"], "finished", "{format}");
        let left: Vec<i16> = rig.heard().into_iter().step_by(2).collect();
        let loud: Vec<usize> = (0..left.len()).filter(|&at| left[at].unsigned_abs() > 4_000).collect();
        let (first, last) = (loud[0], loud[loud.len() - 1]);
        let seconds = (last - first) as f64 / 44_100.0;
        assert!((0.28..0.33).contains(&seconds), "{format}: {seconds} s");
        let rising = left[first..last].windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        let pitch = rising as f64 / seconds;
        assert!((420.0..450.0).contains(&pitch), "{format}: {pitch} Hz");
        let told = answer["duration_ms"].as_u64().unwrap_or_else(|| panic!("{format}: {answer}"));
        assert!((290..500).contains(&told), "{format}: {told} ms");
    }
}

#[test]
fn damaged_sounds_are_refused_or_played_and_harm_nothing() {
    let sounds: [&[u8]; 4] = [
        include_bytes!("../../../tests/sounds/tone.flac"),
        include_bytes!("../../../tests/sounds/tone.mp3"),
        include_bytes!("../../../tests/sounds/tone.ogg"),
        &wav(2, 44_100, &noise(2_000)),
    ];
    let rig = Rig::null();
    let changes = noise(40 * 8);
    for (n, change) in changes.chunks(8).enumerate() {
        let mut sound = sounds[n % 4].to_vec();
        for pair in change.chunks(2) {
            // Most of what can go wrong is decided by the header.
            let at = usize::from(pair[0] as u16) % if n % 8 < 4 { 200 } else { sound.len() };
            sound[at] = pair[1] as u8;
        }
        match rig.play(Sound::Bytes(sound), None) {
            Ok(_) => assert_eq!(rig.stop(None).map(|_| ()), Ok(())),
            Err(error) => assert_eq!(error.kind(), Kind::UnsupportedFormat, "{n}: {error}"),
        }
    }
    let last = rig.play_bytes(&silence(10));
    assert_eq!(rig.ended(last)["state"], "finished");
}
