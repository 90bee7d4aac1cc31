use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{Header, Journal, Options, Position, segment};
use crate::Kind;

const WATCHDOG: Duration = Duration::from_secs(20);

/// In memory where there is such a place: these tests are about what is in files, not about the disk.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options(dir: &Path) -> Options {
    Options { segment_bytes: 4096, ..Options::new(dir) }
}

fn open(dir: &Path) -> Arc<Journal> {
    Journal::open(options(dir)).unwrap().0
}

fn read_all(journal: &Arc<Journal>, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut reader = journal.reader(from);
    std::iter::from_fn(|| reader.next(Duration::ZERO).unwrap())
        .map(|frame| (frame.position, frame.body().to_vec()))
        .collect()
}

fn producer(seq: u64) -> Header {
    Header {
        received: crate::util::now(),
        producer: [7; 16],
        epoch: 1,
        first_seq: seq,
        last_seq: seq,
        records: 1,
        client: "".into(),
    }
}

#[test]
fn what_was_appended_is_read_back_from_memory_and_disk_and_after_a_restart() {
    let dir = directory();
    let journal = open(dir.path());
    let mut follower = journal.reader(journal.end());
    let mut wanted = Vec::new();
    for seq in 1..=200u64 {
        let body = vec![seq as u8; 100 + seq as usize];
        let frame = journal.append(&producer(seq), &body, false).unwrap();
        wanted.push((frame.position, body));
        assert_eq!(follower.next(WATCHDOG).unwrap().unwrap().position, frame.position);
    }
    assert!(journal.stats().segments > 5, "{:?}", journal.stats());
    assert!(journal.wait_durable(journal.end(), WATCHDOG));
    assert_eq!(read_all(&journal, 0), wanted);
    let end = journal.end();
    drop((journal, follower));

    let (journal, report) = Journal::open(options(dir.path())).unwrap();
    assert_eq!((report.damaged_places, report.cut_bytes), (0, 0));
    assert!(report.frames < 30, "only what follows the newest snapshot is read: {report:?}");
    assert!(journal.end() > end);
    assert_eq!(read_all(&journal, 0), wanted);
    assert_eq!(read_all(&journal, wanted[100].0), wanted[100..]);
    assert_eq!(journal.producer(&[7; 16]).unwrap().last_seq, 200);
}

#[test]
fn a_second_opener_is_told() {
    let dir = directory();
    let _first = open(dir.path());
    let error = Journal::open(options(dir.path())).err().unwrap();
    assert_eq!(error.kind(), Kind::AddrInUse);
    assert!(error.to_string().contains("another gateway"), "{error}");
}

#[test]
fn retention_never_passes_a_consumer_and_says_who_holds() {
    let dir = directory();
    let limited = Options { max_bytes: 64 << 10, ..options(dir.path()) };
    let (journal, _) = Journal::open(limited).unwrap();
    let start = journal.end();
    journal.set_position("gateway.log", start, b"detail".to_vec());
    let refused = (0..100).find_map(|seq| journal.append(&producer(seq), &[0; 1000], false).err()).unwrap();
    assert_eq!(refused.kind(), Kind::DiskFull);
    assert!(refused.to_string().contains("gateway.log"), "{refused}");
    let held = read_all(&journal, start).len();
    assert!(held > 50);
    journal.set_position("gateway.log", journal.end(), b"later".to_vec());
    for seq in 100..300 {
        journal.set_position("gateway.log", journal.end(), b"later".to_vec());
        journal.append(&producer(seq), &[0; 1000], false).unwrap();
    }
    let stats = journal.stats();
    assert!(stats.disk_bytes <= 64 << 10 && stats.removed_segments > 10, "{stats:?}");
    drop(journal);
    assert_eq!(open(dir.path()).recovered_position("gateway.log").unwrap().1, b"later");
}

#[test]
fn old_segments_go_by_age() {
    let dir = directory();
    let (journal, _) =
        Journal::open(Options { max_age: Duration::from_secs(3600), ..options(dir.path()) }).unwrap();
    for seq in 0..20 {
        journal.append(&Header { received: 1, ..producer(seq) }, &[0; 1000], false).unwrap();
    }
    // All frames claim to be from 1970, so every segment but the active one goes.
    journal.retain();
    assert_eq!(journal.stats().segments, 1);
}

