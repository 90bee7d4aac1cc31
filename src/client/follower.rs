//! What passes a forwarder, as one more of its subscribers.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Client;
use super::link::{Event, Link, Tries, poll, zmq_error};
use crate::wire::Endpoint;
use crate::{Error, Kind, Result};

/// How long each step of finding the forwarder may take.
const REPLY: Duration = Duration::from_secs(5);
/// Messages that wait here for their reader, before they wait in the gateway.
const RECEIVE_HWM: i32 = 1_000_000;

/// A subscriber of a forwarder (`[[forward]]` in the settings). It comes back by itself after the gateway was away, at the same
/// endpoint.
pub struct Follower {
    link: Link,
    endpoint: Endpoint,
    // After the link: its end waits until all sockets are closed.
    _context: zmq::Context,
}

/// What a [`Follower`] has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A message, all its frames.
    Message(Vec<Vec<u8>>),
    /// The forwarder is away. It is looked for; what passes meanwhile is missed.
    Disconnected,
    /// It is back.
    Reconnected,
}

impl Follower {
    /// Subscribes at the forwarder called `id`, or at the only one, to messages whose first frame begins with one of `topics`; to
    /// all without any. Blocks up to some seconds until it is connected.
    ///
    /// NOT_FOUND when there is no such forwarder, INVALID_ARGUMENT when there are several and none is named, NOT_CONNECTED when
    /// nobody answers.
    pub fn connect(client: &Client, id: Option<&str>, topics: &[&str]) -> Result<Follower> {
        client.wait(REPLY)?;
        let stats = client.request("forward.stats", json!({}), REPLY)?;
        let forwards: Vec<&str> =
            stats["forwards"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
        let id = choose(&forwards, id)?;
        let hello = client.hello();
        let output = hello.as_ref().and_then(|hello| hello.endpoints.get(&format!("forward.{id}.output")));
        let Some(output) = output else {
            let text = format!("{}: the gateway does not tell where forwarder {id} is", client.url());
            return Err(Error::new(Kind::NotFound, text));
        };
        let endpoint = Endpoint::connect(output)?;
        let context = zmq::Context::new();
        let prepare = |socket: &zmq::Socket| {
            socket.set_rcvhwm(RECEIVE_HWM)?;
            match topics {
                [] => socket.set_subscribe(b""),
                topics => topics.iter().try_for_each(|topic| socket.set_subscribe(topic.as_bytes())),
            }
        };
        let tries = Tries::Forever;
        let link = Link::connect_while(&context, zmq::SUB, &endpoint, tries, &prepare, REPLY, &|| true)?;
        Ok(Follower { link, endpoint, _context: context })
    }

    /// Where it is connected to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next message or news; blocks up to `timeout`, none if there is nothing until then.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<Passed>> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.link.socket.recv_multipart(zmq::DONTWAIT) {
                Ok(frames) => return Ok(Some(Passed::Message(frames))),
                Err(zmq::Error::EAGAIN | zmq::Error::EINTR) => {}
                Err(error) => return Err(zmq_error(&self.endpoint, error)),
            }
            match self.link.event() {
                Some(Event::Up) => return Ok(Some(Passed::Reconnected)),
                Some(Event::Down) => return Ok(Some(Passed::Disconnected)),
                Some(_) => continue,
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let (socket, monitor) = (&self.link.socket, &self.link.monitor);
            let mut items = [socket.as_poll_item(zmq::POLLIN), monitor.as_poll_item(zmq::POLLIN)];
            if poll(&mut items, left)? == 0 {
                return Ok(None);
            }
        }
    }
}

/// The forwarder that is meant.
fn choose<'a>(forwards: &[&'a str], id: Option<&str>) -> Result<&'a str> {
    let names = || forwards.join(", ");
    match (forwards, id) {
        ([], _) => Err(Error::new(Kind::NotFound, "the gateway has no [[forward]] in its settings")),
        ([one], None) => Ok(one),
        (_, None) => {
            Err(Error::new(Kind::InvalidArgument, format!("which forwarder? there are {}", names())))
        }
        (_, Some(id)) => forwards.iter().find(|one| **one == id).copied().ok_or_else(|| {
            Error::new(Kind::NotFound, format!("no forwarder is called {id:?}; there are {}", names()))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_one_need_not_be_named() {
        let kind = |forwards: &[&'static str], id| choose(forwards, id).map_err(|error| error.kind());
        assert_eq!(kind(&["a"], None), Ok("a"));
        assert_eq!(kind(&["a", "b"], Some("b")), Ok("b"));
        assert_eq!(kind(&["a", "b"], None), Err(Kind::InvalidArgument));
        assert_eq!(kind(&["a", "b"], Some("c")), Err(Kind::NotFound));
        assert_eq!(kind(&[], None), Err(Kind::NotFound));
    }
}
