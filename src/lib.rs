//! hwgate: a gateway between hardware, scripts and log files.
#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod config;
pub mod device;
pub mod error;
pub mod events;
pub mod journal;
pub mod server;
pub mod sink;
mod throttle;
mod util;
mod wake;
pub mod wire;

pub use error::{Error, Kind, Result};
pub use wire::Level;
