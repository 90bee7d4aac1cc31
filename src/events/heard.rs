//! Which topics somebody has subscribed to.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The subscriptions in force, as the XPUB socket tells of them.
#[derive(Debug, Default)]
pub struct Heard {
    prefixes: RwLock<HashSet<Vec<u8>>>,
    changes: AtomicU64,
}

impl Heard {
    /// Notes that a prefix has a first subscriber or lost its last.
    pub fn change(&self, prefix: &[u8], subscribed: bool) {
        let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
        if subscribed {
            prefixes.insert(prefix.to_vec());
        } else {
            prefixes.remove(prefix);
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Whether anybody hears this topic by a subscription that is not to everything.
    pub fn by_name(&self, topic: &str) -> bool {
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        !prefixes.is_empty() && (1..=topic.len()).any(|len| prefixes.contains(&topic.as_bytes()[..len]))
    }

    /// Whether anybody hears a topic that begins so, by a subscription that is not to everything.
    pub fn below(&self, start: &str) -> bool {
        let start = start.as_bytes();
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        prefixes
            .iter()
            .any(|prefix| !prefix.is_empty() && (prefix.starts_with(start) || start.starts_with(prefix)))
    }

    /// Another number after each change, so that what was found out may be kept until then.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// How many different subscriptions there are.
    pub fn count(&self) -> usize {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hear_what_begins_with_them() {
        let heard = Heard::default();
        assert!(!heard.by_name("log/a/info/"));
        heard.change(b"", true);
        assert!(!heard.by_name("log/a/info/") && !heard.below("log/"));
        let before = heard.changes();
        heard.change(b"log/a/", true);
        assert_ne!(before, heard.changes());
        assert!(heard.by_name("log/a/info/") && !heard.by_name("log/ab/info/") && heard.below("log/"));
        heard.change(b"log/a/", false);
        heard.change(b"lo", true);
        assert!(heard.by_name("log/ab/info/") && heard.below("log/"));
        assert_eq!(heard.count(), 2);
    }
}
