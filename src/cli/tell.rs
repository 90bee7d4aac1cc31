//! `hwgate stop`, `reload` and `reopen`: one request each.

use std::time::Duration;

use serde_json::Value;

use crate::cli::exit::{FAILED, Failure};
use crate::cli::output::say;
use crate::cli::{REPLY, Target};

/// A gateway stops within 5 s; a little more for a busy machine.
const STOPPED: Duration = Duration::from_secs(8);

/// Log files are closed and opened, on a disk that may be slow.
const FILES: Duration = Duration::from_secs(15);

/// Asks the gateway to stop, and waits until it has.
pub fn stop(target: &Target) -> Result<(), Failure> {
    let mut requester = target.connect()?;
    requester.request("shutdown", &Value::Null, REPLY)?;
    if requester.wait_closed(STOPPED) {
        say(&format!("the gateway at {} has stopped", requester.url()));
        Ok(())
    } else {
        let text = format!("the gateway at {} was asked, but still runs after {STOPPED:?}", requester.url());
        Err(Failure::new(FAILED, text))
    }
}

/// Asks the gateway to read its settings again, and says what came of it.
pub fn reload(target: &Target) -> Result<(), Failure> {
    let reply = target.connect()?.request("config.reload", &Value::Null, FILES)?;
    match reply["message"].as_str().or(reply.as_str()) {
        Some(message) => say(message),
        None => say(&reply.to_string()),
    }
    Ok(())
}

/// Asks the gateway to reopen its log files.
pub fn reopen(target: &Target) -> Result<(), Failure> {
    target.connect()?.request("log.reopen", &Value::Null, FILES)?;
    Ok(())
}
