//! A connected socket that knows whether it is connected.
//!
//! libzmq's `connect` succeeds whether or not anyone listens. Its monitor tells when the handshake is
//! done, when it failed since the other side has a socket that does not fit, and when the peer is gone.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zmq::SocketEvent as E;

use crate::error::{Error, Kind, Result};
use crate::wire::Endpoint;

/// How long a peer that does not fit is asked what it is instead.
const PROBE: Duration = Duration::from_millis(300);
/// How often a wait looks whether it shall go on.
const LOOK: Duration = Duration::from_millis(50);
/// "Never" for libzmq, which takes milliseconds and adds as many at random.
const NEVER_MS: i32 = 24 * 3600 * 1000;

/// What the monitor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The handshake is done: messages go through.
    Up,
    /// The peer is gone; libzmq tries again by itself.
    Down,
    /// The peer speaks ZeroMQ, but its socket does not fit ours.
    Misfit,
    /// The peer cut the handshake, or does not speak ZeroMQ.
    Broken,
    /// The peer does not let us in.
    Unauthorized,
    /// Nobody listens; only of sockets that connect [once](Tries::Once).
    Refused,
}

/// What a socket does when it cannot connect, or is no longer connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tries {
    /// It tries again by itself; what was not sent waits.
    Forever,
    /// Nothing: all that it receives came over one connection, and nothing that was given to it for one
    /// gateway goes to the next.
    Once,
}

/// Sets options before a socket connects.
pub(super) type Prepare<'a> = &'a dyn Fn(&zmq::Socket) -> zmq::Result<()>;

/// A socket, connected once and monitored.
pub(super) struct Link {
    pub(super) socket: zmq::Socket,
    pub(super) monitor: zmq::Socket,
    /// What it connects to: one address, where the endpoint had a name that the resolver was asked for.
    pub(super) address: Endpoint,
}

impl Link {
    /// Connects and waits up to `wait` until the handshake is done.
    ///
    /// A name may stand for several addresses, `localhost` for one of each family, and libzmq would
    /// try the first only. So all are tried at once, and the first to answer stays.
    ///
    /// NOT_CONNECTED when nobody answers in time, with the reason where one can be found;
    /// UNAUTHORIZED when the peer refuses us.
    pub(super) fn connect(
        context: &zmq::Context,
        kind: zmq::SocketType,
        url: &Endpoint,
        wait: Duration,
    ) -> Result<Link> {
        Link::connect_while(context, kind, url, Tries::Forever, &|_| Ok(()), wait, &|| true)
    }

    /// As [`Link::connect`], while `go_on` says so, which is asked again and again. With [`Tries::Once`] it
    /// ends as soon as all addresses have refused.
    pub(super) fn connect_while(
        context: &zmq::Context,
        kind: zmq::SocketType,
        url: &Endpoint,
        tries: Tries,
        prepare: Prepare,
        wait: Duration,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Link> {
        let deadline = Instant::now() + wait;
        let links = candidates(url)?
            .iter()
            .map(|address| Link::open(context, kind, address, tries, prepare))
            .collect::<Result<Vec<_>>>()?;
        let mut trouble = None;
        let mut refused = 0;
        while trouble != Some(Event::Misfit) && refused < links.len() && go_on() {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut items: Vec<_> = links.iter().map(|link| link.monitor.as_poll_item(zmq::POLLIN)).collect();
            if poll(&mut items, left.min(LOOK))? == 0 {
                if left.is_zero() {
                    break;
                }
                continue;
            }
            for (index, link) in links.iter().enumerate() {
                match link.event() {
                    Some(Event::Up) => return Ok(links.into_iter().nth(index).expect("it is one of them")),
                    Some(Event::Unauthorized) => {
                        let text = format!("{url} refuses this client; are the keys right?");
                        return Err(Error::new(Kind::Unauthorized, text));
                    }
                    Some(event @ (Event::Misfit | Event::Broken)) => trouble = Some(event),
                    // libzmq tells of every failed handshake but that with a wrong type of socket.
                    Some(Event::Down) if trouble.is_none() => trouble = Some(Event::Misfit),
                    Some(Event::Refused) => refused += 1,
                    Some(Event::Down) | None => {}
                }
            }
        }
        drop(links);
        Err(Error::new(Kind::NotConnected, explain(context, kind, url, trouble)))
    }

    /// Begins to connect to one address. Does not block.
    pub(super) fn open(
        context: &zmq::Context,
        kind: zmq::SocketType,
        address: &Endpoint,
        tries: Tries,
        prepare: Prepare,
    ) -> Result<Link> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let what = |error| zmq_error(address, error);
        let socket = context.socket(kind).map_err(what)?;
        let monitor = context.socket(zmq::PAIR).map_err(what)?;
        socket.set_linger(0).map_err(what)?;
        monitor.set_linger(0).map_err(what)?;
        // libzmq's I/O thread waits where events are not read: with it every socket of the context.
        monitor.set_rcvhwm(0).map_err(what)?;
        socket.set_ipv6(address.needs_ipv6()).map_err(what)?;
        let name = format!("inproc://monitor-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut events = vec![
            E::HANDSHAKE_SUCCEEDED,
            E::HANDSHAKE_FAILED_NO_DETAIL,
            E::HANDSHAKE_FAILED_PROTOCOL,
            E::HANDSHAKE_FAILED_AUTH,
            E::DISCONNECTED,
        ];
        if tries == Tries::Once {
            socket.set_reconnect_ivl(NEVER_MS).map_err(what)?;
            events.push(E::CONNECT_RETRIED);
        }
        prepare(&socket).map_err(what)?;
        let mask = events.iter().fold(0, |mask, event| mask | i32::from(event.to_raw()));
        socket.monitor(&name, mask).map_err(what)?;
        monitor.connect(&name).map_err(what)?;
        socket.connect(&address.to_string()).map_err(what)?;
        Ok(Link { socket, monitor, address: address.clone() })
    }

