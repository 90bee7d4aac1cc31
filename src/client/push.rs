//! Plain log messages over PUSH, as any ZeroMQ client sends them.
//!
//! PUSH has no acknowledgement. What can be known is whether the log port was reached, and whether all
//! was handed to the operating system before the end.

use std::time::{Duration, Instant};

use super::link::{Event, Link, zmq_error};
use crate::error::{Error, Kind, Result};
use crate::wire::Endpoint;

/// A connection to a gateway's `logs` endpoint.
pub struct Pusher {
    link: Link,
    endpoint: Endpoint,
    broke: bool,
    context: zmq::Context,
}

impl Pusher {
    /// Connects, and blocks up to `wait` until the log port answers.
    ///
    /// INVALID_ARGUMENT for a wrong endpoint; NOT_CONNECTED when nobody answers, or not a log port.
    pub fn connect(endpoint: &Endpoint, wait: Duration) -> Result<Pusher> {
        let context = zmq::Context::new();
        let link = Link::connect(&context, zmq::PUSH, endpoint, wait)?;
        Ok(Pusher { link, endpoint: endpoint.clone(), broke: false, context })
    }

    /// Sends one message: the text alone, or `[topic, text]`. Blocks up to `timeout` while the gateway
    /// takes nothing; TIMEOUT means that this message was not sent.
    pub fn push(&mut self, topic: Option<&[u8]>, text: &[u8], timeout: Duration) -> Result<()> {
        self.broke |= std::iter::from_fn(|| self.link.event()).any(|event| event == Event::Down);
        let milliseconds = timeout.as_millis().min(i32::MAX as u128) as i32;
        self.link.socket.set_sndtimeo(milliseconds).map_err(|error| zmq_error(&self.endpoint, error))?;
        let frames = topic.into_iter().chain([text]);
        self.link.socket.send_multipart(frames, 0).map_err(|error| match error {
            zmq::Error::EAGAIN => {
                let text = format!("{} takes no log messages for {timeout:?}", self.endpoint);
                Error::new(Kind::Timeout, text)
            }
            other => zmq_error(&self.endpoint, other),
        })
    }

    /// Ends the connection after all was handed over, at most after `timeout`.
    ///
    /// TIMEOUT when messages were still waiting then, DISCONNECTED when the connection broke at any time,
    /// so that messages on their way may be lost.
    pub fn close(mut self, timeout: Duration) -> Result<()> {
        self.broke |= std::iter::from_fn(|| self.link.event()).any(|event| event == Event::Down);
        let milliseconds = timeout.as_millis().min(i32::MAX as u128) as i32;
        self.link.socket.set_linger(milliseconds).map_err(|error| zmq_error(&self.endpoint, error))?;
        let start = Instant::now();
        drop(self.link);
        // The context's end waits for its sockets, and they for their messages.
        drop(self.context);
        if start.elapsed() >= timeout {
            let text =
                format!("the last log messages were not delivered to {} within {timeout:?}", self.endpoint);
            return Err(Error::new(Kind::Timeout, text));
        }
        if self.broke {
            let text = format!("the connection to {} broke; log messages may be lost", self.endpoint);
            return Err(Error::new(Kind::Disconnected, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(20);

    #[test]
    fn what_is_pushed_arrives_although_the_client_ends_at_once() {
        let context = zmq::Context::new();
        let logs = context.socket(zmq::PULL).unwrap();
        logs.set_rcvtimeo(WATCHDOG.as_millis() as i32).unwrap();
        logs.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = Endpoint::connect(&logs.get_last_endpoint().unwrap().unwrap()).unwrap();
        let mut pusher = Pusher::connect(&endpoint, WATCHDOG).unwrap();
        pusher.push(None, b"one", WATCHDOG).unwrap();
        pusher.push(Some(b"WARN.updater"), b"two", WATCHDOG).unwrap();
        pusher.close(WATCHDOG).unwrap();
        assert_eq!(logs.recv_multipart(0).unwrap(), [b"one".to_vec()]);
        assert_eq!(logs.recv_multipart(0).unwrap(), [b"WARN.updater".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn c02_nobody_listens_and_it_ends_all_the_same() {
        let endpoint = Endpoint::connect("tcp://127.0.0.1:9").unwrap();
        let start = Instant::now();
        let error = Pusher::connect(&endpoint, Duration::from_millis(200)).err().unwrap();
        assert_eq!(error.kind(), Kind::NotConnected);
        assert!(start.elapsed() < WATCHDOG);
    }

    #[test]
    fn another_port_of_the_gateway_is_named() {
        let context = zmq::Context::new();
        let commands = context.socket(zmq::ROUTER).unwrap();
        commands.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = Endpoint::connect(&commands.get_last_endpoint().unwrap().unwrap()).unwrap();
        let error = Pusher::connect(&endpoint, WATCHDOG).err().unwrap();
        assert!(error.message().contains("takes no plain logs"), "{error}");
    }
}
