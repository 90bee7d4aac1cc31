//! Who may write to a device: one holder for a time, others wait their turn.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Reply;
use crate::{Error, Kind, Result};

/// Claims that may wait for one device.
const WAITING: usize = 100;

/// The lease of one device. Nothing here waits; [`Lease::tick`] does what is due.
#[derive(Default)]
pub struct Lease {
    held: Option<Held>,
    waiting: VecDeque<Claim>,
}

struct Held {
    token: String,
    owner: String,
    until: Instant,
}

/// A claim of a device.
pub struct Claim {
    /// Who claims, shown to others.
    pub owner: String,
    /// How long the lease lasts unless it is renewed.
    pub ttl: Duration,
    /// Until when to wait while another holds it.
    pub until: Instant,
    /// Gets the lease, or LEASED.
    pub reply: Reply,
}

/// What became of a lease, for those who listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `owner` has it.
    Claimed {
        /// The new holder.
        owner: String,
    },
    /// `owner` gave it back.
    Released {
        /// The former holder.
        owner: String,
    },
    /// `owner` did not renew it in time.
    Expired {
        /// The former holder.
        owner: String,
    },
    /// `by` would like to have it, too.
    Asked {
        /// The holder.
        owner: String,
        /// Who asks.
        by: String,
    },
}

/// What others may know of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The holder.
    pub owner: String,
    /// When it ends unless it is renewed.
    pub until: Instant,
    /// How many wait for it.
    pub waiting: usize,
}

impl Known {
    /// `{"owner", "expires_in_ms", "waiting"}`
    pub fn to_json(&self) -> Value {
        let left = self.until.saturating_duration_since(Instant::now()).as_millis() as u64;
        json!({"owner": self.owner, "expires_in_ms": left, "waiting": self.waiting})
    }
}

impl Lease {
    /// Gives the lease to who claims it, or lets the claim wait, or answers LEASED. Whoever holds it hears of that.
    pub fn claim(&mut self, claim: Claim, now: Instant) -> Change {
        let Some(held) = &self.held else { return self.give(claim, now) };
        let asked = Change::Asked { owner: held.owner.clone(), by: claim.owner.clone() };
        if claim.until <= now || self.waiting.len() >= WAITING {
            claim.reply.answer(Err(held.refuse()));
        } else {
            self.waiting.push_back(claim);
        }
        asked
    }

    fn give(&mut self, claim: Claim, now: Instant) -> Change {
        let Claim { owner, ttl, reply, .. } = claim;
        let token = uuid::Uuid::new_v4().to_string();
        reply.answer(Ok(json!({"lease": token, "owner": owner, "ttl_ms": ttl.as_millis() as u64})));
        self.held = Some(Held { token, owner: owner.clone(), until: now + ttl });
        Change::Claimed { owner }
    }

    /// Makes the lease last for `ttl` from now. NOT_FOUND for one that is not held any more.
    pub fn renew(&mut self, token: &str, ttl: Duration, now: Instant) -> Result<Value> {
        let held = self.held_by(token)?;
        held.until = now + ttl;
        Ok(json!({"lease": token, "owner": held.owner, "ttl_ms": ttl.as_millis() as u64}))
    }

    /// Gives it back; whoever waits gets it. NOT_FOUND for one that is not held any more.
    pub fn release(&mut self, token: &str, now: Instant) -> Result<Vec<Change>> {
        let owner = std::mem::take(&mut self.held_by(token)?.owner);
        self.held = None;
        let mut changes = vec![Change::Released { owner }];
        changes.extend(self.next(now));
        Ok(changes)
    }

    fn held_by(&mut self, token: &str) -> Result<&mut Held> {
        let text = "this lease is not held any more; claim a new one";
        self.held.as_mut().filter(|held| held.token == token).ok_or_else(|| Error::new(Kind::NotFound, text))
    }

    fn next(&mut self, now: Instant) -> Option<Change> {
        let claim = self.waiting.pop_front()?;
        Some(self.give(claim, now))
    }

    /// Ends a lease that was not renewed, and claims that have waited long enough.
    pub fn tick(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        if let Some(held) = self.held.take_if(|held| held.until <= now) {
            changes.push(Change::Expired { owner: held.owner });
            changes.extend(self.next(now));
        }
        if let Some(held) = &self.held {
            let (over, waiting): (VecDeque<Claim>, _) =
                self.waiting.drain(..).partition(|claim| claim.until <= now);
            over.into_iter().for_each(|claim| claim.reply.answer(Err(held.refuse())));
            self.waiting = waiting;
        }
        changes
    }

