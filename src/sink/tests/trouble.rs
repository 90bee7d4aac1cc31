//! Others' hands and full disks.

use std::process::Command;
use std::sync::atomic::Ordering;

use super::*;
use crate::sink::Health;

#[test]
#[cfg(unix)]
fn c42_a_moved_or_deleted_file_is_made_anew() {
    let place = Place::new();
    let sink = place.start(&config("gw.log"));
    let path = place.log("gw.log");
    let mut end = place.push("app", ["first".to_owned()]);
    flush(&sink, end);
    fs::rename(&path, place.log("old")).unwrap();
    for number in 0..10 {
        end = place.push("app", [format!("moved{number}")]);
        flush(&sink, end);
    }
    assert_eq!(text(&path).lines().count(), 10);
    fs::remove_file(&path).unwrap();
    for number in 0..10 {
        end = place.push("app", [format!("deleted{number}")]);
        flush(&sink, end);
    }
    assert_eq!(text(&path).lines().count(), 10);
    // As `logrotate` with `copytruncate` does it.
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    flush(&sink, place.push("app", ["cut".to_owned()]));
    assert_eq!(text(&path).lines().count(), 1);
    fs::rename(&path, place.log("old2")).unwrap();
    sink.reopen(WATCHDOG).unwrap();
    assert!(path.exists(), "made at once, for those who watch it");
    stop(sink);
}

/// A name that cannot be taken away from its file, as that of a file held open on Windows.
#[cfg(target_os = "linux")]
fn hold(path: &Path) -> bool {
    // A place where something is mounted is busy, for root as well.
    let held = Command::new("mount").arg("--bind").args([path, path]).status();
    held.is_ok_and(|status| status.success())
}

#[test]
#[cfg(target_os = "linux")]
fn c16_a_file_that_cannot_be_renamed_is_written_on() {
    let place = Place::new();
    let config = LogConfig { rotate: Some(by_size(10 << 10)), ..config("gw.log") };
    let path = place.log("gw.log");
    fs::create_dir_all(place.logs()).unwrap();
    fs::write(&path, "").unwrap();
    if !hold(&path) {
        eprintln!("SKIPPED: c16 needs the right to mount");
        return;
    }
    let sink = place.start(&config);
    let long = |number: u32| format!("{}{number:04}", "x".repeat(96));
    let mut end = 0;
    for number in 1..=300 {
        end = place.push("app", [long(number)]);
    }
    flush(&sink, end);
    let status = sink.status();
    // Lazily, for the sink has it open.
    assert!(Command::new("umount").arg("-l").arg(&path).status().unwrap().success());
    assert_eq!((status.rotations, status.reports), (0, 1), "{status:?}");
    assert_eq!(status.state, Health::Ok);
    assert_eq!(files(place.logs()).len(), 1, "no reserved names are left");
    for number in 301..=500 {
        end = place.push("app", [long(number)]);
    }
    let mut extra = 500;
    wait_for("the rotation that succeeds by itself", || {
        extra += 1;
        flush(&sink, place.push("app", [long(extra)]));
        sink.status().rotations > 0
    });
    flush(&sink, end);
    let lines = place.lines();
    assert_eq!(words(&lines), (1..=extra).map(long).collect::<Vec<_>>());
    stop(sink);
}

#[test]
#[cfg(target_os = "linux")]
fn c17_a_full_disk_loses_nothing_and_is_left_by_itself() {
    let place = Place::new();
    fs::create_dir_all(place.logs()).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(place.logs())
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        eprintln!("SKIPPED: c17 needs the right to mount");
        return;
    }
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let unmount = Unmount(place.logs().to_owned());
    let rotate = Rotate { keep_files: Some(10), ..by_size(64 << 10) };
    let sink = place.start(&LogConfig { rotate: Some(rotate), ..config("gw.log") });
    let long = |number: usize| format!("{}{number:05}", "x".repeat(95));
    let mut end = 0;
    for number in 1..=5000 {
        end = place.push("app", [long(number)]);
    }
    wait_for("degraded", || matches!(sink.status().state, Health::Degraded { .. }));
    assert!(!sink.flush(end, Duration::from_millis(1500)).unwrap(), "a retry does not help");
    let status = sink.status();
    assert_eq!(status.reports, 1);
    place.context.dropped.fetch_add(7, Ordering::Relaxed);
    let mut taken = Vec::new();
    let mut take = |path: &Path| {
        taken.extend(text(path).lines().map(str::to_owned));
        fs::remove_file(path).unwrap();
    };
    for number in 5001..=5100 {
        end = place.push("app", [long(number)]);
    }
    // An archive at a time, until there is space for all.
    wait_for("the end of the trouble", || {
        let full = matches!(sink.status().state, Health::Degraded { .. });
        for path in files(place.logs()) {
            assert!(fs::metadata(&path).unwrap().len() > 0 || path == place.log("gw.log"), "empty archive");
        }
        if full && files(place.logs()).len() > 1 {
            take(&files(place.logs())[0]);
        }
        sink.flush(end, Duration::from_millis(200)).unwrap()
    });
    stop(sink);
    let mut all = taken;
    all.extend(place.lines());
    let resumed: Vec<_> = all.iter().filter(|line| line.contains("here/hwgate")).collect();
    assert!(resumed[0].contains("resumed after") && resumed[0].contains(" 7 records lost"), "{resumed:?}");
    let kept: Vec<_> = all.iter().filter(|line| !line.contains("here/hwgate")).cloned().collect();
    assert_eq!(words(&kept), (1..=5100).map(long).collect::<Vec<_>>());
    drop(unmount);
}
