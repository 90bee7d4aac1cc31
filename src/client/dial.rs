//! Finding a gateway: a thread that lives until one is connected.
//!
//! It is apart from the I/O thread since asking the resolver blocks, and so does finding out who else listens there.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::link::{Link, Tries};
use super::shared::Shared;
use crate::{Error, Kind, Result};

/// Until addresses are looked up anew.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Between attempts: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The thread's end in the I/O thread. Dropping it lets the thread end.
pub(super) struct Dialer {
    /// Reasons why nobody answers, and at last a connection.
    pub news: Receiver<Result<Link>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dialer {
    /// Begins to dial after `pause`.
    pub fn start(context: &zmq::Context, shared: &Arc<Shared>, pause: Duration) -> Result<Dialer> {
        let (sender, news) = unbounded();
        let (stop, stopped) = bounded(0);
        let (context, shared) = (context.clone(), shared.clone());
        let thread = std::thread::Builder::new()
            .name("hwgate-dial".into())
            .spawn(move || dial(context, &shared, pause, &sender, &stopped))
            .map_err(|error| Error::new(Kind::Internal, format!("cannot start a thread: {error}")))?;
        Ok(Dialer { news, stop: Some(stop), thread: Some(thread) })
    }

    /// Lets the thread end and waits for that, which a resolver may hold up.
    pub fn join(mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn dial(
    context: zmq::Context,
    shared: &Shared,
    pause: Duration,
    news: &Sender<Result<Link>>,
    stopped: &Receiver<()>,
) {
    // Its sender sends nothing, it only goes away.
    let stops_within = |pause| stopped.recv_timeout(pause).is_err_and(|error| !error.is_timeout());
    let go_on = || stopped.try_recv().is_err_and(|error| error.is_empty());
    // The number of requests is bounded, so the socket need not be.
    let prepare = |socket: &zmq::Socket| socket.set_sndhwm(0).and_then(|()| socket.set_rcvhwm(0));
    let mut pause = pause;
    while !stops_within(pause) {
        let start = Instant::now();
        let result =
            Link::connect_while(&context, zmq::DEALER, &shared.url, Tries::Once, &prepare, ATTEMPT, &go_on);
        let done = result.is_ok();
        if !go_on() || news.send(result).is_err() {
            return;
        }
        shared.wake();
        if done {
            return;
        }
        let next = if start.elapsed() >= ATTEMPT { PAUSE.0 } else { pause * 2 };
        pause = next.clamp(PAUSE.0, PAUSE.1);
    }
}
