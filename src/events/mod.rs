//! Events on their way from devices and clients to subscribers.
//!
//! [`Hub::publish`] numbers an event, keeps it in a ring for [`Hub::replay`] and puts it into the queue of the
//! thread that owns the XPUB socket (`server/events.rs`). It never waits for a subscriber.

mod heard;
mod hub;
mod ring;

pub use heard::Heard;
pub use hub::{Hub, Published, Replay, Stored};
