//! `hwgate request`: any method, its parameters as words.

use std::io::Read;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::cli::exit::Failure;
use crate::cli::methods::{self, Type};
use crate::cli::output::say;
use crate::cli::{REPLY, Target, duration};
use crate::error::{Error, Kind, Result};
use crate::wire::data;

/// Ask the gateway: any method of docs/commands.json
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Request {
    /// Such as serial.write; without one all are listed
    method: Option<String>,
    /// NAME=VALUE, NAME:=JSON, or NAME=@FILE for the content of a file (@- is standard input, @@ a plain @)
    #[arg(value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Take \r, \n, \t, \\ and \xNN in the parameter data and in expect for what they mean
    #[arg(short, long)]
    escapes: bool,
    /// How long to wait for the reply, such as 500ms or 2m; plain numbers are seconds [default: 5s, and as long as timeout_ms says]
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
    /// The result on one line
    #[arg(long)]
    compact: bool,
}

const EXAMPLES: &str = "Examples:
  hwgate request serial.write id=scanner data=hello
  hwgate request -e serial.transact id=scale data='W\\r' expect_regex='([0-9.]+) kg' timeout_ms=2000
  hwgate request serial.open id=gps path=/dev/ttyUSB0 framing:='{\"line\": \"crlf\"}'
  hwgate request audio.play data=@beep.wav";

/// Beyond a method's own `timeout_ms`, for the way there and back.
const WAY: Duration = Duration::from_secs(2);
/// The longest file that fits a request.
const FILE_MAX: u64 = 11 << 20;

impl Request {
    /// Asks and prints the result.
    pub fn run(&self, target: &Target) -> std::result::Result<(), Failure> {
        let Some(method) = &self.method else {
            methods::list().for_each(|line| say(&line));
            return Ok(());
        };
        let params = self.params(method)?;
        let own = params.get("timeout_ms").and_then(Value::as_u64).map(|ms| Duration::from_millis(ms) + WAY);
        let timeout = self.timeout.unwrap_or(own.unwrap_or_default().max(REPLY));
        let result = target.connect()?.request(method, &params.into(), timeout)?;
        say(&if self.compact { result.to_string() } else { format!("{result:#}") });
        Ok(())
    }

    fn params(&self, method: &str) -> Result<Map<String, Value>> {
        let mut params = Map::new();
        for word in &self.params {
            let bad = |what: &str| Error::new(Kind::InvalidArgument, format!("{word}: {what}"));
            let (name, value) = word.split_once('=').ok_or_else(|| bad("expected NAME=VALUE"))?;
            let (name, given) = match (name.strip_suffix(':'), value.strip_prefix('@')) {
                (Some(name), _) => {
                    let json =
                        serde_json::from_str(value).map_err(|error| bad(&format!("no JSON: {error}")))?;
                    (name, Given::Json(json))
                }
                (None, Some(rest)) if rest.starts_with('@') => (name, Given::Text(rest)),
                (None, Some(file)) => (name, Given::Bytes(read(file)?)),
                (None, None) => (name, Given::Text(value)),
            };
            let (name, value) = self.value(method, name, given).map_err(|text| bad(&text))?;
            if params.insert(name.clone(), value).is_some() {
                return Err(bad(&format!("{name} is given twice")));
            }
        }
        Ok(params)
    }

    /// The parameter as JSON: by the type in the description, else as it looks.
    fn value(&self, method: &str, name: &str, given: Given) -> std::result::Result<(String, Value), String> {
        let bytes_go = ["data", "expect"].contains(&name);
        let bytes = match given {
            Given::Json(json) => return Ok((name.to_owned(), json)),
            Given::Text(text) if bytes_go && self.escapes => unescape(text)?,
            Given::Text(text) => return Ok((name.to_owned(), typed(methods::type_of(method, name), text)?)),
            Given::Bytes(bytes) => bytes,
        };
        if bytes_go {
            // Methods that take no text take bytes.
            let text = methods::type_of(method, name) != Type::Unknown || !methods::is_known(method);
            let mut one = Map::new();
            data::write(&mut one, &bytes);
            return match one.remove("data").filter(|_| text) {
                Some(text) => Ok((name.to_owned(), text)),
                None => Ok((format!("{name}_base64"), data::base64(&bytes).into())),
            };
        }
        let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
        Ok((name.to_owned(), typed(methods::type_of(method, name), &text)?))
    }
}

enum Given<'a> {
    Text(&'a str),
    Bytes(Vec<u8>),
    Json(Value),
}

