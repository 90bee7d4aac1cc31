//! The client's side: one request and its reply, and plain log messages.

mod link;
pub mod push;
pub mod request;

pub use push::Pusher;
pub use request::Requester;

use crate::error::{Error, Result};
use crate::wire::Endpoint;

/// Where clients find a gateway if nobody says otherwise.
pub const DEFAULT_URL: &str = "tcp://127.0.0.1:10003";

/// The one rule of clients in every language: the parameter, else `HWGATE_URL`, else
/// [`DEFAULT_URL`]. An empty variable counts as none.
///
/// INVALID_ARGUMENT for what cannot be connected to.
pub fn url(parameter: Option<&str>) -> Result<Endpoint> {
    match parameter {
        Some(url) => Endpoint::connect(url),
        None => match std::env::var("HWGATE_URL").ok().filter(|url| !url.is_empty()) {
            Some(url) => Endpoint::connect(&url)
                .map_err(|error| Error::new(error.kind(), format!("HWGATE_URL: {}", error.message()))),
            None => Endpoint::connect(DEFAULT_URL),
        },
    }
}
