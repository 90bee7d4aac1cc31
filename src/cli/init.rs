//! `hwgate init`: a commented settings file to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use crate::cli::exit::{CANNOT_CREATE, Failure};
use crate::cli::output::say;
use crate::config::print::template;

/// Write a commented settings file.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// Where to write it
    #[arg(long, value_name = "FILE", default_value = "hwgate.toml")]
    path: PathBuf,
    /// With log files that show what there is
    #[arg(long)]
    demo: bool,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

impl Init {
    /// Writes the file; ends with 73 when it is there already or cannot be made.
    pub fn run(&self) -> Result<(), Failure> {
        let path = self.path.display();
        let mut options = OpenOptions::new();
        options.write(true);
        match self.force {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        let written =
            options.open(&self.path).and_then(|mut file| file.write_all(template(self.demo).as_bytes()));
        written.map_err(|error| {
            let text = match error.kind() {
                ErrorKind::AlreadyExists => format!("{path} is there already; --force replaces it"),
                _ => format!("{path}: {error}"),
            };
            Failure::new(CANNOT_CREATE, text)
        })?;
        say(&format!(
            "{path} written; next: `hwgate check --config {path}`, then `hwgate run --config {path}`"
        ));
        Ok(())
    }
}
