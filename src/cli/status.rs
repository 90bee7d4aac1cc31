//! `hwgate status`: what the gateway does, for people, programs and monitoring.

use serde_json::{Value, json};

use crate::cli::exit::{FAILED, Failure};
use crate::cli::output::{complain, say};
use crate::cli::{REPLY, Target};
use crate::error::Result;

/// What the gateway does.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Say one line and end with 0 (ok), 1 (degraded) or 2 (no answer), as monitoring wants it
    #[arg(long)]
    check: bool,
    /// As one JSON object: {"url", "hello", "stats"}
    #[arg(long, conflicts_with = "check")]
    json: bool,
}

/// No answer, for `--check`: the code of Nagios for CRITICAL.
const CRITICAL: u8 = 2;

impl Status {
    /// Asks and prints.
    pub fn run(&self, target: &Target) -> std::result::Result<(), Failure> {
        if self.check {
            return check(ask(target));
        }
        let status = ask(target)?;
        if self.json {
            say(&format!("{status:#}"));
            return Ok(());
        }
        let mut lines = vec![format!("url  {}", status["url"].as_str().unwrap_or_default())];
        flatten("", &status["hello"], &mut lines);
        flatten("", &status["stats"], &mut lines);
        lines.iter().for_each(|line| say(line));
        Ok(())
    }
}

fn ask(target: &Target) -> Result<Value> {
    let mut requester = target.connect()?;
    let hello = requester.request("hello", &Value::Null, REPLY)?;
    let stats = requester.request("stats", &Value::Null, REPLY)?;
    Ok(json!({"url": requester.url().to_string(), "hello": hello, "stats": stats}))
}

fn check(answer: Result<Value>) -> std::result::Result<(), Failure> {
    match answer {
        Err(error) => {
            complain(&error.to_string());
            Err(Failure::new(CRITICAL, ""))
        }
        Ok(status) => {
            let state = status["stats"]["state"].as_str().unwrap_or("unknown");
            say(&format!("{state}: {}", status["hello"]["name"].as_str().unwrap_or_default()));
            if state == "ok" { Ok(()) } else { Err(Failure::new(FAILED, "")) }
        }
    }
}

/// One line for each value, its path with dots.
fn flatten(prefix: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            flatten(&path, value, lines);
        }),
        Value::String(text) => lines.push(format!("{prefix}  {text}")),
        other => lines.push(format!("{prefix}  {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Kind};

    #[test]
    fn monitoring_gets_0_1_or_2() {
        let state = |state: &str| Ok(json!({"stats": {"state": state}, "hello": {"name": "x"}}));
        assert_eq!(check(state("ok")), Ok(()));
        assert_eq!(check(state("degraded")).unwrap_err().code, 1);
        assert_eq!(check(Ok(json!({}))).unwrap_err().code, 1);
        assert_eq!(check(Err(Error::new(Kind::NotConnected, "x"))).unwrap_err().code, 2);
    }
}
