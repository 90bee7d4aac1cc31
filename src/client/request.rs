//! One request and its reply, for programs that ask a few times and end.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::link::{Event, Link, poll, zmq_error};
use crate::error::{Error, Kind, Result};
use crate::wire::{Endpoint, rpc};

/// A connection to a gateway's `commands` endpoint. One request at a time.
pub struct Requester {
    link: Link,
    url: Endpoint,
    last_id: u64,
    /// Whether the connection has ended since the last request was sent.
    down: bool,
    // After the link: its end waits until all sockets are closed.
    _context: zmq::Context,
}

impl Requester {
    /// Connects by the rule of [`super::url`]; blocks up to `wait` until the gateway answers.
    ///
    /// INVALID_ARGUMENT for a wrong url; NOT_CONNECTED when no gateway answers, with the reason where
    /// something else does.
    pub fn connect(url: Option<&str>, wait: Duration) -> Result<Requester> {
        let url = super::url(url)?;
        let context = zmq::Context::new();
        let link = Link::connect(&context, zmq::DEALER, &url, wait)?;
        Ok(Requester { link, url, last_id: 0, down: false, _context: context })
    }

    /// Where it is connected to, as given.
    pub fn url(&self) -> &Endpoint {
        &self.url
    }

    /// Asks, and blocks up to `timeout` for the reply. `params` is an object or null.
    ///
    /// TIMEOUT and DISCONNECTED mean that the outcome is unknown; all other kinds are the gateway's own.
    pub fn request(&mut self, method: &str, params: &Value, timeout: Duration) -> Result<Value> {
        let deadline = Instant::now() + timeout;
        self.last_id += 1;
        let request = rpc::request(self.last_id, method, params);
        // What an earlier connection left behind says nothing about this request.
        while self.link.event().is_some() {}
        self.down = false;
        // The empty frame makes it look like REQ, so that proxies find the body.
        let frames = [Vec::new(), request];
        self.link.socket.send_multipart(frames, zmq::DONTWAIT).map_err(|error| match error {
            zmq::Error::EAGAIN => {
                Error::new(Kind::QueueFull, format!("{}: {method} cannot be sent now", self.url))
            }
            other => zmq_error(&self.url, other),
        })?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut items =
                [self.link.socket.as_poll_item(zmq::POLLIN), self.link.monitor.as_poll_item(zmq::POLLIN)];
            if poll(&mut items, left)? == 0 {
                let text = format!("{}: no reply to {method} within {timeout:?}; outcome unknown", self.url);
                return Err(Error::new(Kind::Timeout, text));
            }
            self.down |= self.link.event() == Some(Event::Down);
            // Also after the end: a gateway that stops replies first.
            while let Some((id, outcome)) = self.receive()? {
                // A null id answers what the gateway could not even read, and only one is out.
                if id == self.last_id || id.is_null() {
                    return outcome;
                }
            }
            if self.down {
                let text = format!("{} went away during {method}; outcome unknown", self.url);
                return Err(Error::new(Kind::Disconnected, text));
            }
        }
    }

    /// Blocks until the gateway has closed the connection, at most `timeout`; whether it has.
    pub fn wait_closed(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            self.down |= std::iter::from_fn(|| self.link.event()).any(|event| event == Event::Down);
            if self.down {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut items = [self.link.monitor.as_poll_item(zmq::POLLIN)];
            if !matches!(poll(&mut items, left), Ok(1..)) {
                return false;
            }
        }
    }

    /// The next reply that is there already; anything else that came is passed over.
    fn receive(&self) -> Result<Option<(Value, Result<Value>)>> {
        loop {
            match self.link.socket.recv_multipart(zmq::DONTWAIT) {
                Ok(frames) => {
                    let reply = frames.last().and_then(|frame| rpc::parse_reply(frame));
                    if reply.is_some() {
                        return Ok(reply);
                    }
                }
                Err(zmq::Error::EAGAIN) => return Ok(None),
                Err(zmq::Error::EINTR) => {}
                Err(error) => return Err(zmq_error(&self.url, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::thread::{self, JoinHandle};

    const WAIT: Duration = Duration::from_secs(1);
    const WATCHDOG: Duration = Duration::from_secs(20);

    /// A peer with one bound socket; `answer` makes the replies, none ends it.
    fn peer(
        kind: zmq::SocketType,
        endpoint: &str,
        answer: fn(&rpc::Request) -> Option<Vec<u8>>,
    ) -> (String, JoinHandle<()>) {
        let context = zmq::Context::new();
        let socket = context.socket(kind).unwrap();
        socket.set_linger(1000).unwrap();
        socket.set_ipv6(endpoint.contains("::1")).unwrap();
        socket.set_rcvtimeo(WATCHDOG.as_millis() as i32).unwrap();
        socket.bind(endpoint).unwrap();
        let port = socket.get_last_endpoint().unwrap().unwrap().rsplit(':').next().unwrap().to_owned();
        let thread = thread::spawn(move || {
            while let Ok(frames) = socket.recv_multipart(0) {
                let (envelope, body) = rpc::split(frames);
                let Ok(rpc::Body::Request(frame)) = body else { break };
                let Some(reply) = answer(&rpc::parse(&frame).unwrap()) else { break };
                socket.send_multipart(envelope.wrap([reply]), 0).unwrap();
            }
        });
        (port, thread)
    }

    #[test]
    fn c29_localhost_reaches_either_family() {
        for address in ["tcp://127.0.0.1:*", "tcp://[::1]:*"] {
            let (port, thread) = peer(zmq::ROUTER, address, |request| match request.method.as_str() {
                "ping" => Some(rpc::reply(&request.id, Ok(json!("pong")))),
                "fail" => {
                    let error = Error::new(Kind::DiskFull, "no space");
                    Some(rpc::reply(&request.id, Err(error.into())))
                }
                _ => None,
            });
            let url = format!("tcp://localhost:{port}");
            let mut requester = Requester::connect(Some(&url), WATCHDOG).unwrap();
            assert_eq!(requester.request("ping", &Value::Null, WATCHDOG), Ok(json!("pong")));
            let error = requester.request("fail", &json!({}), WATCHDOG).unwrap_err();
            assert_eq!(error, Error::new(Kind::DiskFull, "no space"));
            let error = requester.request("leave", &json!({}), WATCHDOG).unwrap_err();
            assert_eq!(error.kind(), Kind::Disconnected, "{error}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn nobody_a_silent_peer_and_a_wrong_peer_are_told_apart() {
        let (free, thread) = peer(zmq::ROUTER, "tcp://127.0.0.1:*", |_| None);
        let url = format!("tcp://127.0.0.1:{free}");
        let mut requester = Requester::connect(Some(&url), WATCHDOG).unwrap();
        let _ = requester.request("leave", &Value::Null, WATCHDOG);
        thread.join().unwrap();
        let error = Requester::connect(Some(&url), WAIT).err().unwrap();
        assert_eq!(error.to_string(), format!("no gateway answers at {url} (NOT_CONNECTED)"));

        let context = zmq::Context::new();
        let bound = |kind| {
            let socket = context.socket(kind).unwrap();
            socket.bind("tcp://127.0.0.1:*").unwrap();
            let url = socket.get_last_endpoint().unwrap().unwrap();
            (socket, url)
        };
        let (_silent, url) = bound(zmq::ROUTER);
        let mut requester = Requester::connect(Some(&url), WATCHDOG).unwrap();
        let error = requester.request("ping", &Value::Null, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), Kind::Timeout);
        assert!(!requester.wait_closed(Duration::from_millis(10)));

        let (_logs, url) = bound(zmq::PULL);
        let error = Requester::connect(Some(&url), WATCHDOG).err().unwrap();
        assert_eq!(error.message(), format!("{url} is the plain log port; connect to commands (10003)"));
        let (_events, url) = bound(zmq::XPUB);
        let error = Requester::connect(Some(&url), WATCHDOG).err().unwrap();
        assert!(error.message().contains("is not a gateway's endpoint"), "{error}");
    }

    #[test]
    fn connecting_to_every_address_is_refused() {
        for url in ["tcp://*:10003", "tcp://0.0.0.0:1", "nonsense"] {
            assert_eq!(Requester::connect(Some(url), WAIT).err().unwrap().kind(), Kind::InvalidArgument);
        }
    }
}
