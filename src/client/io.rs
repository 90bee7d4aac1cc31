//! The I/O thread of a client: owns all sockets, and never blocks but in `poll`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::{Call, Calls};
use super::dial::Dialer;
use super::feed::Feed;
use super::hello::Hello;
use super::link::{self, Event, Link};
use super::options::Options;
use super::order::Ask;
use super::shared::{Op, Shared, closed};
use crate::wire::rpc;
use crate::{Error, Kind, Result, wake};

/// The id of `hello` and `ping`; requests count from 1.
const OWN_ID: u64 = 0;
/// Replies taken before other sockets have their turn.
const TURN: usize = 1000;
/// How long the gateway may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a replay may take.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a page of a replay, about.
const REPLAY_BYTES: usize = 4 << 20;
/// Before it dials again where a connection did not last, or something else listens.
const PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted so long is likely to come back at once.
const LASTED: Duration = Duration::from_secs(1);
/// The longest wait, for no reason but that there must be one.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Starts the thread; it ends after [`Shared::close`].
pub(super) fn spawn(
    shared: &Arc<Shared>,
    context: zmq::Context,
    woken: zmq::Socket,
    options: &Options,
) -> Result<()> {
    let dead_after = options.dead_after.clamp(Duration::from_millis(100), Duration::from_secs(3600));
    let now = Instant::now();
    let mut io = Io {
        dialer: Some(Dialer::start(&context, shared, Duration::ZERO)?),
        link: None,
        greeting: None,
        heard: now,
        pinged: None,
        lost: now,
        since: now,
        calls: Calls::new(shared.url.clone(), options.max_waiting),
        feeds: Vec::new(),
        shared: shared.clone(),
        context,
        woken,
        dead_after,
    };
    let shared = shared.clone();
    let run = move || {
        let error = match catch_unwind(AssertUnwindSafe(|| io.run())) {
            Ok(()) => closed(),
            Err(_) => Error::new(Kind::Internal, "a defect in the client: its I/O thread has panicked"),
        };
        let _ = catch_unwind(AssertUnwindSafe(|| io.end(&error)));
        drop(io);
        shared.ended(&error);
    };
    let thread = std::thread::Builder::new().name("hwgate-client".into()).spawn(run);
    thread.map_err(|error| Error::new(Kind::Internal, format!("cannot start a thread: {error}")))?;
    Ok(())
}

struct Io {
    /// Looks for a gateway; none once one is connected.
    dialer: Option<Dialer>,
    /// The connection to the `commands` endpoint.
    link: Option<Link>,
    /// Until when `hello` must be answered; none once it is.
    greeting: Option<Instant>,
    /// The last sign of life on this connection.
    heard: Instant,
    /// When it was asked for one, since then.
    pinged: Option<Instant>,
    /// The last sign of life on the connection before.
    lost: Instant,
    /// When this connection was ready.
    since: Instant,
    calls: Calls,
    feeds: Vec<Feed>,
    shared: Arc<Shared>,
    context: zmq::Context,
    woken: zmq::Socket,
    dead_after: Duration,
}

impl Io {
    fn run(&mut self) {
        while let Some(ops) = self.shared.take() {
            for op in ops {
                self.handle(op);
            }
            self.turn_line();
            let now = Instant::now();
            let ready = self.ready();
            let mut asks = Vec::new();
            for feed in &mut self.feeds {
                asks.extend(feed.turn(&self.context, ready, now).into_iter().map(|ask| (feed.id, ask)));
            }
            for (subscription, ask) in asks {
                self.replay(subscription, ask);
            }
            self.calls.expire(now, || self.shared.reason());
            self.wait();
        }
    }

    fn ready(&self) -> bool {
        self.link.is_some() && self.greeting.is_none()
    }

