//! `hwgate check`: are the settings right, and what is in force?

use crate::cli::exit::Failure;
use crate::cli::output::say;
use crate::cli::settings::Settings;
use crate::config::print::effective;

/// Prints the settings in force; ends with 78 when they are wrong.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let loaded = settings.load()?;
    Settings::show(&loaded.warnings);
    match &loaded.config.file {
        Some(file) => say(&format!("# {}: ok", file.display())),
        None => say("# no settings file: defaults"),
    }
    say(effective(&loaded.config, &loaded.origins).trim_end());
    Ok(())
}
