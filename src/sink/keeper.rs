//! The thread that compresses rotated files and removes old ones, beside the writing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};

use super::family::{Kind, Member, members};
use super::gzip::compress;
use crate::config::Rotate;

/// How often files are looked at when nothing was rotated: for their age.
const ROUND: Duration = Duration::from_secs(600);

/// How soon after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// A file of an earlier date might still get a line that came about midnight.
const SETTLED: Duration = Duration::from_secs(300);

/// A family of files and the date of the one that is written to.
type Job = (String, String);

/// Runs until it is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    jobs: Option<Sender<Job>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(root: PathBuf, rules: Rotate) -> io::Result<Keeper> {
        let (jobs, inbox) = unbounded::<Job>();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("log-keeper".into()).spawn(move || {
            let mut families: BTreeMap<String, String> = BTreeMap::new();
            let mut failing = false;
            loop {
                let mut due = BTreeMap::new();
                match inbox.recv_timeout(if failing { RETRY } else { ROUND }) {
                    Ok(job) => due.extend(std::iter::once(job).chain(inbox.try_iter())),
                    Err(RecvTimeoutError::Timeout) => due.clone_from(&families),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let before = failing;
                failing = false;
                for (family, date) in due {
                    if let Err(error) = tend(&root, &family, &date, &rules, &stopped) {
                        failing = true;
                        if !before {
                            log::warn!("{}: tidying up: {error}; trying again", root.join(&family).display());
                        }
                    }
                    families.insert(family, date);
                }
            }
        })?;
        Ok(Keeper { jobs: Some(jobs), stop, thread: Some(thread) })
    }

    /// Looks after a family now, and from now on.
    pub(super) fn tend(&self, family: &str, date: &str) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send((family.to_owned(), date.to_owned()));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One round over one family: what a crash left is finished, then the rules apply.
fn tend(root: &Path, family: &str, date: &str, rules: &Rotate, stop: &AtomicBool) -> io::Result<()> {
    let mut result = Ok(());
    // Half copies first: compressing makes one of the same name, and it becomes the whole one.
    let (halves, whole): (Vec<_>, Vec<_>) =
        members(root, family, date)?.into_iter().partition(|member| member.kind == Kind::Temporary);
    for half in halves {
        result = result.and(gone_is_fine(fs::remove_file(&half.path)));
    }
    for member in whole {
        // A name that was reserved for a rotation that did not come; nothing empty is ever rotated.
        let reserved = member.kind == Kind::Plain && member.stamp != i64::MAX && member.bytes == 0;
        let done = if reserved && old(&member, SETTLED) {
            fs::remove_file(&member.path)
        } else if rules.compress && member.kind == Kind::Plain && !reserved && settled(&member) {
            compress(&member.path, stop).map(drop)
        } else {
            Ok(())
        };
        result = result.and(gone_is_fine(done));
    }
    for member in expired(&members(root, family, date)?, rules, SystemTime::now()) {
        result = result.and(gone_is_fine(fs::remove_file(&member.path)));
        // The folder of a date goes with its last file.
        if family.split('/').rev().skip(1).any(|folder| folder.contains(super::path::DATE)) {
            let _ = member.path.parent().map(fs::remove_dir);
        }
    }
    result
}

/// Whoever looks after the disk may have removed a file since the folder was read.
fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn settled(member: &Member) -> bool {
    member.stamp != i64::MAX || old(member, SETTLED)
}

fn old(member: &Member, age: Duration) -> bool {
    member.modified.elapsed().is_ok_and(|elapsed| elapsed > age)
}

/// Which of the members, oldest first, the rules do not keep.
fn expired<'a>(members: &'a [Member], rules: &Rotate, now: SystemTime) -> Vec<&'a Member> {
    let oldest = rules.keep_days.and_then(|days| {
        let since = now.duration_since(UNIX_EPOCH).ok()?;
        since.checked_sub(Duration::from_secs(u64::from(days) * 86_400))
    });
    let (mut files, mut bytes) = (0u64, 0u64);
    let mut expired = Vec::new();
    for member in members.iter().rev().filter(|member| member.kind != Kind::Temporary) {
        files += 1;
        bytes = bytes.saturating_add(member.bytes);
        let closed = match member.stamp {
            i64::MAX => member.modified.duration_since(UNIX_EPOCH).unwrap_or_default(),
            stamp => Duration::from_micros(stamp.max(0) as u64),
        };
        let keep = rules.keep_files.is_none_or(|most| files <= u64::from(most))
            && rules.keep_bytes.is_none_or(|most| bytes <= most)
            && oldest.is_none_or(|oldest| closed >= oldest);
        if !keep {
            expired.push(member);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(stamp: i64, bytes: u64) -> Member {
        let path = stamp.to_string().into();
        Member { date: String::new(), stamp, kind: Kind::Plain, path, bytes, modified: UNIX_EPOCH }
    }

    #[test]
    fn the_rules_keep_the_newest() {
        let day = 86_400_000_000;
        let members = [member(day, 100), member(5 * day, 100), member(6 * day, 100), member(7 * day, 100)];
        let now = UNIX_EPOCH + Duration::from_micros(8 * day as u64);
        let gone = |rules: Rotate| {
            let mut stamps: Vec<_> =
                expired(&members, &rules, now).iter().map(|member| member.stamp / day).collect();
            stamps.sort();
            stamps
        };
        assert_eq!(gone(Rotate::default()), [0i64; 0]);
        assert_eq!(gone(Rotate { keep_files: Some(1), ..Rotate::default() }), [1, 5, 6]);
        assert_eq!(gone(Rotate { keep_bytes: Some(250), ..Rotate::default() }), [1, 5]);
        assert_eq!(gone(Rotate { keep_days: Some(3), ..Rotate::default() }), [1]);
        assert_eq!(gone(Rotate { keep_days: Some(90_000), ..Rotate::default() }), [0i64; 0]);
    }

    #[test]
    fn what_a_crash_left_is_finished_and_neighbours_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let name = |text: &str| dir.path().join(text);
        for (file, text) in [
            ("a.log", "now\n"),
            ("a.20261130T230402.123456Z.log", "rotated\n"),
            // A crash while it was compressed: the half copy stands beside the whole original.
            ("a.20261130T230402.123456Z.log.gz.tmp", "half"),
            ("a.20261130T230403.123456Z.log.gz.tmp", "half"),
            ("b.20261130T230402.123456Z.log", "another's\n"),
            ("a.log.1", "somebody's\n"),
        ] {
            fs::write(name(file), text).unwrap();
        }
        let rules = Rotate { compress: true, keep_files: Some(10), ..Rotate::default() };
        tend(dir.path(), "a.log", "", &rules, &AtomicBool::new(false)).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            ["a.20261130T230402.123456Z.log.gz", "a.log", "a.log.1", "b.20261130T230402.123456Z.log"]
        );
    }
}
