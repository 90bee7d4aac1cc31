//! Requests that come again: a `key` names a request, and whoever sends it again gets the first one's answer.
//!
//! A client whose connection broke cannot know whether a request was carried out. It sends it again with the same
//! key; also while the first still runs, nothing is done twice.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::commands::To;
use crate::wire::rpc::{Fault, Params};

/// Answers that are remembered.
const ENTRIES: usize = 10_000;
/// Bytes of answers that are remembered, about.
const BYTES: usize = 32 << 20;
/// How long an answer is remembered.
const AGE: Duration = Duration::from_secs(60);

/// The requests with a key of the last minute.
#[derive(Default)]
pub(super) struct Repeats {
    known: HashMap<String, Known>,
    /// Answered ones, oldest first.
    answered: VecDeque<(Instant, String)>,
    bytes: usize,
}

struct Known {
    /// Of method and parameters, so that a key used for something else is found out.
    fingerprint: u64,
    state: State,
}

enum State {
    /// Who else wants the answer.
    Running(Vec<To>),
    Answered {
        answer: Result<Value, Fault>,
        bytes: usize,
    },
}

/// What is known of a request.
pub(super) enum Seen {
    /// It is the first: do it.
    First,
    /// It runs; the answer will go to this one too.
    Running,
    /// This was the answer.
    Answered(Result<Value, Fault>),
    /// The key was used for another request.
    Misused,
}

impl Repeats {
    /// Looks up a request, and remembers it.
    pub fn see(&mut self, key: &str, method: &str, params: &Params, to: &To) -> Seen {
        self.forget(Instant::now());
        let mut hasher = DefaultHasher::new();
        (method, params.text()).hash(&mut hasher);
        let fingerprint = hasher.finish();
        match self.known.entry(key.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(Known { fingerprint, state: State::Running(Vec::new()) });
                Seen::First
            }
            Entry::Occupied(entry) if entry.get().fingerprint != fingerprint => Seen::Misused,
            Entry::Occupied(mut entry) => match &mut entry.get_mut().state {
                State::Running(others) => {
                    others.push(to.clone());
                    Seen::Running
                }
                State::Answered { answer, .. } => Seen::Answered(answer.clone()),
            },
        }
    }

    /// Remembers an answer, of about so many bytes, and tells who else waits for it.
    pub fn answered(&mut self, key: &str, answer: &Result<Value, Fault>, bytes: usize) -> Vec<To> {
        let Some(known) = self.known.get_mut(key) else { return Vec::new() };
        let state = State::Answered { answer: answer.clone(), bytes };
        let others = match std::mem::replace(&mut known.state, state) {
            State::Running(others) => others,
            State::Answered { .. } => Vec::new(),
        };
        self.bytes += bytes;
        self.answered.push_back((Instant::now(), key.to_owned()));
        others
    }

    fn forget(&mut self, now: Instant) {
        while let Some((at, _)) = self.answered.front()
            && (now.duration_since(*at) >= AGE || self.answered.len() >= ENTRIES || self.bytes > BYTES)
        {
            let Some((_, key)) = self.answered.pop_front() else { break };
            if let Some(Known { state: State::Answered { bytes, .. }, .. }) = self.known.remove(&key) {
                self.bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rpc;
    use serde_json::json;

    fn to(id: u64) -> To {
        To { envelope: rpc::split(vec![b"peer".to_vec(), b"{}".to_vec()]).0, id: json!(id), key: None }
    }

    fn params(value: Value) -> Params {
        Params::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_repeat_gets_the_first_ones_answer() {
        let mut repeats = Repeats::default();
        let some = params(json!({"a": 1}));
        assert!(matches!(repeats.see("k", "m", &some, &to(1)), Seen::First));
        assert!(matches!(repeats.see("k", "m", &some, &to(2)), Seen::Running));
        assert!(matches!(repeats.see("k", "m", &params(json!({"a": 2})), &to(3)), Seen::Misused));
        assert!(matches!(repeats.see("k", "n", &some, &to(3)), Seen::Misused));
        let others = repeats.answered("k", &Ok(json!(7)), 1);
        assert_eq!(others.iter().map(|to| to.id.clone()).collect::<Vec<_>>(), [json!(2)]);
        let Seen::Answered(answer) = repeats.see("k", "m", &some, &to(4)) else { panic!() };
        assert_eq!(answer, Ok(json!(7)));
        repeats.forget(Instant::now() + AGE);
        assert!(matches!(repeats.see("k", "m", &some, &to(5)), Seen::First));
    }

    #[test]
    fn what_is_remembered_is_bounded_by_number_and_bytes() {
        let mut repeats = Repeats::default();
        let none = Params::default();
        for n in 0..ENTRIES + 100 {
            repeats.see(&n.to_string(), "m", &none, &to(1));
            repeats.answered(&n.to_string(), &Ok(Value::Null), 1);
        }
        assert!(repeats.known.len() <= ENTRIES && repeats.answered.len() <= ENTRIES);
        for n in 0..10 {
            repeats.see(&format!("big{n}"), "m", &none, &to(1));
            repeats.answered(&format!("big{n}"), &Ok(Value::Null), BYTES / 2);
        }
        repeats.forget(Instant::now());
        assert!(repeats.bytes <= BYTES && repeats.known.len() < 10);
    }
}
