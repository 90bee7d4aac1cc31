//! How the program ends: the codes of sysexits.h, so that service managers and scripts can tell.

use crate::error::{Error, Kind};

/// Done.
pub const OK: u8 = 0;
/// The gateway was asked and refused, or something is amiss that has no code of its own.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// No gateway answers; or a port or the lock is taken by another.
pub const UNAVAILABLE: u8 = 69;
/// A defect of hwgate.
pub const SOFTWARE: u8 = 70;
/// A file or folder cannot be made.
pub const CANNOT_CREATE: u8 = 73;
/// The settings are wrong.
pub const CONFIG: u8 = 78;

/// The codes, for `--help`.
pub const HELP: &str = "Exit codes: 0 done, 1 refused, 64 usage, 69 no gateway answers or port or lock taken, \
                        70 defect, 73 cannot create, 78 settings";

/// Why the program ends with another code than 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say on standard error; empty says nothing.
    pub message: String,
}

impl Failure {
    /// With a code and a sentence of its own.
    pub fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// The settings could not be read.
    pub fn config(error: &Error) -> Failure {
        Failure::new(CONFIG, error.to_string())
    }

    /// The server did not start with settings that were right by themselves.
    pub fn start(error: &Error) -> Failure {
        let code = match error.kind() {
            Kind::AddrInUse | Kind::Busy => UNAVAILABLE,
            Kind::InvalidArgument | Kind::NotEnabled | Kind::NoDevice => CONFIG,
            Kind::Permission | Kind::NotFound | Kind::Io | Kind::DiskFull => CANNOT_CREATE,
            _ => SOFTWARE,
        };
        Failure::new(code, error.to_string())
    }
}

/// A request to a gateway failed.
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            Kind::InvalidArgument => USAGE,
            Kind::NotConnected | Kind::Disconnected | Kind::Timeout | Kind::ShuttingDown => UNAVAILABLE,
            Kind::Internal => SOFTWARE,
            _ => FAILED,
        };
        Failure::new(code, error.to_string())
    }
}
