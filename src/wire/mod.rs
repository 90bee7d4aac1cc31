//! What crosses a socket or reaches the disk: levels, text, records, events, JSON-RPC, endpoints.

pub mod data;
pub mod endpoint;
pub mod event;
pub mod level;
pub(crate) mod msgpack;
mod params;
pub mod record;
pub mod rpc;
pub mod text;

pub use endpoint::Endpoint;
pub use event::Event;
pub use level::Level;
pub use msgpack::DecodeError;
pub use record::Record;
pub use text::TextRule;

/// The known name that a misspelt one probably stands for; none when all are far from it.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes time in proportion to both lengths, and the name may come from a peer.
    if name.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name.to_lowercase(), candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
