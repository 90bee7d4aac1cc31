//! What ends up where, when all goes well.

use super::*;
use crate::sink::Health;
use crate::sink::clock::Clock;
use crate::sink::handle::open;

fn numbers(from: u32, to: u32) -> impl Iterator<Item = String> {
    (from..=to).map(|number| format!("{number:04}"))
}

#[test]
fn a_new_sink_starts_at_the_end_and_goes_on_after_a_stop() {
    let place = Place::new();
    place.push("app", ["before".to_owned()]);
    let sink = place.start(&config("gateway.log"));
    let end = place.push("app", numbers(1, 3));
    flush(&sink, end);
    assert_eq!(
        text(&place.log("gateway.log")).lines().next().unwrap(),
        "2026-11-30T23:04:02.000000Z INFO  h/app 0001"
    );
    assert_eq!(sink.status().written_records, 3);
    stop(sink);
    place.push("app", numbers(4, 5));
    fs::write(place.log("gateway.log"), text(&place.log("gateway.log")) + "somebody's\n").unwrap();
    let sink = place.start(&config("gateway.log"));
    flush(&sink, place.context.journal.end());
    assert_eq!(words(&place.lines()), ["0001", "0002", "0003", "somebody's", "0004", "0005"]);
    assert_eq!(sink.status().lag_bytes, 0);
    stop(sink);
}

#[test]
fn level_source_and_bom() {
    let place = Place::new();
    let sink = place.start(&LogConfig {
        level: Level::Info,
        source: vec!["app*".into(), "db".into()],
        bom: true,
        eol: Eol::CrLf,
        ..config("a/gateway.log")
    });
    place.push("app/x", ["yes".to_owned()]);
    place.push("web", ["no".to_owned()]);
    let mut body = Vec::new();
    Record { level: Level::Debug, ..record("db", "no") }.encode(&mut body);
    record("db", "yes").encode(&mut body);
    let end = place.context.journal.append(
        &Header { received: TIME, records: 2, ..Header::default() },
        &body,
        false,
    );
    flush(&sink, end.unwrap().end);
    assert_eq!(
        text(&place.log("a/gateway.log")),
        "\u{feff}2026-11-30T23:04:02.000000Z INFO  h/app/x yes\r\n2026-11-30T23:04:02.000000Z INFO  h/db yes\r\n"
    );
    assert_eq!(sink.status().filtered_records, 2);
    stop(sink);
}

#[test]
fn c15_nothing_is_overwritten_by_rotation() {
    let place = Place::new();
    let rotate = Rotate { compress: true, ..by_size(1024) };
    let config = LogConfig { rotate: Some(rotate), ..config("gateway.log") };
    let long = |text: String| format!("{}{text}", "x".repeat(96));
    let sink = place.start(&config);
    for number in 1..=200 {
        place.push("app", numbers(number, number).map(long));
    }
    stop(sink);
    let sink = place.start(&config);
    flush(&sink, place.push("app", numbers(201, 220).map(long)));
    let first = sink.rotate(WATCHDOG).unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(sink.rotate(WATCHDOG).unwrap(), Vec::<PathBuf>::new(), "nothing to rotate");
    let current = place.log("gateway.log");
    let is_plain = |path: &PathBuf| *path != current && path.extension().is_some_and(|end| end == "log");
    wait_for("compression", || !files(place.logs()).iter().any(is_plain));
    let mut all = words(&place.lines()).into_iter().map(|word| word[96..].to_owned()).collect::<Vec<_>>();
    assert_eq!(all, numbers(1, 220).collect::<Vec<_>>(), "in the order of the names");
    all.dedup();
    assert_eq!(all.len(), 220);
    assert!(files(place.logs()).len() > 20);
    for path in files(place.logs()) {
        assert!(text(&path).len() <= 1024);
    }
    stop(sink);
}

#[test]
fn a_backlog_is_written_batch_by_batch() {
    let place = Place::new();
    let rotating = LogConfig { rotate: Some(by_size(1 << 10)), ..config("a.log") };
    let filtering = LogConfig { level: Level::Critical, ..config("b.log") };
    let mut writers = [rotating, filtering]
        .map(|config| open(&config, &place.context, &config.path, Clock::new(config.zone)).unwrap());
    let end = numbers(0, 3000).map(|text| place.push("app", [text])).last().unwrap();
    for writer in &mut writers {
        assert!(writer.advance(Duration::ZERO).unwrap(), "commands have their turn between");
        assert!(writer.files.committed.position < end);
    }
}

#[test]
fn old_files_go_by_count() {
    let place = Place::new();
    let rotate = Rotate { keep_files: Some(3), ..by_size(200) };
    let sink = place.start(&LogConfig { rotate: Some(rotate), ..config("gateway.log") });
    fs::write(place.log("gateway.log.1"), "somebody's\n").unwrap();
    flush(&sink, place.push("app", numbers(1, 100)));
    wait_for("the rule", || files(place.logs()).len() == 5);
    let lines = place.lines();
    assert_eq!(words(&lines).last(), Some(&"somebody's"));
    assert!(words(&lines).contains(&"0100"));
    stop(sink);
}

