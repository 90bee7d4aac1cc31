//! What crosses a socket or reaches the disk: levels, text, records, JSON-RPC.

pub mod level;
pub mod record;

pub mod text;

pub use level::Level;
pub use record::Record;
pub use text::TextRule;
