//! What slow subscribers lose: libzmq drops it in silence, the libzmq of this workspace counts it.

/// What the XPUB and PUB sockets of one thread did not give to subscribers whose queue was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Messages that at least one subscriber did not get.
    pub messages: u64,
    /// Subscribers that did not get one, summed over the messages.
    pub deliveries: u64,
}

impl Lost {
    /// What was lost since `earlier`, an older value of the same thread.
    #[must_use]
    pub fn since(self, earlier: Lost) -> Lost {
        Lost { messages: self.messages - earlier.messages, deliveries: self.deliveries - earlier.deliveries }
    }
}

/// What was lost by the sends of the calling thread since the thread began, all its sockets together; looked at
/// before and after a send it tells about that one. Costs some nanoseconds.
///
/// What still waits in a queue when its subscriber goes away is not counted: nobody is left to miss it.
///
/// # Examples
/// ```
/// let context = zmq::Context::new();
/// let mut publisher = context.socket(zmq::XPUB)?;
/// publisher.set_sndhwm(5)?;
/// publisher.bind("inproc://lost")?;
/// let slow = context.socket(zmq::SUB)?;
/// slow.set_rcvhwm(5)?;
/// slow.set_subscribe(b"a")?;
/// slow.connect("inproc://lost")?;
/// publisher.recv_bytes(0)?; // its subscription
/// let before = hwgate_zmq::lost();
/// for _ in 0..100 {
///     publisher.send("a message that nobody reads", 0)?;
/// }
/// assert_eq!(hwgate_zmq::lost().since(before).messages, 90);
/// # Ok::<(), zmq::Error>(())
/// ```
#[must_use]
pub fn lost() -> Lost {
    let lost = zmq_sys::hwgate_zmq_get_lost();
    Lost { messages: lost.messages, deliveries: lost.deliveries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_xpub_nodrop;

    /// One subscriber that reads nothing, with two subscriptions that both match, and one that reads everything: over
    /// tcp, as multi-part messages, by turns with and without NODROP. What the slow one has in the end and what was
    /// counted for it are all there was; the other has everything.
    #[test]
    fn what_a_slow_subscriber_lost_is_counted_exactly() {
        let context = zmq::Context::new();
        let mut publisher = context.socket(zmq::XPUB).unwrap();
        publisher.set_sndhwm(100).unwrap();
        publisher.set_sndtimeo(50).unwrap();
        publisher.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = publisher.get_last_endpoint().unwrap().unwrap();
        let subscriber = |topics: &[&str]| {
            let socket = context.socket(zmq::SUB).unwrap();
            socket.set_rcvhwm(100).unwrap();
            socket.set_rcvtimeo(2000).unwrap();
            for topic in topics {
                socket.set_subscribe(topic.as_bytes()).unwrap();
            }
            socket.connect(&endpoint).unwrap();
            for _ in topics {
                publisher.recv_bytes(0).unwrap();
            }
            socket
        };
        let (slow, quick) = (subscriber(&["a", "ab"]), subscriber(&[""]));
        let body = vec![b'x'; 4096];
        let total = 20_000_u32;
        let before = lost();
        let mut refused = 0;
        for number in 0..total {
            set_xpub_nodrop(&mut publisher, true).unwrap();
            let id = number.to_le_bytes();
            // A send that may wait looks for news first; one that may not takes a queue that was read within the last
            // millisecond for full.
            if publisher.send("abc", zmq::SNDMORE).is_err() {
                // An attempt that is refused loses nothing, and is not counted.
                refused += 1;
                set_xpub_nodrop(&mut publisher, false).unwrap();
                publisher.send("abc", zmq::SNDMORE | zmq::DONTWAIT).unwrap();
            }
            publisher.send(&id[..], zmq::SNDMORE | zmq::DONTWAIT).unwrap();
            publisher.send(&body, zmq::DONTWAIT).unwrap();
            assert_eq!(quick.recv_multipart(0).unwrap()[1], id);
        }
        let lost = lost().since(before);
        assert!(refused > 0 && lost.messages > refused, "{refused} {lost:?}");
        assert_eq!(lost.messages, lost.deliveries);
        let mut got = 0;
        while slow.recv_multipart(0).is_ok() {
            got += 1;
        }
        assert_eq!(got + lost.messages, u64::from(total), "{lost:?}");
    }
}
