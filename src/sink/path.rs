//! The path of a `[[log]]`: `{source}` `{host}` `{level}` `{date}` become names that every file system
//! takes, that name no device, and that never lead out of `log_dir`.

use std::fmt::Write;

use crate::config::pattern::{self, Piece, is_device};
use crate::error::{Error, Kind, Result};

/// Stands for the date in the pattern of a family of files; no file name has it.
pub(super) const DATE: char = '\0';

/// What all values of a name may take together. 255 bytes are the limit of most file systems.
const VALUE_BYTES: usize = 160;

/// What one value may take.
const ONE_VALUE: usize = 100;

/// The parts of a path template, checked.
#[derive(Clone, Debug)]
pub(super) struct Template {
    components: Vec<Vec<Piece>>,
    pub(super) by_source: bool,
    pub(super) by_host: bool,
    pub(super) by_level: bool,
    pub(super) by_date: bool,
}

/// What the placeholders stand for, but the date.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    pub(super) source: &'a str,
    pub(super) host: &'a str,
    pub(super) level: &'a str,
}

impl Template {
    /// Reads and checks the `path` of a `[[log]]`.
    pub(super) fn parse(path: &str) -> Result<Template> {
        let wrong = |why: String| Error::new(Kind::InvalidArgument, format!("log.path {path:?}: {why}"));
        let components = pattern::path(path).map_err(wrong)?;
        let uses = |field: &str| {
            components.iter().flatten().any(|piece| matches!(piece, Piece::Name(name) if name == field))
        };
        let (by_source, by_host, by_level, by_date) =
            (uses("source"), uses("host"), uses("level"), uses("date"));
        Ok(Template { components, by_source, by_host, by_level, by_date })
    }

    /// Whether all records go to one file.
    pub(super) fn is_constant(&self) -> bool {
        !(self.by_source || self.by_host || self.by_level || self.by_date)
    }

    /// The path for these values, with [`DATE`] where the date goes.
    pub(super) fn family(&self, values: &Values<'_>) -> String {
        let family = self.render(values, "");
        // A name that looks like a rotated one would be taken for one; each of those has a `Z`.
        if contains_stamp(&family) { self.render(values, "zZ") } else { family }
    }

    fn render(&self, values: &Values<'_>, also: &str) -> String {
        let names = self.components.iter().map(|pieces| {
            let fields = pieces.iter().filter(|piece| matches!(piece, Piece::Name(_))).count();
            let limit = ONE_VALUE.min(VALUE_BYTES / fields.max(1));
            let mut name = String::new();
            for piece in pieces {
                match piece {
                    Piece::Literal(text) => name.push_str(text),
                    Piece::Name(field) => match &field[..] {
                        "source" => push_value(values.source, also, limit, &mut name),
                        "host" => push_value(values.host, also, limit, &mut name),
                        "level" => push_value(values.level, also, limit, &mut name),
                        _ => name.push(DATE),
                    },
                }
            }
            harmless(name)
        });
        names.collect::<Vec<_>>().join("/")
    }

    /// Where records go when there are too many files: beside them.
    pub(super) fn overflow(&self) -> String {
        let constant = |pieces: &&Vec<Piece>| pieces.iter().all(|piece| matches!(piece, Piece::Literal(_)));
        let mut names: Vec<String> = self.components[..self.components.len() - 1]
            .iter()
            .take_while(constant)
            .map(|pieces| pieces.iter().map(literal).collect())
            .collect();
        names.push("other.log".into());
        names.join("/")
    }
}

fn literal(piece: &Piece) -> &str {
    match piece {
        Piece::Literal(text) => text,
        Piece::Name(_) => "",
    }
}

/// Appends a value as a part of a name. `also` are further characters to escape.
fn push_value(value: &str, also: &str, limit: usize, name: &mut String) {
    let start = name.len();
    for (index, byte) in value.bytes().enumerate() {
        let c = if cfg!(windows) { byte.to_ascii_lowercase() } else { byte } as char;
        let leading_dot = index == 0 && c == '.';
        if (c.is_ascii_alphanumeric() || "._-".contains(c)) && !leading_dot && !also.contains(c) {
            name.push(c);
        } else {
            push_escape(byte, name);
        }
        if name.len() > start + limit {
            shorten(value, start, limit, name);
            return;
        }
    }
    if value.is_empty() {
        // No value is escaped to this.
        name.push('%');
    }
}

fn push_escape(byte: u8, name: &mut String) {
    // Writing into memory cannot fail.
    let _ = if cfg!(windows) { write!(name, "%{byte:02x}") } else { write!(name, "%{byte:02X}") };
}

