//! What crosses a socket or reaches the disk: levels, text, records, JSON-RPC.

pub mod level;
pub(crate) mod msgpack;
pub mod record;

pub mod text;

pub use level::Level;
pub use msgpack::DecodeError;
pub use record::Record;
pub use text::TextRule;
