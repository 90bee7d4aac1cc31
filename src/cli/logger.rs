//! The gateway's own log: standard error, or the `diagnostics` file.

use std::io::{self, Write};

use flexi_logger::{DeferredNow, FileSpec, LogSpecification, Logger, LoggerHandle};
use log::{LevelFilter, Record};

use crate::cli::exit::{CANNOT_CREATE, Failure};
use crate::config::Gateway;
use crate::wire::Level;

/// Starts it for the whole process. Keep the handle until the end.
pub fn start(gateway: &Gateway) -> Result<LoggerHandle, Failure> {
    let level = match gateway.diagnostics_level {
        Level::Trace => LevelFilter::Trace,
        Level::Debug => LevelFilter::Debug,
        Level::Info => LevelFilter::Info,
        Level::Warn => LevelFilter::Warn,
        Level::Error | Level::Critical => LevelFilter::Error,
    };
    // What the decoders find odd in a sound is in the error or of no interest.
    let wanted = LogSpecification::builder().default(level).module("symphonia", LevelFilter::Off).build();
    let logger = Logger::with(wanted).format(line).use_utc();
    let (logger, place) = match &gateway.diagnostics {
        None => (logger.log_to_stderr(), "standard error".to_owned()),
        Some(path) => {
            let place = format!("[gateway] diagnostics = {:?}", path.display().to_string());
            let spec = FileSpec::try_from(path)
                .map_err(|error| Failure::new(CANNOT_CREATE, format!("{place}: {error}")))?;
            (logger.log_to_file(spec).append(), place)
        }
    };
    logger.start().map_err(|error| Failure::new(CANNOT_CREATE, format!("{place}: {error}")))
}

/// `2026-11-30T23:04:02.123Z WARN  text`
fn line(out: &mut dyn Write, now: &mut DeferredNow, record: &Record) -> io::Result<()> {
    let time = now.now_utc_owned().format("%Y-%m-%dT%H:%M:%S%.3fZ");
    write!(out, "{time} {:5} {}", record.level(), record.args())
}
