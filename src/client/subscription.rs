//! What a subscriber holds.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Queue;
use super::shared::{Op, Shared};
use crate::wire::{Event, event};
use crate::{Error, Kind, Result};

/// Topics of one subscription, which `events.replay` takes at once.
const MAX_TOPICS: usize = 1000;

/// What a subscription brings, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// An event.
    Event(Event),
    /// Here events are missing, and nobody has them any more: so many, as the numbers of their topics or the own queue tell;
    /// none where nothing tells how many, or whether there were any, as after a restart of the gateway.
    Missed(Option<u64>),
    /// The gateway is gone, or the way to it. What is published meanwhile is fetched later where the gateway keeps it.
    Disconnected,
    /// The gateway is there again and the subscription in force. What was missed follows.
    Reconnected {
        /// It was started again meanwhile: its devices begin anew, numbers count from 1.
        restarted: bool,
    },
}

/// Topics that are heard until this is dropped, through all reconnects.
///
/// It has a queue of its own ([`SubscribeOptions`](super::SubscribeOptions)). A reader that is too slow loses the newest
/// events, and finds a [`Message::Missed`] in their place; nobody else waits for it. Several threads may read, each message goes to one
/// of them.
pub struct Subscription {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    id: u64,
    topics: Vec<String>,
}

impl Subscription {
    pub(super) fn start(shared: Arc<Shared>, queue: Queue, topics: &[&str]) -> Result<Subscription> {
        let topics = check(topics)?;
        let (id, queue) = (shared.next_id(), Arc::new(queue));
        shared.post(Op::Subscribe { id, topics: topics.clone(), queue: queue.clone() })?;
        Ok(Subscription { shared, queue, id, topics })
    }

    /// The prefixes that are heard, each with `/` at its end; an empty one is everything.
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Blocks up to `timeout` until the subscription has been in force once: then everything published since is heard,
    /// or told as missed.
    ///
    /// NOT_CONNECTED with the reason when there is no gateway, NOT_ENABLED when it has no events, TIMEOUT when its events do
    /// not come through, CLOSED.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.shared.check()?;
        if self.queue.wait_in_force(timeout)? {
            return Ok(());
        }
        if !self.shared.ready() {
            return Err(self.shared.reason());
        }
        let events = self.shared.hello().and_then(|hello| hello.endpoints.get("events").cloned());
        let text = format!(
            "the subscription is not in force within {timeout:?}; can {} be reached from here?",
            events.as_deref().unwrap_or("the events endpoint")
        );
        Err(Error::new(Kind::Timeout, text))
    }

    /// The next message; blocks up to `timeout`, then none.
    ///
    /// CLOSED when the client is closed and everything has been read.
    pub fn recv(&self, timeout: Duration) -> Result<Option<Message>> {
        self.shared.check()?;
        self.queue.pop(timeout)
    }

    /// The next message if there is one already. Does not block. Errors as [`Subscription::recv`].
    pub fn try_recv(&self) -> Result<Option<Message>> {
        self.recv(Duration::ZERO)
    }

    /// All messages, each as it comes, until the client is closed. Blocks for as long as none comes.
    pub fn iter(&self) -> impl Iterator<Item = Message> + '_ {
        std::iter::from_fn(|| {
            loop {
                match self.recv(Duration::from_secs(3600)) {
                    Ok(None) => {}
                    Ok(message) => return message,
                    Err(_) => return None,
                }
            }
        })
    }

    /// Events lost so far since the reader was too slow.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if !self.shared.forked() {
            // A closed client has none any more.
            let _ = self.shared.post(Op::Unsubscribe(self.id));
        }
    }
}

/// Topics as they are subscribed to.
fn check(topics: &[&str]) -> Result<Vec<String>> {
    let refuse = |text: String| Err(Error::new(Kind::InvalidArgument, text));
    if topics.is_empty() {
        return refuse(
            "subscribe: name at least one topic, such as serial/scanner/; \"\" is everything".into(),
        );
    }
    if topics.len() > MAX_TOPICS {
        return refuse(format!(
            "subscribe: {} topics; at most {MAX_TOPICS} in one subscription",
            topics.len()
        ));
    }
    let mut checked = Vec::with_capacity(topics.len());
    for topic in topics {
        let topic = if topic.is_empty() { String::new() } else { event::topic(topic)? };
        if topic.starts_with(event::SYNC) {
            return refuse(format!("subscribe: topic {topic:?}: {} is for clients' own use", event::SYNC));
        }
        checked.push(topic);
    }
    // Twice the same would need to be unsubscribed twice, and says nothing more.
    checked.sort();
    checked.dedup();
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_checked_and_end_with_a_slash() {
        assert_eq!(check(&["serial/COM1", "app/x/", "app/x"]).unwrap(), ["app/x/", "serial/COM1/"]);
        assert_eq!(check(&[""]).unwrap(), [""]);
        for bad in [&[][..], &["a//b"], &["~sync/x"], &["a\0b"], &["a"; 1001]] {
            assert_eq!(check(bad).unwrap_err().kind(), Kind::InvalidArgument);
        }
    }
}