    /// The next event, if there is one. Does not block.
    pub(super) fn event(&self) -> Option<Event> {
        loop {
            let frames = self.monitor.recv_multipart(zmq::DONTWAIT).ok()?;
            // Number and value in the byte order of the machine; compared as numbers, since turning an
            // unknown one into the binding's enum panics.
            let number = u16::from_ne_bytes(*frames.first()?.first_chunk()?);
            let is = |event: E| number == event.to_raw();
            let event = match () {
                () if is(E::HANDSHAKE_SUCCEEDED) => Event::Up,
                () if is(E::DISCONNECTED) => Event::Down,
                () if is(E::HANDSHAKE_FAILED_PROTOCOL) => Event::Misfit,
                () if is(E::HANDSHAKE_FAILED_NO_DETAIL) => Event::Broken,
                () if is(E::HANDSHAKE_FAILED_AUTH) => Event::Unauthorized,
                () if is(E::CONNECT_RETRIED) => Event::Refused,
                () => continue,
            };
            return Some(event);
        }
    }
}

/// The addresses to try. Asks the resolver for names other than `localhost`, which may block.
fn candidates(url: &Endpoint) -> Result<Vec<Endpoint>> {
    let Endpoint::Tcp { host, port } = url else { return Ok(vec![url.clone()]) };
    let tcp = |address: IpAddr| Endpoint::Tcp { host: address.to_string(), port: *port };
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![
            tcp(std::net::Ipv4Addr::LOCALHOST.into()),
            tcp(std::net::Ipv6Addr::LOCALHOST.into()),
        ]);
    }
    if host.contains(':') || host.parse::<IpAddr>().is_ok() {
        return Ok(vec![url.clone()]);
    }
    let found = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|_| Error::new(Kind::NotConnected, format!("{url}: the host {host} is not known")))?;
    let mut addresses: Vec<Endpoint> = found.map(|address| tcp(address.ip())).collect();
    addresses.dedup();
    addresses.truncate(8);
    Ok(addresses)
}

/// Why nobody answered, and what to do.
fn explain(context: &zmq::Context, kind: zmq::SocketType, url: &Endpoint, trouble: Option<Event>) -> String {
    if trouble.is_none() {
        return format!("no gateway answers at {url}");
    }
    let fits = |kind| Link::connect_plain(context, kind, url);
    match kind {
        zmq::DEALER if fits(zmq::PUSH) => format!("{url} is the plain log port; connect to commands (10003)"),
        zmq::PUSH if fits(zmq::DEALER) => format!("{url} takes no plain logs; connect to logs (10000)"),
        _ => format!(
            "what listens at {url} is not a gateway's endpoint for this; commands (10003) is the one to use"
        ),
    }
}

impl Link {
    /// Whether the peer takes a socket of this kind; nothing is sent.
    fn connect_plain(context: &zmq::Context, kind: zmq::SocketType, url: &Endpoint) -> bool {
        let Ok(addresses) = candidates(url) else { return false };
        addresses.iter().any(|address| {
            let Ok(link) = Link::open(context, kind, address, Tries::Forever, &|_| Ok(())) else {
                return false;
            };
            let mut items = [link.monitor.as_poll_item(zmq::POLLIN)];
            let _ = poll(&mut items, PROBE);
            link.event() == Some(Event::Up)
        })
    }
}

/// Waits for any of the items, and returns how many are ready; a signal does not end the wait.
pub(super) fn poll(items: &mut [zmq::PollItem], timeout: Duration) -> Result<i32> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so that the last fraction of a millisecond does not spin.
        let milliseconds = i64::try_from(left.as_millis()).unwrap_or(i64::MAX - 1);
        match zmq::poll(items, milliseconds + i64::from(!left.is_zero())) {
            Err(zmq::Error::EINTR) => continue,
            other => return other.map_err(|error| zmq_error("poll", error)),
        }
    }
}

/// An error of libzmq in words for people.
pub(super) fn zmq_error(what: impl std::fmt::Display, error: zmq::Error) -> Error {
    let kind = match error {
        zmq::Error::EADDRINUSE => Kind::AddrInUse,
        zmq::Error::EACCES => Kind::Permission,
        zmq::Error::EINVAL | zmq::Error::EPROTONOSUPPORT | zmq::Error::ENODEV => Kind::InvalidArgument,
        zmq::Error::EMFILE => Kind::Io,
        _ => Kind::Internal,
    };
    Error::new(kind, format!("{what}: {}", error.message()))
}