#[test]
fn the_day_changes_at_midnight_of_the_zone() {
    let place = Place::new();
    let midnight = (TIME / 86_400_000_000_000 + 1) * 86_400_000_000_000 - 3_600_000_000_000;
    let start = |config: &LogConfig| {
        let clock = Clock::with_offset(Some(|_| 3_600));
        Sink::start_with(config.clone(), place.context.clone(), clock).unwrap()
    };
    let every = Rotate { every: Some(crate::config::Every::Day), ..Rotate::default() };
    let dated = start(&LogConfig { rotate: Some(every.clone()), ..config("{date}.log") });
    let rotated = start(&LogConfig { rotate: Some(every), ..config("gateway.log") });
    place.push_at(midnight - 1, "app", ["old".to_owned()]);
    let end = place.push_at(midnight, "app", ["new".to_owned()]);
    flush(&dated, end);
    flush(&rotated, end);
    let names: Vec<_> = files(place.logs())
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(words(&[text(&place.log("2026-11-30.log")).trim().to_owned()]), ["old"]);
    assert_eq!(words(&[text(&place.log("2026-12-01.log")).trim().to_owned()]), ["new"]);
    assert_eq!(words(&[text(&place.log("gateway.log")).trim().to_owned()]), ["new"]);
    assert_eq!((dated.status().rotations, rotated.status().rotations), (0, 1));
    stop(dated);
    stop(rotated);
}

#[test]
fn a_sender_cannot_make_more_than_a_thousand_files() {
    let place = Place::new();
    let config = config("by/{source}.log");
    let sink = place.start(&config);
    let mut end = 0;
    for chunk in 0..11 {
        let mut body = Vec::new();
        for number in 0..100 {
            let name = format!("s{:04}", chunk * 100 + number);
            record(&name, &name).encode(&mut body);
        }
        let header = Header { received: TIME, records: 100, ..Header::default() };
        end = place.context.journal.append(&header, &body, false).unwrap().end;
    }
    flush(&sink, end);
    let other = text(&place.log("by/other.log"));
    assert_eq!(files(place.logs()).len(), 1001);
    assert_eq!(other.lines().count(), 100);
    assert!(other.lines().next().unwrap().ends_with("s1000"));
    assert_eq!(place.lines().len(), 1100);
    stop(sink);
    // The limit holds over a restart; those who had a file keep it.
    let sink = place.start(&config);
    place.push("s0000", ["again".to_owned()]);
    flush(&sink, place.push("s2000", ["late".to_owned()]));
    assert_eq!(text(&place.log("by/s0000.log")).lines().count(), 2);
    assert!(text(&place.log("by/other.log")).ends_with("late\n"));
    stop(sink);
}

#[test]
fn c35_hostile_names_stay_below_log_dir() {
    let place = Place::new();
    let sink = place.start(&config("{host}/{source}.log"));
    let names = ["../../x", "/etc/x", "C:\\x", "NUL", "", "..", "a\0b", "x\ny"];
    let end = names.iter().map(|name| place.push(name, ["one".to_owned()])).max().unwrap();
    flush(&sink, end);
    assert_eq!(files(place.logs()).len(), names.len());
    assert_eq!(fs::read_dir(place.log("h")).unwrap().count(), names.len());
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 2);
    stop(sink);
}

#[test]
fn c40_what_cannot_be_opened_is_said_at_the_start() {
    let place = Place::new();
    let mut context = place.context.clone();
    context.log_dir = place.dir.path().join("missing/deep");
    stop(Sink::start(config("gateway.log"), context.clone()).unwrap());
    assert!(context.log_dir.join("gateway.log").exists());
    context.log_dir = place.dir.path().join("file");
    fs::write(&context.log_dir, "x").unwrap();
    let error = Sink::start(config("gateway.log"), context.clone()).unwrap_err();
    assert!(error.message().contains("log_dir") && error.message().contains("file"), "{error}");
    context.log_dir = place.dir.path().join("logs");
    fs::create_dir_all(context.log_dir.join("gateway.log")).unwrap();
    let error = Sink::start(config("gateway.log"), context).unwrap_err();
    assert!(error.message().contains("gateway.log"), "{error}");
}

#[test]
#[cfg(unix)]
fn files_are_for_the_group_at_most() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let sink = place.start(&config("a/gateway.log"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.log("a/gateway.log")) & !0o640, 0);
    assert_eq!(mode(&place.log("a")) & !0o750, 0);
    stop(sink);
}

#[test]
fn two_logs_do_not_share_a_path() {
    assert!(crate::sink::check(&[config("a.log"), config("b.log")]).is_ok());
    assert!(crate::sink::check(&[config("a.log"), config("A.log")]).is_err());
    assert!(crate::sink::check(&[config("../a.log")]).is_err());
}

#[test]
fn a_stopped_sink_says_so() {
    let place = Place::new();
    let sink = place.start(&config("gateway.log"));
    let status = sink.status();
    assert_eq!((status.state, status.files), (Health::Ok, 1));
    assert!(!sink.flush(u64::MAX, Duration::from_millis(1)).unwrap());
    stop(sink);
}
