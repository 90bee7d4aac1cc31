//! Bytes as they are read become frames.

use std::time::Duration;

use crate::config::serial::Framing;

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes, without what ended it.
    pub bytes: Vec<u8>,
    /// It was longer than allowed; the rest is passed over.
    pub truncated: bool,
    /// Its end never came: a time-out or a hang-up cut it.
    pub partial: bool,
}

/// Cuts a stream of bytes into frames. The frames do not depend on how the bytes came in pieces.
pub struct Framer {
    _framing: Framing,
}

impl Framer {
    /// At the beginning of a frame.
    pub fn new(framing: &Framing) -> Framer {
        Framer { _framing: framing.clone() }
    }

    /// Takes bytes and adds the frames that they complete to `frames`.
    pub fn push(&mut self, _bytes: &[u8], _frames: &mut Vec<Frame>) {}

    /// How long after the last byte what there is becomes a frame, see [`Framer::flush`]; none when nothing waits.
    pub fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Ends the frame that has begun, if one has. `partial`, unless frames end by silence.
    pub fn flush(&mut self) -> Option<Frame> {
        None
    }

    /// Bytes passed over, since they were beyond the longest frame.
    pub fn skipped(&self) -> u64 {
        0
    }
}
