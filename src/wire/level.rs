//! The six levels and the one alias table of all places where a level can be named.

use std::fmt;

/// How much a record matters. The order is the order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Each step, for the author of the program.
    Trace = 0,
    /// What helps to find a fault.
    Debug = 1,
    /// What happened, in normal work.
    #[default]
    Info = 2,
    /// Something to look at; the work goes on.
    Warn = 3,
    /// Something failed. Synced to disk at once.
    Error = 4,
    /// The program or the machine cannot do its job. Synced to disk at once.
    Critical = 5,
}

/// Other names that log libraries give to the levels, in lower case.
const ALIASES: &[(&str, Level)] = &[
    ("trace", Level::Trace),
    ("trc", Level::Trace),
    ("verbose", Level::Trace),
    ("silly", Level::Trace),
    ("finest", Level::Trace),
    ("debug", Level::Debug),
    ("dbg", Level::Debug),
    ("fine", Level::Debug),
    ("info", Level::Info),
    ("inf", Level::Info),
    ("information", Level::Info),
    ("informational", Level::Info),
    ("notice", Level::Info),
    ("warn", Level::Warn),
    ("wrn", Level::Warn),
    ("warning", Level::Warn),
    ("error", Level::Error),
    ("err", Level::Error),
    ("severe", Level::Error),
    ("critical", Level::Critical),
    ("crit", Level::Critical),
    ("fatal", Level::Critical),
    ("alert", Level::Critical),
    ("emerg", Level::Critical),
    ("emergency", Level::Critical),
    ("panic", Level::Critical),
];

/// The longest name in the alias table, in bytes.
const LONGEST: usize = 13;

impl Level {
    /// All levels, least severe first.
    pub const ALL: [Level; 6] =
        [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Critical];

    /// The name in settings, JSON and topics: `trace`, `debug`, `info`, `warn`, `error`, `critical`.
    pub const fn name(self) -> &'static str {
        ["trace", "debug", "info", "warn", "error", "critical"][self as usize]
    }

    /// Five characters for text lines: `TRACE`, `DEBUG`, `INFO `, `WARN `, `ERROR`, `CRIT `.
    pub const fn column(self) -> &'static str {
        ["TRACE", "DEBUG", "INFO ", "WARN ", "ERROR", "CRIT "][self as usize]
    }

    /// The level with this number, 0 (trace) to 5 (critical).
    pub const fn from_number(number: u8) -> Option<Level> {
        match number {
            0 => Some(Level::Trace),
            1 => Some(Level::Debug),
            2 => Some(Level::Info),
            3 => Some(Level::Warn),
            4 => Some(Level::Error),
            5 => Some(Level::Critical),
            _ => None,
        }
    }

    /// The level with this name or alias, in any case: `Warning`, `FATAL`, `information`.
    ///
    /// ```
    /// use hwgate::Level;
    /// assert_eq!(Level::parse("Warning"), Some(Level::Warn));
    /// assert_eq!(Level::parse("banana"), None);
    /// ```
    pub fn parse(name: &str) -> Option<Level> {
        if name.len() > LONGEST {
            return None;
        }
        ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map(|&(_, level)| level)
    }

    /// The level that a line begins with, written in capitals: `ERROR disk`, `[WARN] x`, `WARNING: y`.
    ///
    /// The word must be in capitals and end at a space, `:`, `]`, a tab, `-`, `|` or the end, so that
    /// `INFORMED` or `Error` in prose say nothing. The text itself is left as it is.
    pub fn leading(text: &[u8]) -> Option<Level> {
        let (word, bracketed) = match text.first()? {
            b'[' => (&text[1..], true),
            b'A'..=b'Z' => (text, false),
            _ => return None,
        };
        let end = word.iter().take(LONGEST + 1).take_while(|byte| byte.is_ascii_uppercase()).count();
        let next = word.get(end);
        let ends = if bracketed {
            next == Some(&b']')
        } else {
            matches!(next, None | Some(b' ' | b':' | b'\t' | b'-' | b'|' | b'\r' | b'\n'))
        };
        if !ends {
            return None;
        }
        // Short for the two words that nearly all lines begin with: this runs for every message.
        match &word[..end] {
            b"INFO" => Some(Level::Info),
            b"ERROR" => Some(Level::Error),
            name => Level::parse(std::str::from_utf8(name).ok()?),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_alias_parses_in_any_case() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.name()), Some(level));
            assert_eq!(Level::parse(&level.name().to_uppercase()), Some(level));
            assert_eq!(Level::parse(level.column().trim()), Some(level));
            assert_eq!(Level::from_number(level as u8), Some(level));
            assert_eq!(level.column().len(), 5);
        }
        assert_eq!(ALIASES.iter().map(|(name, _)| name.len()).max(), Some(LONGEST));
        assert_eq!(Level::from_number(6), None);
    }

    #[test]
    fn a_leading_word_needs_capitals_and_an_end() {
        assert_eq!(Level::leading(b"ERROR disk"), Some(Level::Error));
        assert_eq!(Level::leading(b"[WARN] x"), Some(Level::Warn));
        assert_eq!(Level::leading(b"WARNING: y"), Some(Level::Warn));
        assert_eq!(Level::leading(b"FATAL"), Some(Level::Critical));
        for text in
            [&b"INFORMED"[..], b"Error x", b"", b"[", b"[ERROR", b"X", b"INFORMATIONALLY x", b" ERROR"]
        {
            assert_eq!(Level::leading(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
