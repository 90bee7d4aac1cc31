//! Requests that have no reply yet: which wait for a gateway, which are out, and what becomes of them.
//!
//! No socket here: what is to be sent is given to a closure.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::wire::Endpoint;
use crate::{Error, Kind, Result};

/// Requests that may be out at once.
const MAX_OUT: usize = 10_000;
/// A gateway remembers answers by `key` for 60 s. A request is sent again only while its answer cannot have been
/// forgotten.
const KEY_AGE: Duration = Duration::from_secs(45);

/// Gets the reply. Runs on the I/O thread and must not block.
pub(super) type Reply = Box<dyn FnOnce(Result<Value>) + Send>;

/// One request.
pub(super) struct Call {
    /// Not used again in this client.
    pub id: u64,
    pub method: String,
    /// What is sent, also the second time.
    pub frame: Vec<u8>,
    pub timeout: Duration,
    pub deadline: Instant,
    /// Asked for by the client itself: takes no place from its user.
    pub internal: bool,
    pub reply: Reply,
}

/// All of them.
pub(super) struct Calls {
    url: Endpoint,
    max_waiting: usize,
    calls: HashMap<u64, Call>,
    /// Not sent yet, oldest first. May hold some that are gone.
    waiting: VecDeque<u64>,
    /// Sent, in the order of their ids.
    out: BTreeSet<u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Whom those that are out were sent to.
    session: String,
    connected: bool,
    max_message: usize,
}

impl Calls {
    pub fn new(url: Endpoint, max_waiting: usize) -> Calls {
        Calls {
            url,
            max_waiting,
            calls: HashMap::new(),
            waiting: VecDeque::new(),
            out: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            session: String::new(),
            connected: false,
            max_message: usize::MAX,
        }
    }

    /// A new request: sent at once, or kept until there is a gateway. `reason` tells why there is none.
    pub fn add(&mut self, call: Call, reason: impl FnOnce() -> Error, send: &mut dyn FnMut(&[u8])) {
        let waiting = self.calls.len() - self.out.len();
        let full = if self.connected { self.out.len() >= MAX_OUT } else { waiting >= self.max_waiting };
        if full && !call.internal {
            let text = if self.connected {
                format!("{}: {MAX_OUT} requests have no reply yet", self.url)
            } else {
                format!("{}; {waiting} requests wait already", reason().message())
            };
            return (call.reply)(Err(Error::new(Kind::QueueFull, format!("{}: {text}", call.method))));
        }
        let id = call.id;
        self.deadlines.insert((call.deadline, id));
        self.calls.insert(id, call);
        if self.connected { self.send(id, send) } else { self.waiting.push_back(id) }
    }

    fn send(&mut self, id: u64, send: &mut dyn FnMut(&[u8])) {
        let Some(call) = self.calls.get(&id) else { return };
        if call.frame.len() > self.max_message {
            // It would make the gateway cut the connection, again and again.
            let (bytes, most) = (call.frame.len(), self.max_message);
            let text = format!(
                "{}: a request of {bytes} bytes; {} takes {most} ([intake] max_message)",
                call.method, self.url
            );
            return self.end(id, Err(Error::new(Kind::TooLarge, text)));
        }
        send(&call.frame);
        self.out.insert(id);
    }

    /// A gateway is connected. What is out is sent again if it is the same that got it before and cannot have forgotten it;
    /// `silent` is how long ago it was last heard.
    pub fn connected(
        &mut self,
        session: &str,
        max_message: usize,
        silent: Duration,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let same = self.session == session && silent < KEY_AGE;
        (self.connected, self.max_message, self.session) = (true, max_message, session.to_owned());
        for id in std::mem::take(&mut self.out) {
            if same { self.send(id, send) } else { self.end_unknown(id) }
        }
        for id in std::mem::take(&mut self.waiting) {
            self.send(id, send);
        }
    }

    /// The connection is gone. What is out stays so until there is a new one.
    pub fn disconnected(&mut self) {
        self.connected = false;
    }

    /// A reply has come; a null id answers what the gateway could not read.
    pub fn answer(&mut self, id: &Value, outcome: Result<Value>) {
        let id = match id.as_u64() {
            Some(id) => id,
            None if id.is_null() && self.out.len() == 1 => self.out.first().copied().unwrap_or_default(),
            None => return,
        };
        // One that was given up, or not asked for at all, has none waiting.
        if self.out.contains(&id) {
            self.end(id, outcome);
        }
    }

    /// When [`Calls::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends those whose time is over. `reason` tells why there is no connection.
    pub fn expire(&mut self, now: Instant, reason: impl Fn() -> Error) {
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            let Some(call) = self.calls.get(&id) else { break };
            let (method, timeout) = (&call.method, call.timeout);
            if !self.out.contains(&id) {
                let why = reason();
                let text = format!("{method}: {}", why.message());
                self.end(id, Err(Error::new(why.kind(), text)));
            } else if self.connected {
                let text = format!("{}: no reply to {method} within {timeout:?}; outcome unknown", self.url);
                self.end(id, Err(Error::new(Kind::Timeout, text)));
            } else {
                self.end_unknown(id);
            }
        }
        // Each is in the queue at most once, but those that have ended must not pile up.
        if self.waiting.len() > 2 * self.max_waiting.max(64) {
            self.waiting.retain(|id| self.calls.contains_key(id));
        }
    }

    /// Ends all with this error.
    pub fn end_all(&mut self, error: &Error) {
        for (_, call) in self.calls.drain() {
            (call.reply)(Err(error.clone()));
        }
        self.deadlines.clear();
        self.out.clear();
        self.waiting.clear();
    }

    fn end_unknown(&mut self, id: u64) {
        let Some(call) = self.calls.get(&id) else { return };
        let text = format!("{} went away during {}; outcome unknown", self.url, call.method);
        self.end(id, Err(Error::new(Kind::Disconnected, text)));
    }

    fn end(&mut self, id: u64, outcome: Result<Value>) {
        self.out.remove(&id);
        if let Some(call) = self.calls.remove(&id) {
            self.deadlines.remove(&(call.deadline, id));
            (call.reply)(outcome);
        }
    }
}
