//! The files that belong to one log file: those it was rotated to, and those of earlier dates.
//!
//! `gateway.log` is rotated to `gateway.20261130T230402.123456Z.log`, compressed to
//! `gateway.20261130T230402.123456Z.log.gz`. The stamp is UTC in every zone, so names sort by time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::clock::civil;
use super::path::DATE;

/// The length of `20261130T230402.123456Z`.
pub(super) const STAMP_BYTES: usize = 23;

/// Whether these bytes have the form of the stamp in a rotated name.
pub(super) fn is_stamp(bytes: &[u8]) -> bool {
    has_form(bytes, b"00000000T000000.000000Z")
}

fn has_form(bytes: &[u8], form: &[u8]) -> bool {
    bytes.len() == form.len()
        && bytes.iter().zip(form).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        })
}

/// The stamp of a moment, in microseconds since 1970.
pub(super) fn stamp(micros: i64) -> String {
    let (day, time) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, date) = civil(day);
    let second = time / 1_000_000;
    format!(
        "{year:04}{month:02}{date:02}T{:02}{:02}{:02}.{:06}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        time % 1_000_000
    )
}

/// The moment of a stamp, in microseconds since 1970.
fn moment(stamp: &str) -> Option<i64> {
    let time = chrono::NaiveDateTime::parse_from_str(stamp, "%Y%m%dT%H%M%S%.6fZ").ok()?;
    Some(time.and_utc().timestamp_micros())
}

/// The date of a day as it is in names.
pub(super) fn date(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `gateway.log` with a stamp: `gateway.20261130T230402.123456Z.log`.
pub(super) fn rotated(path: &Path, stamp: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = split(&name);
    path.with_file_name(format!("{stem}.{stamp}{extension}"))
}

/// Stem and extension with its dot.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// A file that is no longer written to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    /// Empty where the family has no dates.
    pub(super) date: String,
    /// When it was rotated, in microseconds since 1970; the largest number if it ended with its date.
    pub(super) stamp: i64,
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

/// What is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plain,
    Gzip,
    /// What a crash left of a compression.
    Temporary,
}

/// What the name alone says.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    date: &'a str,
    stamp: Option<i64>,
    kind: Kind,
}

/// Reads a file name strictly: it is of the family, or it is none of our business.
fn parse<'a>(pattern: &str, name: &'a str) -> Option<Name<'a>> {
    let (base, kind) = match (name.strip_suffix(".gz.tmp"), name.strip_suffix(".gz")) {
        (Some(base), _) => (base, Kind::Temporary),
        (_, Some(base)) => (base, Kind::Gzip),
        _ => (name, Kind::Plain),
    };
    let same = |date: &str, candidate: &str| pattern.replace(DATE, date) == candidate;
    let date_in = |candidate: &'a str| match pattern.find(DATE) {
        Some(at) => candidate.get(at..at + 10).filter(|date| has_form(date.as_bytes(), b"0000-00-00")),
        None => Some(""),
    };
    if let Some(date) = date_in(base).filter(|date| same(date, base)) {
        return Some(Name { date, stamp: None, kind });
    }
    // The stamp stands before the extension; the date may be on either side of it.
    let (_, extension) = split(pattern);
    let extension = extension.len() + 9 * extension.matches(DATE).count();
    let end = base.len().checked_sub(extension)?;
    let start = end.checked_sub(STAMP_BYTES + 1)?;
    let stamp = base.get(start..end)?.strip_prefix('.').filter(|stamp| is_stamp(stamp.as_bytes()))?;
    let without = format!("{}{}", base.get(..start)?, base.get(end..)?);
    let at = pattern.find(DATE).map(|at| if at < start { at } else { at + STAMP_BYTES + 1 });
    let date = match at {
        Some(at) => base.get(at..at + 10).filter(|date| has_form(date.as_bytes(), b"0000-00-00"))?,
        None => "",
    };
    same(date, &without).then_some(())?;
    Some(Name { date, stamp: Some(moment(stamp)?), kind })
}

