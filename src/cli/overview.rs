//! `hwgate` alone: does a gateway answer, and what to type next?

use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::output::say;
use crate::cli::{REPLY, Target};
use crate::client;
use crate::config::Overrides;
use crate::error::Kind;

/// Always ends with 0 unless the url is wrong: this is for people; scripts ask `status --check`.
pub fn overview(target: &Target) -> Result<(), Failure> {
    let mut requester = match target.connect() {
        Ok(requester) => requester,
        Err(error) if error.kind() == Kind::NotConnected => {
            say(error.message());
            match Overrides::from_process()?.find_file() {
                Some(file) => say(&format!("settings: {}", file.display())),
                None => say("settings: none found, so the defaults; `hwgate init` writes a file"),
            }
            say("next: `hwgate run` starts a gateway here, `hwgate --help` lists the commands");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let hello = requester.request("hello", &Value::Null, REPLY)?;
    let stats = requester.request("stats", &Value::Null, REPLY)?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    say(&format!(
        "gateway {} answers at {}: hwgate {}, pid {} on {}",
        text(&hello["name"]),
        requester.url(),
        text(&hello["version"]),
        hello["pid"],
        text(&hello["host"]),
    ));
    match stats["config"].as_str() {
        Some(file) => say(&format!("settings: {file}")),
        None => say("settings: defaults, no file"),
    }
    if hello["version"] != env!("CARGO_PKG_VERSION") {
        say(&format!("this program is hwgate {}", env!("CARGO_PKG_VERSION")));
    }
    let pushed = match requester.url().to_string() {
        url if url == client::DEFAULT_URL => String::new(),
        url => format!(" --url {url}"),
    };
    say(&format!("next: `hwgate status{pushed}` shows what it does, `hwgate tail{pushed}` what happens,"));
    say(&format!(
        "`hwgate push{pushed} TEXT` logs a line, `hwgate request{pushed}` lists what it can be asked"
    ));
    Ok(())
}
