//! What the handles and the I/O thread of a client share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::calls::Call;
use super::hello::Hello;
use super::options::deadline;
use super::queue::Queue;
use crate::util::guard;
use crate::wake::Waker;
use crate::wire::Endpoint;
use crate::{Error, Kind, Result};

/// What the I/O thread is asked to do.
pub(super) enum Op {
    Call(Call),
    Subscribe {
        id: u64,
        topics: Vec<String>,
        queue: Arc<Queue>,
    },
    Unsubscribe(u64),
    /// The answer to a replay that a subscription asked for.
    Replayed {
        subscription: u64,
        number: u64,
        result: Result<Value>,
    },
}

/// Shared by all handles and the I/O thread.
pub(super) struct Shared {
    pub url: Endpoint,
    /// The process that made the client; a forked child has no I/O thread.
    pid: u32,
    ops: Mutex<Ops>,
    state: Mutex<State>,
    changed: Condvar,
    last_id: AtomicU64,
}

struct Ops {
    /// In the order they were asked for.
    list: Vec<Op>,
    closed: bool,
    /// None after the end, so that no socket outlives the I/O thread.
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    ready: bool,
    hello: Option<Arc<Hello>>,
    /// Why there is no connection.
    reason: Option<Error>,
    ended: bool,
}

impl Shared {
    pub fn new(url: Endpoint, waker: Waker) -> Shared {
        Shared {
            url,
            pid: std::process::id(),
            ops: Mutex::new(Ops { list: Vec::new(), closed: false, waker: Some(waker) }),
            state: Mutex::default(),
            changed: Condvar::new(),
            last_id: AtomicU64::new(0),
        }
    }

    /// Whether this is a forked child of the process that made the client.
    pub fn forked(&self) -> bool {
        std::process::id() != self.pid
    }

    /// FORKED in a child. Each call comes here before it takes a lock, which a thread that is not in the child may hold.
    pub fn check(&self) -> Result<()> {
        if self.forked() {
            let text = "this client was made before a fork; make a new one in the child";
            return Err(Error::new(Kind::Forked, text));
        }
        Ok(())
    }

    /// A number for a request or a subscription, from 1.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Hands something to the I/O thread. CLOSED after [`Shared::close`].
    pub fn post(&self, op: Op) -> Result<()> {
        let mut ops = guard(&self.ops);
        if ops.closed {
            return Err(closed());
        }
        ops.list.push(op);
        // With more than this one the thread was woken already and has not come yet.
        if let Some(waker) = ops.waker.as_ref().filter(|_| ops.list.len() == 1) {
            waker.wake();
        }
        Ok(())
    }

    /// Makes the I/O thread look at its channels.
    pub fn wake(&self) {
        if let Some(waker) = &guard(&self.ops).waker {
            waker.wake();
        }
    }

    /// Takes what was asked for; none when the client is closed.
    pub fn take(&self) -> Option<Vec<Op>> {
        let mut ops = guard(&self.ops);
        (!ops.closed).then(|| std::mem::take(&mut ops.list))
    }

    /// Lets the I/O thread end, and waits for that up to `timeout`.
    pub fn close(&self, timeout: Duration) {
        let mut ops = guard(&self.ops);
        ops.closed = true;
        if let Some(waker) = &ops.waker {
            waker.wake();
        }
        drop(ops);
        let state = guard(&self.state);
        drop(self.changed.wait_timeout_while(state, timeout, |state| !state.ended));
    }

    /// For the I/O thread, when it has ended for whatever reason.
    pub fn ended(&self, error: &Error) {
        let mut ops = guard(&self.ops);
        ops.closed = true;
        let (list, waker) = (std::mem::take(&mut ops.list), ops.waker.take());
        drop(ops);
        drop(waker);
        for op in list {
            match op {
                Op::Call(call) => (call.reply)(Err(error.clone())),
                Op::Subscribe { queue, .. } => queue.close(error.clone()),
                Op::Unsubscribe(_) | Op::Replayed { .. } => {}
            }
        }
        let mut state = guard(&self.state);
        (state.ready, state.ended) = (false, true);
        self.changed.notify_all();
    }

    pub fn connected(&self, hello: Arc<Hello>) {
        let mut state = guard(&self.state);
        (state.ready, state.hello, state.reason) = (true, Some(hello), None);
        self.changed.notify_all();
    }

    /// There is no connection, for this reason.
    pub fn disconnected(&self, reason: Error) {
        let mut state = guard(&self.state);
        (state.ready, state.reason) = (false, Some(reason));
    }

    pub fn hello(&self) -> Option<Arc<Hello>> {
        guard(&self.state).hello.clone()
    }

    pub fn ready(&self) -> bool {
        guard(&self.state).ready
    }

    /// Why there is no connection: NOT_CONNECTED, or UNAUTHORIZED where the gateway refuses us.
    pub fn reason(&self) -> Error {
        let reason = guard(&self.state).reason.clone();
        reason
            .unwrap_or_else(|| Error::new(Kind::NotConnected, format!("no gateway answers at {}", self.url)))
    }

    /// Waits until a gateway is connected.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let until = deadline(timeout);
        let mut state = guard(&self.state);
        while !state.ready {
            if state.ended {
                return Err(closed());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(self.reason());
            }
            state = self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |r| r.0);
        }
        Ok(())
    }
}

pub(super) fn closed() -> Error {
    Error::new(Kind::Closed, "this client is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_told_and_after_the_end_nothing_is_taken() {
        let context = zmq::Context::new();
        let (_woken, waker) = crate::wake::pair(&context).unwrap();
        let mut shared = Shared::new(Endpoint::connect("tcp://127.0.0.1:1").unwrap(), waker);
        shared.check().unwrap();
        shared.post(Op::Unsubscribe(1)).unwrap();
        assert_eq!(shared.take().unwrap().len(), 1);
        shared.ended(&closed());
        assert_eq!(shared.post(Op::Unsubscribe(1)).unwrap_err().kind(), Kind::Closed);
        assert_eq!(shared.wait(Duration::MAX).unwrap_err().kind(), Kind::Closed);
        shared.pid = 0;
        assert_eq!(shared.check().unwrap_err().kind(), Kind::Forked);
    }
}