/// All files of a family, oldest first. `pattern` is relative to `root`, with [`DATE`] for the date.
///
/// Files without a stamp belong to it only where the family has dates: they ended with their date.
/// The one of `current` is left out.
pub(super) fn members(root: &Path, pattern: &str, current: &str) -> io::Result<Vec<Member>> {
    let (folders, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let mut dirs = vec![(root.to_path_buf(), String::new())];
    for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
        let mut below = Vec::new();
        for (dir, date) in dirs {
            if !folder.contains(DATE) {
                below.push((dir.join(folder), date));
                continue;
            }
            for entry in entries(&dir)? {
                let file_name = entry.file_name();
                let Some(found) = file_name.to_str().and_then(|text| parse(folder, text)) else { continue };
                if found.stamp.is_none()
                    && found.kind == Kind::Plain
                    && (date.is_empty() || date == found.date)
                {
                    below.push((entry.path(), found.date.to_owned()));
                }
            }
        }
        dirs = below;
    }
    let mut members = Vec::new();
    for (dir, date) in dirs {
        for entry in entries(&dir)? {
            let file_name = entry.file_name();
            let Some(found) = file_name.to_str().and_then(|text| parse(name, text)) else { continue };
            if !date.is_empty() && !found.date.is_empty() && date != found.date {
                continue;
            }
            let date = if found.date.is_empty() { &date[..] } else { found.date };
            if found.stamp.is_none() && (date.is_empty() || (date == current && found.kind == Kind::Plain)) {
                continue;
            }
            // Links, folders and what vanished meanwhile are not ours.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() {
                members.push(Member {
                    date: date.to_owned(),
                    stamp: found.stamp.unwrap_or(i64::MAX),
                    kind: found.kind,
                    path: entry.path(),
                    bytes: meta.len(),
                    modified: meta.modified()?,
                });
            }
        }
    }
    members.sort();
    Ok(members)
}

fn entries(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_strictly() {
        let stamped = |date, kind| Some(Name { date, stamp: moment("20261130T230402.123456Z"), kind });
        assert_eq!(stamp(moment("20261130T230402.123456Z").unwrap()), "20261130T230402.123456Z");
        assert_eq!(parse("a.log", "a.20261130T230402.123456Z.log"), stamped("", Kind::Plain));
        assert_eq!(parse("a.log", "a.20261130T230402.123456Z.log.gz"), stamped("", Kind::Gzip));
        assert_eq!(parse("a", "a.20261130T230402.123456Z"), stamped("", Kind::Plain));
        assert_eq!(
            parse("a-\0.log", "a-2026-11-30.20261130T230402.123456Z.log"),
            stamped("2026-11-30", Kind::Plain)
        );
        assert_eq!(
            parse("a.\0", "a.20261130T230402.123456Z.2026-11-30.gz"),
            stamped("2026-11-30", Kind::Gzip)
        );
        assert_eq!(
            parse("a-\0.log", "a-2026-11-30.log.gz.tmp"),
            Some(Name { date: "2026-11-30", stamp: None, kind: Kind::Temporary })
        );
        for other in [
            "ab.20261130T230402.123456Z.log",
            "a.20261130T230402.123456.log",
            "a.b.20261130T230402.123456Z.log",
            "a.20261130T230402.123456Z.log.bak",
            "a.20261399T230402.123456Z.log",
            "a.log.1",
            "a.20261130T230402.123456Zxlog",
            "é.20261130T230402.123456Z.log",
        ] {
            assert_eq!(parse("a.log", other), None, "{other}");
        }
        assert_eq!(rotated(Path::new("x/a.log"), "S"), Path::new("x/a.S.log"));
        assert_eq!(rotated(Path::new("x.d/a"), "S"), Path::new("x.d/a.S"));
    }

    #[test]
    fn dates_may_be_folders() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "2026-11-29/a.log",
            "2026-11-30/a.log",
            "2026-11-30/a.20261130T230402.123456Z.log",
            "2026-11-30/b.log",
            "x/a.log",
            "2026-11-28/a.log.gz",
        ] {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), name).unwrap();
        }
        let found = members(dir.path(), "\0/a.log", "2026-11-30").unwrap();
        let names: Vec<_> =
            found.iter().map(|member| member.path.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!(
            names,
            ["2026-11-28/a.log.gz", "2026-11-29/a.log", "2026-11-30/a.20261130T230402.123456Z.log"]
                .map(Path::new)
        );
    }
}
