//! Signals as flags: the first TERM or INT asks for the end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::exit::{Failure, SOFTWARE};

/// What signals have asked for. On Windows Ctrl-C is INT.
pub struct Signals {
    stop: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers for the whole process.
    pub fn install() -> Result<Signals, Failure> {
        let signals = Signals { stop: Arc::default(), hangup: Arc::default() };
        signals.register().map_err(|error| Failure::new(SOFTWARE, format!("signals: {error}")))?;
        Ok(signals)
    }

    fn register(&self) -> std::io::Result<()> {
        for signal in [SIGTERM, SIGINT] {
            // The first action sees the flag as it was before this signal, so it takes effect with the second.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.stop))?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        #[cfg(unix)]
        flag::register(signal_hook::consts::SIGHUP, Arc::clone(&self.hangup))?;
        Ok(())
    }

    /// Whether the end was asked for.
    pub fn stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether a hang-up came since the last call. Never on Windows.
    pub fn take_hangup(&self) -> bool {
        self.hangup.swap(false, Ordering::AcqRel)
    }
}
