//! The client's side.
//!
//! [`Client`] is for programs: a connection that lasts, with requests and subscriptions. [`Requester`] and [`Pusher`] are for
//! commands that ask or log once and end, [`Follower`] for who watches a forwarder.
//!
//! One I/O thread (`io.rs`) owns the sockets of a [`Client`]; handles give it work and wake it.
//!
//! | file | what is in it |
//! |---|---|
//! | `handle.rs`, `subscription.rs`, `options.rs` | what programs hold |
//! | `shared.rs` | between them and the I/O thread |
//! | `io.rs`, `dial.rs`, `hello.rs` | the I/O thread: finding a gateway, noticing that it is gone |
//! | `calls.rs` | requests without a reply |
//! | `feed.rs`, `order.rs`, `queue.rs` | subscriptions: their socket; order, repeats and gaps; what waits for the reader |
//! | `link.rs` | a socket that knows whether it is connected |

mod calls;
mod dial;
mod feed;
mod follower;
mod handle;
mod hello;
mod io;
mod link;
mod options;
mod order;
pub mod push;
mod queue;
pub mod request;
mod shared;
mod subscription;

pub use crate::events::Published;
pub use follower::{Follower, Passed};
pub use handle::Client;
pub use hello::Hello;
pub use options::{Options, SubscribeOptions};
pub use push::Pusher;
pub use request::Requester;
pub use subscription::{Message, Subscription};

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
