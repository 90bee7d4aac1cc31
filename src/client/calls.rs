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

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, unbounded};
    use serde_json::json;

    type Outcomes = Receiver<(u64, Result<Value>)>;

    /// Calls with a thousand places, and what was sent.
    struct Rig {
        calls: Calls,
        sent: Vec<Vec<u8>>,
        sender: crossbeam_channel::Sender<(u64, Result<Value>)>,
        outcomes: Outcomes,
        start: Instant,
    }

    impl Rig {
        fn new(max_waiting: usize) -> Rig {
            let url = Endpoint::connect("tcp://127.0.0.1:10003").unwrap();
            let (sender, outcomes) = unbounded();
            Rig {
                calls: Calls::new(url, max_waiting),
                sent: Vec::new(),
                sender,
                outcomes,
                start: Instant::now(),
            }
        }

        fn add(&mut self, id: u64, timeout_s: u64) {
            let sender = self.sender.clone();
            let timeout = Duration::from_secs(timeout_s);
            let call = Call {
                id,
                method: "m".into(),
                frame: vec![id as u8],
                timeout,
                deadline: self.start + timeout,
                internal: false,
                reply: Box::new(move |outcome| sender.send((id, outcome)).unwrap()),
            };
            self.calls.add(call, reason, &mut |frame| self.sent.push(frame.to_vec()));
        }

        fn connected(&mut self, session: &str, silent_s: u64) {
            let silent = Duration::from_secs(silent_s);
            self.calls.connected(session, 100, silent, &mut |frame| self.sent.push(frame.to_vec()));
        }

        fn expire(&mut self, after_s: u64) {
            self.calls.expire(self.start + Duration::from_secs(after_s), reason);
        }

        fn sent(&mut self) -> Vec<u8> {
            std::mem::take(&mut self.sent).concat()
        }

        /// Ids and kinds of what has ended.
        fn ended(&self) -> Vec<(u64, Option<Kind>)> {
            self.outcomes
                .try_iter()
                .map(|(id, outcome)| (id, outcome.err().map(|error| error.kind())))
                .collect()
        }
    }

    fn reason() -> Error {
        Error::new(Kind::NotConnected, "nobody is there")
    }

    #[test]
    fn what_waits_is_sent_in_order_and_what_was_not_sent_says_why() {
        let mut rig = Rig::new(3);
        (1..=4).for_each(|id| rig.add(id, id));
        assert_eq!(rig.ended(), [(4, Some(Kind::QueueFull))]);
        rig.expire(1);
        let (id, outcome) = rig.outcomes.try_recv().unwrap();
        assert_eq!((id, outcome.unwrap_err().to_string()), (1, "m: nobody is there (NOT_CONNECTED)".into()));
        rig.connected("s", 0);
        assert_eq!(rig.sent(), [2, 3]);
        rig.calls.answer(&json!(3), Ok(json!("three")));
        rig.calls.answer(&json!(3), Ok(json!("again")));
        rig.calls.answer(&json!(99), Ok(json!("nobody's")));
        rig.calls.answer(&Value::Null, Err(Error::new(Kind::BadRequest, "unreadable")));
        assert_eq!(rig.ended(), [(3, None), (2, Some(Kind::BadRequest))]);
        assert_eq!(rig.calls.next_deadline(), None);
    }

    #[test]
    fn only_the_session_that_got_a_request_gets_it_again() {
        let mut rig = Rig::new(10);
        rig.connected("s", 0);
        rig.add(1, 100);
        rig.calls.disconnected();
        rig.add(2, 100);
        rig.connected("s", 44);
        assert_eq!(rig.sent(), [1, 1, 2]);
        rig.calls.disconnected();
        rig.connected("other", 0);
        assert!(rig.sent().is_empty());
        let unknown = Some(Kind::Disconnected);
        assert_eq!(rig.ended(), [(1, unknown), (2, unknown)]);
        // So long ago that the gateway may have forgotten the key.
        rig.add(3, 100);
        rig.calls.disconnected();
        rig.connected("other", 46);
        assert_eq!((rig.sent(), rig.ended()), (vec![3], vec![(3, unknown)]));
    }

    #[test]
    fn time_runs_out_for_what_is_out() {
        let mut rig = Rig::new(10);
        rig.connected("s", 0);
        rig.add(1, 1);
        rig.add(2, 2);
        rig.expire(1);
        rig.calls.disconnected();
        rig.expire(2);
        let errors: Vec<String> =
            rig.outcomes.try_iter().map(|(_, outcome)| outcome.unwrap_err().to_string()).collect();
        let url = "tcp://127.0.0.1:10003";
        assert_eq!(
            errors,
            [
                format!("{url}: no reply to m within 1s; outcome unknown (TIMEOUT)"),
                format!("{url} went away during m; outcome unknown (DISCONNECTED)"),
            ]
        );
    }

    #[test]
    fn a_request_that_the_gateway_would_refuse_with_the_connection_is_not_sent() {
        let mut rig = Rig::new(10);
        rig.connected("s", 0);
        let sender = rig.sender.clone();
        let call = Call {
            id: 1,
            method: "m".into(),
            frame: vec![0; 101],
            timeout: Duration::ZERO,
            deadline: rig.start,
            internal: false,
            reply: Box::new(move |outcome| sender.send((1, outcome)).unwrap()),
        };
        rig.calls.add(call, reason, &mut |_| panic!("it was sent"));
        assert_eq!(rig.ended(), [(1, Some(Kind::TooLarge))]);
        rig.add(2, 1);
        rig.calls.end_all(&reason());
        assert_eq!(rig.ended(), [(2, Some(Kind::NotConnected))]);
    }
}
