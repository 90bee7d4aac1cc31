//! `hwgate run`: the gateway, from settings to a clean end.

use std::thread;
use std::time::Duration;

use crate::cli::exit::{FAILED, Failure, SOFTWARE};
use crate::cli::logger;
use crate::cli::output::{complain, say};
use crate::cli::settings::Settings;
use crate::cli::signals::Signals;
use crate::cli::supervisor::Supervisor;
use crate::{Kind, server};

/// How long the end may take.
const GRACE: Duration = Duration::from_secs(5);
/// How soon a signal is acted on.
const TICK: Duration = Duration::from_millis(100);

/// Runs until a signal or a `shutdown` request. Standard output gets one line for each endpoint:
/// name, space, real endpoint.
pub fn run(settings: &Settings) -> Result<(), Failure> {
    let loaded = settings.load()?;
    let log = logger::start(&loaded.config.gateway)?;
    raise_descriptor_limit();
    // Before the server, so that a signal during a long recovery is not the default's sudden end.
    let signals = Signals::install()?;
    match &loaded.config.file {
        Some(file) => log::info!("hwgate {} starts; settings: {}", env!("CARGO_PKG_VERSION"), file.display()),
        None => log::info!("hwgate {} starts", env!("CARGO_PKG_VERSION")),
    }
    loaded.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let server = server::start(loaded.config).map_err(|error| Failure::start(&error))?;
    for (name, endpoint) in server.endpoints() {
        say(&format!("{name} {endpoint}"));
    }
    let mut supervisor = Supervisor::new();
    supervisor.ready();
    while !signals.stop() && !server.wait(TICK) {
        if signals.take_hangup() {
            supervisor.reloading();
            match server.reload() {
                Ok(text) => log::info!("reload: {text}"),
                Err(error) => log::error!("reload: the settings stay as they were: {error}"),
            }
            if let Err(error) = server.reopen().map_err(|error| error.to_string()) {
                log::error!("reopen: {error}");
            }
            // Standard error has no file to open anew, which the logger calls an error.
            let _ = log.reopen_output();
            supervisor.ready();
        }
        supervisor.beat(|| server.healthy());
    }
    supervisor.stopping();
    log::info!("hwgate stops");
    watch_the_end();
    server.stop(GRACE).map_err(|error| {
        let code = if error.kind() == Kind::Internal { SOFTWARE } else { FAILED };
        Failure::new(code, error.to_string())
    })?;
    log::info!("hwgate has stopped");
    log.flush();
    Ok(())
}

/// Each connection takes a descriptor, and 1,024, which many systems give, are used up by a thousand idle
/// peers; then nobody else gets in. The system allows every process to raise it to its hard limit.
fn raise_descriptor_limit() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        log::warn!("the limit of open files stays as it is (ulimit -n): {error}");
    }
}

/// Ends the process if stopping hangs: a service manager should not have to kill it.
fn watch_the_end() {
    let watch = move || {
        thread::sleep(GRACE + Duration::from_secs(1));
        complain("not stopped in time; ends now");
        std::process::exit(i32::from(SOFTWARE));
    };
    // Without a thread there is no watch, which is no reason not to stop.
    let _ = thread::Builder::new().name("end".to_owned()).spawn(watch);
}