    /// Waits for sockets, wakers and timers.
    fn wait(&mut self) {
        let ping = self.dead_after / 3;
        let line = match (&self.link, self.greeting) {
            (Some(_), None) => Some(self.pinged.map_or(self.heard + ping, |at| at + self.dead_after - ping)),
            (_, until) => until,
        };
        let feeds = self.feeds.iter().filter_map(Feed::next_deadline);
        let next = feeds.chain(line).chain(self.calls.next_deadline()).min();
        let left = next.map_or(MAX_WAIT, |at| at.saturating_duration_since(Instant::now()).min(MAX_WAIT));
        let links = self.link.iter().flat_map(|link| [&link.socket, &link.monitor]);
        let sockets = [&self.woken].into_iter().chain(links).chain(self.feeds.iter().flat_map(Feed::sockets));
        let mut items: Vec<_> = sockets.map(|socket| socket.as_poll_item(zmq::POLLIN)).collect();
        if link::poll(&mut items, left).is_err() {
            // Never seen; it must not become a busy loop.
            std::thread::sleep(Duration::from_millis(10));
        }
        wake::clear(&self.woken);
    }

    fn handle(&mut self, op: Op) {
        match op {
            Op::Call(call) => self.call(call),
            Op::Subscribe { id, topics, queue } => {
                let mut feed = Feed::new(id, topics, queue, self.dead_after);
                if let Some(hello) = self.shared.hello().filter(|_| self.ready()) {
                    feed.aim(&self.context, hello.events(), &hello.session, Instant::now());
                }
                self.feeds.push(feed);
            }
            Op::Unsubscribe(id) => self.feeds.retain(|feed| feed.id != id),
            Op::Replayed { subscription, number, result } => {
                let Some(feed) = self.feeds.iter_mut().find(|feed| feed.id == subscription) else { return };
                if let Some(ask) = feed.order.replayed(number, result, Instant::now()) {
                    self.replay(subscription, ask);
                }
            }
        }
    }

    fn call(&mut self, call: Call) {
        let Io { calls, shared, link, .. } = self;
        calls.add(call, || shared.reason(), &mut |frame| send(link, frame));
    }

    fn replay(&mut self, subscription: u64, ask: Ask) {
        let Some(feed) = self.feeds.iter().find(|feed| feed.id == subscription) else { return };
        let id = self.shared.next_id();
        let method = "events.replay";
        let mut params = json!({"session": ask.session, "after": ask.after, "max_bytes": REPLAY_BYTES});
        // Without any, all topics.
        if !feed.topics.iter().any(String::is_empty) {
            params["topics"] = json!(feed.topics);
        }
        let shared = self.shared.clone();
        let reply = move |result: Result<Value>| {
            let _ = shared.post(Op::Replayed { subscription, number: ask.number, result });
        };
        self.call(Call {
            id,
            method: method.to_owned(),
            frame: rpc::request(id, method, &params),
            timeout: REPLAY_TIMEOUT,
            deadline: Instant::now() + REPLAY_TIMEOUT,
            internal: true,
            reply: Box::new(reply),
        });
    }

    fn turn_line(&mut self) {
        let now = Instant::now();
        if self.link.is_none() {
            self.turn_dialer(now);
        }
        let Some(link) = &self.link else { return };
        // First whether it is over: what is then in the socket is all there will be.
        let gone = std::iter::from_fn(|| link.event()).any(|event| event != Event::Up);
        for _ in 0..if gone { usize::MAX } else { TURN } {
            let Some(Ok(frames)) = self.link.as_ref().map(|link| link.socket.recv_multipart(zmq::DONTWAIT))
            else {
                break;
            };
            (self.heard, self.pinged) = (now, None);
            let reply = frames.last().and_then(|frame| rpc::parse_reply(frame));
            match reply {
                // The first that comes on a connection.
                Some((_, outcome)) if self.greeting.is_some() => self.greeted(outcome, now),
                Some((id, outcome)) => self.calls.answer(&id, outcome),
                None => {}
            }
        }
        self.check_alive(gone, now);
    }