#[test]
fn wake_ends_a_wait_and_close_ends_reading() {
    let dir = directory();
    let journal = open(dir.path());
    let mut reader = journal.reader(journal.end());
    let waiting = std::thread::spawn(move || {
        let woken = reader.next(WATCHDOG).unwrap().is_none();
        (woken, reader.next(WATCHDOG).unwrap().is_none())
    });
    while !waiting.is_finished() {
        journal.wake();
        journal.close().unwrap();
        std::thread::yield_now();
    }
    assert_eq!(waiting.join().unwrap(), (true, true));
    assert_eq!(journal.append(&producer(1), b"", false).unwrap_err().kind(), Kind::Closed);
}

/// What is done to a journal between two runs.
#[derive(Clone, Debug)]
enum Damage {
    /// Bytes cut off the end of the newest segment.
    Cut(usize),
    /// One byte changed somewhere in any segment: which segment, where in it, by what.
    Flip(prop::sample::Index, prop::sample::Index, u8),
    /// Garbage at the end of the newest segment.
    Garbage(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (0usize..3000).prop_map(Damage::Cut),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u8..)
            .prop_map(|(s, a, x)| Damage::Flip(s, a, x)),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Damage::Garbage),
    ]
}

/// Does the damage and says which positions it hit.
fn hurt(dir: &Path, damage: &Damage) -> Range<Position> {
    let bases = segment::list(dir).unwrap();
    let newest = *bases.last().unwrap();
    let path = |base| segment::path(dir, base);
    match damage {
        Damage::Cut(bytes) => {
            let file = OpenOptions::new().write(true).open(path(newest)).unwrap();
            let len = file.metadata().unwrap().len();
            let left = len.saturating_sub(*bytes as u64);
            file.set_len(left).unwrap();
            newest + left..newest + len
        }
        Damage::Flip(segment, at, mask) => {
            let base = *segment.get(&bases);
            let mut file = OpenOptions::new().read(true).write(true).open(path(base)).unwrap();
            let len = file.metadata().unwrap().len();
            if len == 0 {
                return 0..0;
            }
            let at = at.index(len as usize) as u64;
            let mut byte = [0];
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(&mut byte).unwrap();
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[byte[0] ^ mask]).unwrap();
            base + at..base + at + 1
        }
        Damage::Garbage(bytes) => {
            OpenOptions::new().append(true).open(path(newest)).unwrap().write_all(bytes).unwrap();
            0..0
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Any frames, any damage, any number of restarts: every frame that was not hit is read, in order,
    /// once, and nothing else is.
    #[test]
    fn intact_frames_are_never_lost(
        runs in proptest::collection::vec(
            (proptest::collection::vec(0usize..2500, 0..12), proptest::collection::vec(damage(), 0..3)), 1..5),
    ) {
        let dir = directory();
        let mut wanted: BTreeMap<Position, (Position, Vec<u8>)> = BTreeMap::new();
        let mut number = 0u64;
        let mut highest = 0;
        for (sizes, damages) in runs {
            let journal = open(dir.path());
            for size in sizes {
                number += 1;
                let mut body = number.to_le_bytes().to_vec();
                // A body full of frame beginnings, so that looking for the next frame has work to do.
                body.extend(b"HWGF".iter().cycle().take(size));
                let frame = journal.append(&producer(number), &body, false).unwrap();
                prop_assert!(frame.position > highest, "a position came twice");
                highest = frame.position;
                wanted.insert(frame.position, (frame.end, body));
            }
            journal.crash();
            drop(journal);
            for damage in damages {
                let hit = hurt(dir.path(), &damage);
                wanted.retain(|position, (end, _)| *end <= hit.start || *position >= hit.end);
            }
        }
        let journal = open(dir.path());
        let read = read_all(&journal, 0);
        let wanted: Vec<_> = wanted.into_iter().map(|(position, (_, body))| (position, body)).collect();
        let places = |frames: &[(Position, Vec<u8>)]| frames.iter().map(|(position, _)| *position).collect::<Vec<_>>();
        prop_assert_eq!(places(&read), places(&wanted));
        prop_assert!(read == wanted, "a frame changed");
        // And it goes on: what is appended now is read, too.
        let frame = journal.append(&producer(number + 1), b"after", true).unwrap();
        prop_assert_eq!(read_all(&journal, frame.position), vec![(frame.position, b"after".to_vec())]);
    }
}
