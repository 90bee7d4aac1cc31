//! The flags that `run` and `check` share.

use std::path::PathBuf;

use crate::cli::exit::Failure;
use crate::cli::output::complain;
use crate::config::{Config, Loaded, Overrides};

/// Where the settings come from.
#[derive(Debug, clap::Args)]
pub struct Settings {
    /// The settings file [default: HWGATE_CONFIG, ./hwgate.toml, then that of the machine]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, before environment and file: --set journal.max_bytes=256MiB
    #[arg(long, value_name = "TABLE.KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write TABLE.KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl Settings {
    /// Loads them; warnings go to standard error.
    pub fn load(&self) -> Result<Loaded, Failure> {
        let overrides = Overrides::from_process().map_err(|error| Failure::config(&error))?;
        let overrides = Overrides { config: self.config.clone(), set: self.set.clone(), ..overrides };
        let mut loaded = Config::load(&overrides).map_err(|error| Failure::config(&error))?;
        if loaded.config.file.is_none() {
            loaded
                .warnings
                .push("no settings file found; the defaults apply (`hwgate init` writes one)".to_owned());
        }
        Ok(loaded)
    }

    /// Shows the warnings of a command that ends at once.
    pub fn show(warnings: &[String]) {
        warnings.iter().for_each(|warning| complain(warning));
    }
}
