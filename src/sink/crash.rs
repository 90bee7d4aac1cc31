//! Where a test may end the writing as `kill -9` would: between any two steps, and inside of a write.

#[cfg(not(test))]
pub(super) fn point() {}

#[cfg(not(test))]
pub(super) fn torn(bytes: &[u8]) -> &[u8] {
    bytes
}

#[cfg(test)]
pub(super) use armed::{arm, disarm, point, torn};

#[cfg(test)]
mod armed {
    use std::cell::Cell;

    thread_local! {
        /// How many points are passed before the one that ends it.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// What the unwinding carries.
    struct Crash;

    pub(in crate::sink) fn arm(points: u32) {
        LEFT.set(Some(points));
    }

    pub(in crate::sink) fn disarm() {
        LEFT.set(None);
    }

    fn is_due() -> bool {
        let left = LEFT.get();
        LEFT.set(left.map(|left| left.saturating_sub(1)));
        left == Some(0)
    }

    pub(in crate::sink) fn point() {
        if is_due() {
            std::panic::resume_unwind(Box::new(Crash));
        }
    }

    /// The part of `bytes` that is still written; the next point is the end.
    pub(in crate::sink) fn torn(bytes: &[u8]) -> &[u8] {
        if is_due() { &bytes[..bytes.len() * 2 / 3] } else { bytes }
    }
}
