//! The promises of the files, kept against rotation, full disks, other people's hands and `kill -9`.

mod files;
mod replay;
mod trouble;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;

use super::{Context, Sink};
use crate::config::{Eol, Format, LogConfig, Rotate, Zone};
use crate::journal::{Header, Journal, Options, Position};
use crate::wire::{Level, Record, TextRule};

/// No test waits longer than this for anything.
const WATCHDOG: Duration = Duration::from_secs(60);

/// 2026-11-30T23:04:02 UTC.
const TIME: i64 = 1_796_079_842_000_000_000;

fn config(path: &str) -> LogConfig {
    LogConfig {
        path: path.into(),
        format: Format::Text,
        zone: Zone::Utc,
        eol: Eol::Lf,
        bom: false,
        level: Level::Trace,
        source: Vec::new(),
        rotate: None,
    }
}

fn by_size(size: u64) -> Rotate {
    Rotate { size: Some(size), ..Rotate::default() }
}

/// A journal and a folder for logs.
struct Place {
    dir: tempfile::TempDir,
    context: Context,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(Options::new(dir.path().join("journal"))).unwrap();
        let context = Context {
            log_dir: dir.path().join("logs"),
            state_dir: dir.path().join("journal"),
            journal,
            name: "here".into(),
            dropped: Arc::new(AtomicU64::new(0)),
        };
        Place { dir, context }
    }

    fn logs(&self) -> &Path {
        &self.context.log_dir
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs().join(name)
    }

    fn start(&self, config: &LogConfig) -> Sink {
        Sink::start(config.clone(), self.context.clone()).unwrap()
    }

    fn push(&self, source: &str, texts: impl IntoIterator<Item = String>) -> Position {
        self.push_at(TIME, source, texts)
    }

    /// One frame.
    fn push_at(&self, received: i64, source: &str, texts: impl IntoIterator<Item = String>) -> Position {
        let mut body = Vec::new();
        let mut records = 0;
        for text in texts {
            records += 1;
            record(source, &text).encode(&mut body);
        }
        let header = Header { received, records, first_seq: 1, ..Header::default() };
        self.context.journal.append(&header, &body, false).unwrap().end
    }

    fn lines(&self) -> Vec<String> {
        lines(self.logs())
    }
}

fn record<'a>(source: &'a str, text: &'a str) -> Record<'a> {
    Record {
        time: TIME,
        level: Level::Info,
        source,
        host: "h",
        pid: None,
        rule: TextRule::Utf8,
        text: text.as_bytes(),
        fields: "",
    }
}

/// All files below `dir`, in the order of their names, the current one after those it was rotated to.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    } else {
        text = fs::read_to_string(path).unwrap();
    }
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends inside of a line", path.display());
    text
}

fn lines(dir: &Path) -> Vec<String> {
    files(dir).iter().flat_map(|path| text(path).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The text of each line, which is its last word.
fn words(lines: &[String]) -> Vec<&str> {
    lines.iter().map(|line| line.rsplit(' ').next().unwrap()).collect()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + WATCHDOG;
    while !done() {
        assert!(Instant::now() < until, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn flush(sink: &Sink, position: Position) {
    assert!(sink.flush(position, WATCHDOG).unwrap(), "{:?}", sink.status());
}

fn stop(sink: Sink) {
    sink.stop(Instant::now() + WATCHDOG).unwrap();
}
