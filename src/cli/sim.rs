//! `hwgate sim`: make a simulated port read something, as if a device had sent it.

use std::io::Read;

use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::request::unescape;
use crate::cli::{REPLY, Target};
use crate::error::{Error, Kind};
use crate::wire::data;

/// Make a `sim:` port read a text, as if its device had sent it
#[derive(Debug, clap::Args)]
pub struct Sim {
    /// The port
    id: String,
    /// What it reads; words are joined by spaces. Without any it is standard input, as it is
    text: Vec<String>,
    /// What follows the text, with escapes
    #[arg(long, default_value = r"\r\n", value_name = "TEXT")]
    end: String,
    /// Take \r, \n, \t, \\ and \xNN in the text for what they mean
    #[arg(short, long)]
    escapes: bool,
}

/// Bytes at a time, as `sim.inject` takes them.
const PART: usize = 1 << 20;

impl Sim {
    /// Injects everything.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let mut requester = target.connect()?;
        let bytes = self.bytes()?;
        for part in bytes.chunks(PART) {
            let params = json!({"id": self.id, "data_base64": data::base64(part)});
            requester.request("sim.inject", &params, REPLY)?;
        }
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<u8>, Error> {
        let invalid = |text| Error::new(Kind::InvalidArgument, text);
        if self.text.is_empty() {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            return read.map(|_| bytes).map_err(|error| Error::io("standard input", &error));
        }
        let text = self.text.join(" ");
        let mut bytes = if self.escapes { unescape(&text).map_err(invalid)? } else { text.into_bytes() };
        bytes.extend(unescape(&self.end).map_err(invalid)?);
        Ok(bytes)
    }
}
