//! Where the answer of a device goes.

use serde_json::Value;

use crate::{Error, Kind, Result};

type Answer = Box<dyn FnOnce(Result<Value>) + Send>;

/// Takes one answer, from any thread. Dropped without one, it answers INTERNAL by itself, so that nobody waits
/// for ever.
pub struct Reply(Option<Answer>);

impl Reply {
    /// A reply that hands its answer to `answer`, which must not wait.
    pub fn new(answer: impl FnOnce(Result<Value>) + Send + 'static) -> Reply {
        Reply(Some(Box::new(answer)))
    }

    /// A reply and the place where its answer arrives, for callers that wait.
    pub fn channel() -> (Reply, crossbeam_channel::Receiver<Result<Value>>) {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        (Reply::new(move |answer| drop(sender.try_send(answer))), receiver)
    }

    /// Answers.
    pub fn answer(mut self, answer: Result<Value>) {
        if let Some(give) = self.0.take() {
            give(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(Err(Error::new(
                Kind::Internal,
                "a defect in the gateway: a request was forgotten; see its log",
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_an_answer() {
        let (reply, answer) = Reply::channel();
        reply.answer(Ok(Value::Null));
        assert_eq!(answer.recv().unwrap(), Ok(Value::Null));
        let (reply, answer) = Reply::channel();
        drop(reply);
        assert_eq!(answer.recv().unwrap().unwrap_err().kind(), Kind::Internal);
    }
}