/// Cuts a value that is too long and ends it with a hash of the whole.
fn shorten(value: &str, start: usize, limit: usize, name: &mut String) {
    let mut cut = start + limit - 17;
    // Not inside of an escape.
    if let Some(percent) = name[cut - 2..cut].rfind('%') {
        cut = cut - 2 + percent;
    }
    name.truncate(cut);
    let lower = if cfg!(windows) { value.to_ascii_lowercase() } else { value.to_owned() };
    // FNV-1a: the same on every machine and in every version.
    let hash = lower
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let _ = write!(name, "-{hash:016x}");
}

/// Escapes what is only dangerous in a whole name: values and text beside them can make up a device.
fn harmless(mut name: String) -> String {
    if is_device(&name) {
        let mut escaped = String::new();
        push_escape(name.as_bytes()[0], &mut escaped);
        name.replace_range(..1, &escaped);
    }
    if name.ends_with('.') {
        name.pop();
        push_escape(b'.', &mut name);
    }
    name
}

/// A text as a file name by itself, for names that are not part of a template.
pub(super) fn escaped(value: &str) -> String {
    let mut name = String::new();
    push_value(value, "", ONE_VALUE, &mut name);
    harmless(name)
}

/// Whether there is anything like `20261130T230402.123456Z` in the text.
fn contains_stamp(text: &str) -> bool {
    text.as_bytes().windows(super::family::STAMP_BYTES).any(super::family::is_stamp)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(template: &str, source: &str) -> String {
        let template = Template::parse(template).unwrap();
        template.family(&Values { source, host: "h", level: "warn" })
    }

    #[test]
    fn c35_a_value_never_leaves_its_place() {
        for (source, expected) in [
            ("app", "app.log"),
            ("", "%.log"),
            ("../../x", "%2E.%2F..%2Fx.log"),
            ("/etc/x", "%2Fetc%2Fx.log"),
            ("C:\\x", "C%3A%5Cx.log"),
            ("C:x", "C%3Ax.log"),
            ("\\\\host\\s\\a.wav", "%5C%5Chost%5Cs%5Ca.wav.log"),
            ("file://x", "file%3A%2F%2Fx.log"),
            ("NUL", "%4EUL.log"),
            ("nul", "%6Eul.log"),
            ("COM3.log", "%43OM3.log.log"),
            ("a.log:b", "a.log%3Ab.log"),
            ("a\0.wav", "a%00.wav.log"),
            ("con ", "con%20.log"),
            (".hidden", "%2Ehidden.log"),
            ("Grüße", "Gr%C3%BC%C3%9Fe.log"),
            ("a.20261130T230402.123456Z", "a.20261130T230402.123456%5A.log"),
        ] {
            assert_eq!(path("{source}.log", source), expected, "{source:?}");
        }
        assert_eq!(path("{source}", "a."), "a%2E");
        assert_eq!(path("{source}", ".."), "%2E%2E");
        assert_eq!(path("CO{source}.txt", "M3"), "%43OM3.txt", "together they are a device");
        assert_eq!(path("{host}/{level}/{source}-{date}.log", "x"), "h/warn/x-\0.log");
        let (long, longer) = (path("{source}.log", &"ü".repeat(300)), path("{source}.log", &"ü".repeat(301)));
        assert!(long.len() <= 104 && longer.len() <= 104 && long != longer, "{long}");
        assert_eq!(Template::parse("a/{host}/{source}.log").unwrap().overflow(), "a/other.log");
    }

    #[test]
    fn c35_a_path_that_leaves_log_dir_is_refused_by_name() {
        let error = Template::parse("../x").unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.message().starts_with("log.path \"../x\": each name needs"), "{error}");
    }

    proptest! {
        #[test]
        fn any_value_is_one_harmless_name(source: String, host: String, which in 0usize..5) {
            let templates = ["{source}", "{host}{source}", "{source}.log", "x.{source}", "CO{source}{host}"];
            let template = Template::parse(templates[which]).unwrap();
            let name = template.family(&Values { source: &source, host: &host, level: "info" });
            prop_assert!(name.len() <= 255 - 24 - 7);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-%".contains(&byte)));
            prop_assert!(!name.is_empty() && !name.starts_with('.') && !name.ends_with('.') && !is_device(&name));
            prop_assert!(!contains_stamp(&name));
        }

        #[test]
        fn different_values_have_different_names(a in ".{0,12}", b in ".{0,12}") {
            prop_assert_eq!(path("{source}.log", &a) == path("{source}.log", &b), a == b);
        }
    }
}