    fn turn_dialer(&mut self, now: Instant) {
        let dialer = match self.dialer.take() {
            Some(dialer) => dialer,
            None => return self.dial(PAUSE),
        };
        match dialer.news.try_recv() {
            Ok(Ok(link)) => {
                self.link = Some(link);
                (self.greeting, self.heard, self.pinged) = (Some(now + HELLO_TIMEOUT), now, None);
                return send(&self.link, &rpc::request(OWN_ID, "hello", &Value::Null));
            }
            Ok(Err(reason)) => self.shared.disconnected(reason),
            // It has panicked; the next one starts at the next turn.
            Err(error) if error.is_disconnected() => return,
            Err(_) => {}
        }
        self.dialer = Some(dialer);
    }

    fn dial(&mut self, pause: Duration) {
        match Dialer::start(&self.context, &self.shared, pause) {
            Ok(dialer) => self.dialer = Some(dialer),
            Err(error) => self.shared.disconnected(error),
        }
    }

    fn greeted(&mut self, outcome: Result<Value>, now: Instant) {
        let url = &self.shared.url;
        let called = self.link.as_ref().map_or(url, |link| &link.address);
        let hello = match outcome.map(|reply| Hello::read(reply, called)) {
            Ok(Some(hello)) => Arc::new(hello),
            Ok(None) => {
                let text = format!("what answers at {url} is no gateway; commands (10003) is the one to use");
                return self.redial(Error::new(Kind::NotConnected, text));
            }
            Err(error) => {
                let kind = if error.kind() == Kind::Unauthorized { error.kind() } else { Kind::NotConnected };
                let text = format!("{url} answers: {}", error.message());
                return self.redial(Error::new(kind, text));
            }
        };
        (self.greeting, self.since) = (None, now);
        let silent = now.saturating_duration_since(self.lost);
        let Io { calls, link, .. } = self;
        calls.connected(&hello.session, hello.max_message, silent, &mut |frame| send(link, frame));
        for feed in &mut self.feeds {
            feed.aim(&self.context, hello.events(), &hello.session, now);
        }
        self.shared.connected(hello);
    }

    /// Asks for a sign of life after some silence, and gives up what gives none.
    fn check_alive(&mut self, gone: bool, now: Instant) {
        let Some(_) = &self.link else { return };
        let (url, ping) = (&self.shared.url, self.dead_after / 3);
        let text = if gone {
            format!("{url} has closed the connection")
        } else if let Some(until) = self.greeting {
            if now < until {
                return;
            }
            format!(
                "what listens at {url} does not answer as a gateway does; commands (10003) is the one to use"
            )
        } else if let Some(pinged) = self.pinged {
            if now < pinged + self.dead_after - ping {
                return;
            }
            format!("{url} gives no sign of life for {:?}", self.dead_after)
        } else {
            if now >= self.heard + ping {
                send(&self.link, &rpc::request(OWN_ID, "ping", &Value::Null));
                self.pinged = Some(now);
            }
            return;
        };
        self.redial(Error::new(Kind::NotConnected, text));
    }

    /// Gives the connection up and looks for another one.
    fn redial(&mut self, reason: Error) {
        let lasted = self.greeting.is_none() && self.since.elapsed() >= LASTED;
        if self.greeting.is_none() {
            self.lost = self.heard;
        }
        (self.link, self.greeting, self.pinged) = (None, None, None);
        self.calls.disconnected();
        self.shared.disconnected(reason);
        self.dial(if lasted { Duration::ZERO } else { PAUSE });
    }

    fn end(&mut self, error: &Error) {
        self.link = None;
        self.calls.end_all(error);
        for feed in self.feeds.drain(..) {
            feed.queue.close(error.clone());
        }
        if let Some(dialer) = self.dialer.take() {
            dialer.join();
        }
    }
}

/// Never waits: the socket has no bound.
fn send(link: &Option<Link>, frame: &[u8]) {
    if let Some(link) = link {
        // The empty frame makes it look like REQ, so that proxies find the body. A connection that is over says so by
        // its monitor.
        let _ = link.socket.send_multipart([&[][..], frame], zmq::DONTWAIT);
    }
}