    /// When [`Lease::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let held = self.held.as_ref().map(|held| held.until);
        held.into_iter().chain(self.waiting.iter().map(|claim| claim.until)).min()
    }

    /// Whether who shows this token, or none, may write now; gives the holder's name where it is the holder.
    ///
    /// LEASED where another holds it, or where the token's own time is over.
    pub fn check(&self, token: Option<&str>) -> Result<Option<&str>> {
        match (&self.held, token) {
            (None, None) => Ok(None),
            (Some(held), Some(token)) if held.token == token => Ok(Some(&held.owner)),
            (Some(held), _) => Err(held.refuse()),
            (None, Some(_)) => Err(Error::new(Kind::Leased, "the lease is over; claim a new one")),
        }
    }

    /// Ends it all; whoever waits gets this error.
    pub fn end(&mut self, error: &Error) {
        self.held = None;
        self.waiting.drain(..).for_each(|claim| claim.reply.answer(Err(error.clone())));
    }

    /// What others may know.
    pub fn known(&self) -> Option<Known> {
        let held = self.held.as_ref()?;
        Some(Known { owner: held.owner.clone(), until: held.until, waiting: self.waiting.len() })
    }
}

impl Held {
    fn refuse(&self) -> Error {
        let owner = if self.owner.is_empty() { "another client" } else { &self.owner };
        Error::new(Kind::Leased, format!("{owner} holds the lease; claim it with wait_ms, or ask its owner"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn claim(
        owner: &str,
        until: Instant,
    ) -> (Claim, impl Fn() -> Option<std::result::Result<String, Kind>> + use<>) {
        let (reply, answer) = Reply::channel();
        let token = move || {
            let answer = answer.try_recv().ok()?;
            Some(answer.map(|v| v["lease"].as_str().unwrap().to_owned()).map_err(|e| e.kind()))
        };
        (Claim { owner: owner.into(), ttl: TTL, until, reply }, token)
    }

    fn claimed(owner: &str) -> Change {
        Change::Claimed { owner: owner.into() }
    }

    #[test]
    fn one_holds_it_the_others_wait_their_turn() {
        let (mut lease, now) = (Lease::default(), Instant::now());
        assert!(lease.check(None).is_ok());
        assert_eq!(lease.check(Some("old")).unwrap_err().kind(), Kind::Leased);
        let (first, token) = claim("a", now);
        assert_eq!(lease.claim(first, now), claimed("a"));
        let token = token().unwrap().unwrap();
        assert_eq!(lease.check(Some(&token)), Ok(Some("a")));
        assert_eq!(lease.check(None).unwrap_err().kind(), Kind::Leased);

        let (at_once, answer) = claim("b", now);
        assert_eq!(lease.claim(at_once, now), Change::Asked { owner: "a".into(), by: "b".into() });
        assert_eq!(answer(), Some(Err(Kind::Leased)));
        let (short, short_answer) = claim("c", now + TTL / 10);
        let (long, long_answer) = claim("d", now + TTL * 9);
        lease.claim(short, now);
        lease.claim(long, now);
        assert_eq!(lease.deadline(), Some(now + TTL / 10));
        assert_eq!(lease.tick(now + TTL / 5), []);
        assert_eq!((short_answer(), long_answer()), (Some(Err(Kind::Leased)), None));

        lease.renew(&token, TTL, now + TTL / 2).unwrap();
        assert_eq!(lease.tick(now + TTL), []);
        let later = now + TTL * 2;
        assert_eq!(lease.tick(later), [Change::Expired { owner: "a".into() }, claimed("d")]);
        assert_eq!(lease.renew(&token, TTL, later).unwrap_err().kind(), Kind::NotFound);
        let token = long_answer().unwrap().unwrap();
        assert_eq!(lease.known().unwrap().waiting, 0);
        assert_eq!(lease.release(&token, later).unwrap(), [Change::Released { owner: "d".into() }]);
        assert_eq!(lease.release(&token, later).unwrap_err().kind(), Kind::NotFound);
        assert!(lease.check(None).is_ok() && lease.deadline().is_none());
    }

    #[test]
    fn not_too_many_wait() {
        let (mut lease, now) = (Lease::default(), Instant::now());
        let answers: Vec<_> = (0..WAITING + 2)
            .map(|n| {
                let (claim, answer) = claim(&n.to_string(), now + TTL);
                lease.claim(claim, now);
                answer
            })
            .collect();
        assert!(answers[0]().unwrap().is_ok());
        assert_eq!(answers[WAITING](), None);
        assert_eq!(answers[WAITING + 1](), Some(Err(Kind::Leased)));
        lease.end(&Error::new(Kind::Closed, "closed"));
        assert_eq!(answers[1](), Some(Err(Kind::Closed)));
    }
}
