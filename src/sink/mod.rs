//! journal → text or JSON files with rotation.
mod clock;
mod family;
pub mod format;
mod path;
mod pattern;
