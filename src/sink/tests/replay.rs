//! `kill -9` at any moment: no line twice, none missing, none torn.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::*;
use crate::sink::checkpoint::Checkpoint;
use crate::sink::clock::Clock;
use crate::sink::crash;
use crate::sink::handle::open;

/// Writes on this thread until all is written, or until the crash. Returns whether it got through.
fn run(place: &Place, config: &LogConfig, crash_after: Option<u32>, checkpoint: bool) -> bool {
    if let Some(points) = crash_after {
        crash::arm(points);
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        let clock = Clock::new(config.zone);
        let mut writer = open(config, &place.context, &config.path, clock).unwrap();
        // Not the thread beside it: where it is killed is tested where it is.
        writer.files.keeper = None;
        while writer.advance(Duration::ZERO).unwrap() {}
        if checkpoint {
            writer.files.checkpoint(false).unwrap();
        }
    }));
    crash::disarm();
    result.is_ok()
}

fn numbered(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| words(std::slice::from_ref(line))[0].trim_end_matches("\"}").to_owned()).collect()
}

fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

#[derive(Clone, Debug)]
enum Damage {
    None,
    /// The end of the file beyond the checkpoint is lost.
    Cut(u16),
    /// Something else stands there.
    Garbage(u16),
    /// A torn line was added.
    Torn,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::None),
        any::<u16>().prop_map(Damage::Cut),
        any::<u16>().prop_map(Damage::Garbage),
        Just(Damage::Torn),
    ]
}

/// What a crash of the machine may do to what was not yet synced.
fn apply(place: &Place, damage: &Damage) {
    let sinks = place.context.state_dir.join("sinks");
    let Some(checkpoint) = fs::read_dir(sinks)
        .unwrap()
        .find_map(|entry| Checkpoint::from_bytes(&fs::read(entry.unwrap().path()).unwrap()))
    else {
        return;
    };
    for known in checkpoint.files {
        let path = place.log(&known.family);
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let offset = known.offset as usize;
        // A file that was just rotated has another one's name.
        let identity = crate::sink::file::Identity::at(&path).unwrap().0;
        if !known.identity.unwrap().same(&identity) || bytes.len() < offset {
            continue;
        }
        let span = (bytes.len() - offset).max(1);
        match damage {
            Damage::None => continue,
            Damage::Cut(at) => bytes.truncate(offset + *at as usize % span),
            Damage::Garbage(at) => {
                bytes.truncate(offset + *at as usize % span);
                bytes.extend_from_slice(b"\0\0\0\0\nrubbish");
            }
            Damage::Torn => bytes.extend_from_slice(b"2026-11-30T23:04:02.0000"),
        }
        // In place: the file stays the same one.
        use std::io::Write;
        let mut file = File::options().write(true).truncate(true).open(&path).unwrap();
        file.write_all(&bytes).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_record_is_there_exactly_once(
        rounds in prop::collection::vec((1u32..60, 0u32..60, damage(), any::<bool>()), 1..5),
        by_source: bool, size in prop_oneof![Just(None), (60u64..2000).prop_map(Some)], bom: bool, reformat: bool,
    ) {
        let place = Place::new();
        let path = if by_source { "{source}.log" } else { "gateway.log" };
        let mut config = LogConfig { bom, rotate: size.map(by_size), ..config(path) };
        prop_assert!(run(&place, &config, None, true));
        let mut given = Vec::new();
        for (count, crash_after, damage, big) in rounds {
            let mut left = count;
            while left > 0 {
                let frame = if big { left } else { left.min(3) };
                let texts: Vec<_> = (0..frame).map(|index| format!("n{:06}", given.len() + index as usize)).collect();
                given.extend(texts.clone());
                place.push(["a", "b", "c"][given.len() % 3], texts);
                left -= frame;
            }
            if !run(&place, &config, Some(crash_after), false) {
                apply(&place, &damage);
            }
            // The format may be another one after the crash.
            if reformat {
                config.format = if config.format == Format::Text { Format::Template("{source} {text}".into()) } else { Format::Text };
            }
        }
        prop_assert!(run(&place, &config, None, true));
        let lines = numbered(&place.lines());
        prop_assert_eq!(sorted(lines), given);
    }
}

#[test]
fn a_file_of_another_identity_is_only_appended_to() {
    let place = Place::new();
    let config = config("gateway.log");
    assert!(run(&place, &config, None, true));
    place.push("app", ["one".to_owned()]);
    assert!(run(&place, &config, None, true));
    fs::rename(place.log("gateway.log"), place.log("kept")).unwrap();
    fs::write(place.log("gateway.log"), format!("{}\nno line end", "somebody's ".repeat(20))).unwrap();
    place.push("app", ["two".to_owned()]);
    assert!(run(&place, &config, None, true));
    let text = text(&place.log("gateway.log"));
    assert!(text.starts_with("somebody's ") && text.contains("\nno line end\n"), "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn lines_that_the_journal_lost_stay_and_a_torn_one_is_cut() {
    let place = Place::new();
    let config = config("gateway.log");
    assert!(run(&place, &config, None, true));
    place.push("app", ["one".to_owned()]);
    assert!(run(&place, &config, None, true));
    let path = place.log("gateway.log");
    let before = text(&path);
    use std::io::Write;
    File::options().append(true).open(&path).unwrap().write_all(b"whole\ntorn").unwrap();
    place.push("app", ["two".to_owned()]);
    // All that came before the crash is what the journal has before the start.
    assert!(run(&place, &config, None, true));
    assert_eq!(words(&place.lines()), ["one", "two"], "what differs from the journal is cut");
    File::options().append(true).open(&path).unwrap().write_all(b"whole\ntorn").unwrap();
    assert!(run(&place, &config, None, true));
    place.push("app", ["three".to_owned()]);
    assert!(run(&place, &config, None, true));
    assert_eq!(words(&place.lines()), ["one", "two", "whole", "three"]);
    assert!(text(&path).starts_with(&before));
}

#[test]
fn without_a_checkpoint_the_journal_knows_the_position() {
    let mut place = Place::new();
    let config = config("gateway.log");
    assert!(run(&place, &config, None, true));
    place.push("app", ["one".to_owned()]);
    assert!(run(&place, &config, None, true));
    for entry in fs::read_dir(place.context.state_dir.join("sinks")).unwrap() {
        fs::write(entry.unwrap().path(), "{").unwrap();
    }
    place.push("app", ["two".to_owned()]);
    // The journal is opened again, as after a crash.
    let options = Options::new(&place.context.state_dir);
    let (other, _) = Journal::open(Options::new(place.dir.path().join("unused"))).unwrap();
    place.context.journal = other;
    place.context.journal = Journal::open(options).unwrap().0;
    assert!(run(&place, &config, None, true));
    assert_eq!(words(&place.lines()), ["one", "two"]);
}
