//! What the journal held is in the files once, whatever kills the gateway.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hwgate::journal::{Journal, Options};
use hwgate::wire::record::records;

use crate::gateway::{Home, wait_for};

/// Pushes numbered lines until told to stop.
fn push_until(stop: &Arc<AtomicBool>, endpoint: String, producer: usize) -> std::thread::JoinHandle<()> {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::PUSH).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_sndtimeo(50).unwrap();
        socket.set_reconnect_ivl(10).unwrap();
        socket.connect(&endpoint).unwrap();
        let mut number = 0u64;
        while !stop.load(Ordering::Relaxed) {
            // A record in fifty is an error, which is synced at once; some are long.
            let level = if number.is_multiple_of(50) { "ERROR" } else { "INFO" };
            let text = format!("{level} p{producer} n{number} {}", "x".repeat((number % 90) as usize));
            if socket.send(text.as_bytes(), 0).is_ok() {
                number += 1;
            }
            if number.is_multiple_of(100) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    })
}

/// The texts of all records, in the order of the journal.
fn journal_texts(dir: &Path) -> Vec<String> {
    let (journal, recovery) = Journal::open(Options::new(dir)).unwrap();
    assert_eq!(recovery.damaged_places, 0);
    let mut reader = journal.reader(0);
    let mut texts = Vec::new();
    while let Some(frame) = reader.next(Duration::ZERO).unwrap() {
        for record in records(frame.body()) {
            texts.push(String::from_utf8(record.unwrap().text.to_vec()).unwrap());
        }
    }
    assert_eq!(reader.skipped(), 0);
    texts
}

/// The texts of all lines: what follows stamp, level and `host/source`.
fn file_texts(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'), "a torn last line");
    text.lines()
        .map(|line| {
            let at = line.find("/logs ").unwrap_or_else(|| panic!("a torn line: {line:?}"));
            line[at + "/logs ".len()..].to_owned()
        })
        .collect()
}

#[test]
fn thirty_kills_in_mid_load_lose_and_double_nothing() {
    let mut home = Home::new(
        "[[log]]\npath = \"gateway.log\"\nrotate = { size = \"300KiB\", compress = true }\n\
         [[log]]\npath = \"errors.log\"\nlevel = \"error\"\n",
    );
    let stop = Arc::new(AtomicBool::new(false));
    let mut gateway = home.start();
    let producers: Vec<_> =
        (0..4).map(|producer| push_until(&stop, gateway.endpoint("logs").to_owned(), producer)).collect();
    for kill in 0..30u64 {
        let before = gateway.request("stats", serde_json::json!({}))["intake"]["received"].as_u64().unwrap();
        wait_for("load", || {
            let stats = gateway.request("stats", serde_json::json!({}));
            (stats["intake"]["received"].as_u64().unwrap() > before + 200).then_some(())
        });
        // Somewhere else in its work each time.
        std::thread::sleep(Duration::from_millis(kill * 7 % 50));
        gateway.kill();
        gateway = home.start();
    }
    stop.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.join().unwrap();
    }
    assert!(gateway.stop().success());
    let wanted = journal_texts(&home.path().join("journal"));
    let errors: Vec<String> = wanted.iter().filter(|text| text.starts_with("ERROR")).cloned().collect();
    assert!(wanted.len() > 6000, "{} records are no load", wanted.len());
    let got = file_texts(&home.log_text("gateway"));
    let first = wanted.iter().zip(&got).position(|(wanted, got)| wanted != got);
    assert_eq!((got.len(), first), (wanted.len(), None), "the files differ from the journal at {first:?}");
    assert_eq!(file_texts(&home.log_text("errors")), errors);
}
