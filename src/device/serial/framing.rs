//! Bytes as they are read become frames.

use std::time::Duration;

use memchr::{memchr2, memmem::Finder};

use crate::config::serial::{Framing, LineEnd};

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

impl Frame {
    fn whole(bytes: Vec<u8>) -> Frame {
        Frame { bytes, ..Frame::default() }
    }
}

/// Cuts a stream of bytes into frames. The frames do not depend on how the bytes came in pieces, except where frames
/// end by silence.
///
/// An empty line, or nothing between two delimiters, is an empty frame. Never waits; holds at most the longest frame
/// and a delimiter.
pub struct Framer {
    cut: Cut,
    /// What has come of the next frame and, while `skipping`, of what may be its end.
    held: Vec<u8>,
    /// The frame has come out truncated, its end has not come.
    skipping: bool,
    /// The last byte was a CR that ended a line: an LF after it belongs to it.
    after_cr: bool,
    skipped: u64,
}

enum Cut {
    Ends { end: End, max: usize, timeout: Duration },
    Fixed { size: usize, timeout: Duration },
    Raw { gap: Duration, max: usize },
}

/// What ends a frame.
enum End {
    /// CR, LF or CRLF.
    AnyLine,
    Bytes(Box<Finder<'static>>),
}

impl Framer {
    /// At the beginning of a frame.
    pub fn new(framing: &Framing) -> Framer {
        let bytes = |bytes: &[u8]| End::Bytes(Box::new(Finder::new(bytes).into_owned()));
        // Sizes of 0 are refused where settings are read; here they would never end.
        let cut = match framing {
            Framing::Line { end, max, timeout } => {
                let end = match end {
                    LineEnd::Any => End::AnyLine,
                    LineEnd::Lf => bytes(b"\n"),
                    LineEnd::Cr => bytes(b"\r"),
                    LineEnd::CrLf => bytes(b"\r\n"),
                };
                Cut::Ends { end, max: (*max).max(1), timeout: *timeout }
            }
            Framing::Delimiter { delimiter, max, timeout } if !delimiter.is_empty() => {
                Cut::Ends { end: bytes(delimiter), max: (*max).max(1), timeout: *timeout }
            }
            Framing::Delimiter { max, timeout, .. } => Cut::Raw { gap: *timeout, max: (*max).max(1) },
            Framing::Fixed { size, timeout } => Cut::Fixed { size: (*size).max(1), timeout: *timeout },
            Framing::Raw { gap, max } => Cut::Raw { gap: *gap, max: (*max).max(1) },
        };
        Framer { cut, held: Vec::new(), skipping: false, after_cr: false, skipped: 0 }
    }

    /// Takes bytes and adds the frames that they complete to `frames`.
    pub fn push(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) {
        let Framer { cut, held, skipping, after_cr, skipped } = self;
        match cut {
            Cut::Ends { end, max, .. } => {
                let max = *max;
                ended(Ended { end, max, held, skipping, after_cr, skipped, frames }, bytes);
            }
            Cut::Fixed { size, .. } => sized(*size, held, bytes, frames),
            Cut::Raw { gap, max } => {
                sized(*max, held, bytes, frames);
                if gap.is_zero() && !held.is_empty() {
                    frames.push(Frame::whole(std::mem::take(held)));
                }
            }
        }
    }

    /// How long after the last byte what there is becomes a frame, see [`Framer::flush`]; none when nothing waits.
    pub fn timeout(&self) -> Option<Duration> {
        let (Cut::Ends { timeout, .. } | Cut::Fixed { timeout, .. } | Cut::Raw { gap: timeout, .. }) =
            &self.cut;
        (self.skipping || !self.held.is_empty()).then_some(*timeout)
    }

    /// Ends the frame that has begun, if one has. `partial`, unless frames end by silence.
    ///
    /// What comes next begins a new frame, with one exception: an LF after a CR that ended a line still belongs to
    /// that end. Where a truncated frame has come out already nothing does; the next byte begins a frame.
    pub fn flush(&mut self) -> Option<Frame> {
        let mut bytes = std::mem::take(&mut self.held);
        if std::mem::take(&mut self.skipping) {
            self.skipped += bytes.len() as u64;
            return None;
        }
        if bytes.is_empty() {
            return None;
        }
        let partial = !matches!(self.cut, Cut::Raw { .. });
        let max = match &self.cut {
            Cut::Ends { max, .. } => *max,
            _ => bytes.len(),
        };
        // Bytes beyond the longest frame that might have become its end.
        let beyond = bytes.len().saturating_sub(max);
        bytes.truncate(max);
        self.skipped += beyond as u64;
        Some(Frame { bytes, truncated: beyond > 0, partial })
    }

