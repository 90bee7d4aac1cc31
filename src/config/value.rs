//! One value of a setting, from the file, the environment or the command line, and what it may mean.
//!
//! Readers give the reason alone on an error; who calls adds where the value stands.

use std::time::Duration;

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// A TOML string.
    Text(String),
    /// Text from the environment or a flag, which has no types: `true` and `5` are text there.
    Untyped(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Bool(bool),
    /// A TOML array of strings.
    List(Vec<String>),
    /// A TOML table or JSON object.
    Table(Vec<(String, Raw)>),
    /// Anything else, as the name of its type.
    Other(&'static str),
}

/// A value read, or the reason why not.
pub type Read<T> = Result<T, String>;

impl Raw {
    /// A string.
    pub fn text(&self) -> Read<&str> {
        match self {
            Raw::Text(text) | Raw::Untyped(text) => Ok(text),
            other => Err(format!("{} where a string is expected", other.show())),
        }
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Read<bool> {
        match self {
            Raw::Bool(value) => Ok(*value),
            Raw::Untyped(text) if text == "true" || text == "1" => Ok(true),
            Raw::Untyped(text) if text == "false" || text == "0" => Ok(false),
            other => Err(format!("{} where true or false is expected", other.show())),
        }
    }

    /// An integer from `least` to `most`.
    pub fn integer(&self, least: i64, most: i64) -> Read<i64> {
        let value = match self {
            Raw::Integer(value) => *value,
            Raw::Untyped(text) => text.parse().map_err(|_| format!("{text:?} is no integer"))?,
            other => return Err(format!("{} where an integer is expected", other.show())),
        };
        if (least..=most).contains(&value) { Ok(value) } else { Err(format!("{value} is out of range")) }
    }

    /// A number of bytes from `least` to `most`: an integer, or text such as `64MiB` or `10KB`.
    pub fn size(&self, least: u64, most: u64) -> Read<u64> {
        let value = match self {
            Raw::Integer(value) => u64::try_from(*value).map_err(|_| format!("{value} is out of range"))?,
            Raw::Text(text) | Raw::Untyped(text) => parse_size(text)?,
            other => return Err(format!("{} where a size is expected", other.show())),
        };
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            Err(format!("{} is out of range", show_size(value)))
        }
    }

    /// A time of at least `least`: text such as `7d` or `100ms`.
    pub fn duration(&self, least: Duration) -> Read<Duration> {
        let value = match self {
            Raw::Text(text) | Raw::Untyped(text) => parse_duration(text)?,
            other => return Err(format!("{} where a time is expected", other.show())),
        };
        if value >= least { Ok(value) } else { Err(format!("{} is out of range", show_duration(value))) }
    }

    /// Strings: an array, or one string; from the environment separated by commas.
    pub fn list(&self) -> Read<Vec<String>> {
        match self {
            Raw::List(list) => Ok(list.clone()),
            Raw::Text(text) => Ok(vec![text.clone()]),
            Raw::Untyped(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect()),
            other => Err(format!("{} where strings are expected", other.show())),
        }
    }

    /// One of `choices`, each a name with its meaning.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Read<T> {
        let text = self.text()?;
        choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("{} is none of them", quote(text)))
    }

    /// The value for an error message.
    pub fn show(&self) -> String {
        match self {
            Raw::Text(text) | Raw::Untyped(text) => quote(text),
            Raw::Integer(value) => value.to_string(),
            Raw::Bool(value) => value.to_string(),
            Raw::List(_) => "an array".to_owned(),
            Raw::Table(_) => "a table".to_owned(),
            Raw::Other(name) => format!("a value of type {name}"),
        }
    }
}

impl From<serde_json::Value> for Raw {
    /// JSON has one kind of number: 9600.0 is an integer too. A `null` in an object is as good as absent.
    fn from(value: serde_json::Value) -> Raw {
        use serde_json::Value;
        match value {
            Value::Null => Raw::Other("null"),
            Value::Bool(value) => Raw::Bool(value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Raw::Integer(integer),
                // Beyond 2^53 a float no longer tells integers apart.
                (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => {
                    Raw::Integer(float as i64)
                }
                _ => Raw::Other("number"),
            },
            Value::String(text) => Raw::Text(text),
            Value::Array(items) => {
                let strings = items.into_iter().map(|item| match item {
                    Value::String(text) => Some(text),
                    _ => None,
                });
                strings.collect::<Option<_>>().map_or(Raw::Other("array"), Raw::List)
            }
            Value::Object(members) => {
                let given = members.into_iter().filter(|(_, value)| !value.is_null());
                Raw::Table(given.map(|(name, value)| (name, Raw::from(value))).collect())
            }
        }
    }
}

/// Text for an error message, cut where it is long.
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The units of sizes; the first that divides a size is used to print it.
const SIZES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// The units of times, in milliseconds; the first that divides a time is used to print it.
const TIMES: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn parse_size(text: &str) -> Read<u64> {
    let wrong = || format!("{text:?} is no size");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let factor = match SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is out of range"))
}

/// A time with its unit, such as `500ms` or `2m`.
pub(crate) fn parse_duration(text: &str) -> Read<Duration> {
    let wrong = || format!("{text:?} is no time");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let (_, factor) = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let milliseconds = number.checked_mul(*factor).ok_or_else(|| format!("{text:?} is out of range"))?;
    Ok(Duration::from_millis(milliseconds))
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// A size in its largest whole unit: `1GiB`.
pub fn show_size(size: u64) -> String {
    let (unit, factor) = largest(SIZES, size);
    format!("{}{unit}", size / factor)
}

/// A time in its largest whole unit: `7d`. Below a millisecond it is cut.
pub fn show_duration(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (unit, factor) = largest(TIMES, milliseconds);
    format!("{}{unit}", milliseconds / factor)
}

fn largest(units: &'static [(&'static str, u64)], value: u64) -> (&'static str, u64) {
    let whole = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    *whole.unwrap_or(&units[units.len() - 1])
}

/// A string as TOML writes it.
pub fn show_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_and_times_have_units() {
        let size = |text: &str| Raw::Text(text.into()).size(0, u64::MAX);
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("10 kb"), Ok(10_000));
        assert_eq!(size("7"), Ok(7));
        assert_eq!(Raw::Integer(7).size(0, 9), Ok(7));
        for wrong in ["", "MiB", "1.5GiB", "-1B", "5M", "99999999999TiB", "99999999999999999999"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        let time = |text: &str| Raw::Text(text.into()).duration(Duration::ZERO);
        assert_eq!(time("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(time("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["7", "1 week", "d", "-1s", "999999999999999999d"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_environment_has_no_types_but_the_file_has() {
        assert_eq!(Raw::Untyped("true".into()).bool(), Ok(true));
        assert!(Raw::Text("true".into()).bool().is_err());
        assert_eq!(Raw::Untyped("5".into()).integer(1, 9), Ok(5));
        assert!(Raw::Text("5".into()).integer(1, 9).is_err());
        assert_eq!(Raw::Untyped("a, b".into()).list(), Ok(vec!["a".into(), "b".into()]));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(size: u64, milliseconds in 0..u64::MAX / 86_400_000) {
            prop_assert_eq!(Raw::Text(show_size(size)).size(0, u64::MAX), Ok(size));
            let time = Duration::from_millis(milliseconds);
            prop_assert_eq!(Raw::Text(show_duration(time)).duration(Duration::ZERO), Ok(time));
        }
    }
}