fn typed(wanted: Type, text: &str) -> std::result::Result<Value, String> {
    let looks = || serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let is = |right: fn(&Value) -> bool, what: &str| {
        let value: Value = looks();
        if right(&value) { Ok(value) } else { Err(format!("expected {what}")) }
    };
    match wanted {
        Type::Text => Ok(text.into()),
        Type::Integer => is(|value| value.is_i64() || value.is_u64(), "a whole number"),
        Type::Number => is(Value::is_number, "a number"),
        Type::Boolean => is(Value::is_boolean, "true or false"),
        Type::Several | Type::Unknown => Ok(looks()),
    }
}

/// The content of a file, or of standard input for `-`.
fn read(file: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().take(FILE_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(FILE_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Error::io(file, &error))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(Error::new(Kind::TooLarge, format!("{file}: a request takes at most {FILE_MAX} bytes")));
    }
    Ok(bytes)
}

/// The bytes that `\r`, `\n`, `\t`, `\0`, `\\` and `\xNN` stand for.
pub(super) fn unescape(text: &str) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let code = after.chars().next().ok_or("a \\ at the end; write \\\\ for one")?;
        rest = &after[code.len_utf8()..];
        bytes.push(match code {
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            'x' => {
                let hex = rest.get(..2).ok_or("expected two hex digits after \\x")?;
                rest = &rest[2..];
                u8::from_str_radix(hex, 16).map_err(|_| "expected two hex digits after \\x")?
            }
            other => return Err(format!("\\{other} means nothing; there are \\r \\n \\t \\0 \\\\ \\xNN")),
        });
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(words: &[&str], escapes: bool) -> Result<Value> {
        let method = words[0].to_owned();
        let request = Request {
            params: words[1..].iter().map(|word| word.to_string()).collect(),
            method: Some(method.clone()),
            escapes,
            timeout: None,
            compact: false,
        };
        request.params(&method).map(Value::from)
    }

    #[test]
    fn words_become_parameters_of_the_right_type() {
        let write = ["serial.write", "id=007", "data=42", "timeout_ms=500"];
        assert_eq!(params(&write, false), Ok(json!({"id": "007", "data": "42", "timeout_ms": 500})));
        let open =
            ["serial.open", "id=a", "baud=9600", "framing=raw", "dtr=true", "usb:={\"vid\": 1, \"pid\": 2}"];
        assert_eq!(
            params(&open, false),
            Ok(json!({"id": "a", "baud": 9600, "framing": "raw", "dtr": true, "usb": {"vid": 1, "pid": 2}}))
        );
        assert_eq!(params(&["serial.write", "data=@@home"], false), Ok(json!({"data": "@home"})));
        assert_eq!(params(&["serial.write", r"data=a\r\x00"], true), Ok(json!({"data": "a\r\0"})));
        assert_eq!(params(&["serial.write", r"data=\xff"], true), Ok(json!({"data_base64": "/w=="})));
        assert_eq!(params(&["not.known", "a=1", "b=x"], false), Ok(json!({"a": 1, "b": "x"})));
        for (words, says) in [
            (vec!["serial.write", "id"], "NAME=VALUE"),
            (vec!["serial.write", "timeout_ms=soon"], "a whole number"),
            (vec!["serial.write", "id=a", "id=b"], "twice"),
            (vec!["serial.open", "usb:={"], "no JSON"),
        ] {
            assert!(params(&words, false).unwrap_err().message().contains(says), "{words:?}");
        }
    }

    #[test]
    fn files_are_sent_as_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        std::fs::write(&file, b"\xff").unwrap();
        let word = format!("data=@{}", file.display());
        assert_eq!(params(&["serial.write", &word], false), Ok(json!({"data_base64": "/w=="})));
        std::fs::write(&file, b"text").unwrap();
        assert_eq!(params(&["serial.write", &word], false), Ok(json!({"data": "text"})));
        // audio.play has no data, only data_base64.
        assert_eq!(params(&["audio.play", &word], false), Ok(json!({"data_base64": "dGV4dA=="})));
        assert_eq!(params(&["serial.write", "data=@/no/file"], false).unwrap_err().kind(), Kind::NotFound);
    }

    #[test]
    fn escapes_mean_bytes() {
        assert_eq!(unescape(r"a\\b\r\n\t\x1B\0").unwrap(), b"a\\b\r\n\t\x1b\0");
        for bad in [r"\", r"\q", r"\x1", r"\xzz", r"\xé"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }
}