    /// Bytes passed over, since they were beyond the longest frame.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// Frames of `size` bytes; the rest is held.
fn sized(size: usize, held: &mut Vec<u8>, mut bytes: &[u8], frames: &mut Vec<Frame>) {
    if !held.is_empty() {
        let (more, rest) = bytes.split_at(bytes.len().min(size - held.len()));
        held.extend_from_slice(more);
        bytes = rest;
        if held.len() < size {
            return;
        }
        frames.push(Frame::whole(std::mem::take(held)));
    }
    let whole = bytes.chunks_exact(size);
    held.extend_from_slice(whole.remainder());
    frames.extend(whole.map(|frame| Frame::whole(frame.to_vec())));
}

/// The parts of a [`Framer`] whose frames have an end.
struct Ended<'a> {
    end: &'a End,
    max: usize,
    held: &'a mut Vec<u8>,
    skipping: &'a mut bool,
    after_cr: &'a mut bool,
    skipped: &'a mut u64,
    frames: &'a mut Vec<Frame>,
}

fn ended(mut this: Ended<'_>, mut bytes: &[u8]) {
    while let Some(first) = bytes.first() {
        if std::mem::take(this.after_cr) && *first == b'\n' {
            bytes = &bytes[1..];
            continue;
        }
        let Some(at) = this.end.find(this.held, bytes) else {
            return if *this.skipping { this.pass_over(bytes) } else { this.hold(bytes) };
        };
        let after = at + this.end.len() - this.held.len();
        *this.after_cr = matches!(this.end, End::AnyLine) && bytes[after - 1] == b'\r';
        this.complete(at, bytes);
        bytes = &bytes[after..];
    }
}

impl Ended<'_> {
    /// An end begins at `at` of `held` and `bytes` together.
    fn complete(&mut self, at: usize, bytes: &[u8]) {
        if std::mem::take(self.skipping) {
            *self.skipped += at as u64;
            return self.held.clear();
        }
        let length = at.min(self.max);
        let mut frame = std::mem::take(self.held);
        let of_bytes = length.saturating_sub(frame.len());
        frame.truncate(length);
        frame.extend_from_slice(&bytes[..of_bytes]);
        *self.skipped += (at - length) as u64;
        self.frames.push(Frame { bytes: frame, truncated: at > length, partial: false });
    }

    /// No end is in `held` and `bytes`.
    fn hold(&mut self, bytes: &[u8]) {
        // With so many no end can begin within the longest frame.
        let enough = self.max + self.end.len();
        let (bytes, beyond) = bytes.split_at(bytes.len().min(enough - self.held.len()));
        self.held.extend_from_slice(bytes);
        if self.held.len() <= self.max || self.may_end() {
            return;
        }
        let rest = self.held.split_off(self.max);
        let bytes = std::mem::replace(self.held, rest);
        self.frames.push(Frame { bytes, truncated: true, partial: false });
        *self.skipping = true;
        self.pass_over(beyond);
    }

    /// Whether `held`, longer than the longest frame, may still turn out to be that and the first bytes of an end.
    fn may_end(&self) -> bool {
        let End::Bytes(finder) = self.end else { return false };
        let first = (self.held.len() + 1).saturating_sub(finder.needle().len());
        (first..=self.max).any(|at| finder.needle().starts_with(&self.held[at..]))
    }

    /// No end is in `held` and `bytes`, and all is beyond the longest frame. Keeps what may be the begin of the end.
    fn pass_over(&mut self, bytes: &[u8]) {
        let all = self.held.len() + bytes.len();
        let keep = all.min(self.end.len() - 1);
        *self.skipped += (all - keep) as u64;
        self.held.drain(..self.held.len() - keep.saturating_sub(bytes.len()).min(self.held.len()));
        self.held.extend_from_slice(&bytes[bytes.len() - keep.min(bytes.len())..]);
    }
}

impl End {
    fn len(&self) -> usize {
        match self {
            End::AnyLine => 1,
            End::Bytes(finder) => finder.needle().len(),
        }
    }

    /// Where the first end begins in `held` and `bytes` together; `held` has no whole one.
    fn find(&self, held: &[u8], bytes: &[u8]) -> Option<usize> {
        let finder = match self {
            End::AnyLine => return memchr2(b'\r', b'\n', bytes).map(|at| held.len() + at),
            End::Bytes(finder) => finder,
        };
        // The seam by itself, so that what is held is not searched again with each push.
        let reach = finder.needle().len() - 1;
        let before = &held[held.len() - reach.min(held.len())..];
        if !before.is_empty() {
            let seam = [before, &bytes[..reach.min(bytes.len())]].concat();
            if let Some(at) = finder.find(&seam).filter(|at| *at < before.len()) {
                return Some(held.len() - before.len() + at);
            }
        }
        finder.find(bytes).map(|at| held.len() + at)
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
