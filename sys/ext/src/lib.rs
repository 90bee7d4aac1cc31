//! Safe functions for what the [`zmq`] crate lacks, so that the rest of hwgate needs no `unsafe`:
//! three socket options, receiving without allocations, what slow subscribers lose, what the libzmq in this program can do, and a
//! check of endpoints that come from users.
//!
//! ```
//! use hwgate_zmq::{check_endpoint, set_zap_enforce_domain};
//!
//! hwgate_zmq::require_curve()?;
//! let context = zmq::Context::new();
//! let mut logs = context.socket(zmq::PULL)?;
//! logs.set_zap_domain("logs")?;
//! set_zap_enforce_domain(&mut logs, true)?;
//! check_endpoint("tcp://127.0.0.1:*")?;
//! logs.bind("tcp://127.0.0.1:*")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffers;
mod incoming;
mod lost;

use std::error::Error;
use std::ffi::c_int;
use std::fmt;
use zmq::Socket;

pub use buffers::ReceiveBuffers;
pub use incoming::{Incoming, Peers};
pub use lost::{Lost, lost};

/// `ZMQ_ZAP_ENFORCE_DOMAIN`: a draft in libzmq 4.3.5's header, but set and obeyed by the stable build.
const ZAP_ENFORCE_DOMAIN: c_int = 93;

/// Whether a socket with a ZAP domain refuses peers while nobody answers at `inproc://zeromq.zap.01`
/// in its context. libzmq's default is no: it then lets **every** peer in, CURVE or not, so every
/// bound socket that relies on a ZAP handler wants `true`, set before `bind`.
///
/// Without a ZAP domain on the socket it has no effect.
///
/// # Errors
/// [`zmq::Error::ETERM`] when the context has ended.
///
/// # Examples
/// ```
/// let mut socket = zmq::Context::new().socket(zmq::PULL)?;
/// socket.set_zap_domain("logs")?;
/// hwgate_zmq::set_zap_enforce_domain(&mut socket, true)?;
/// # Ok::<(), zmq::Error>(())
/// ```
pub fn set_zap_enforce_domain(socket: &mut Socket, on: bool) -> zmq::Result<()> {
    set_option_int(socket, ZAP_ENFORCE_DOMAIN, on.into())
}

/// Whether an XPUB or PUB socket, when a subscriber's queue is full, fails with
/// [`zmq::Error::EAGAIN`] (or waits up to its send time-out) instead of dropping that subscriber's
/// message in silence. Off by default; may be changed at any time.
///
/// # Errors
/// [`zmq::Error::EINVAL`] when the socket is of another type.
///
/// # Examples
/// ```
/// let mut socket = zmq::Context::new().socket(zmq::XPUB)?;
/// hwgate_zmq::set_xpub_nodrop(&mut socket, true)?;
/// # Ok::<(), zmq::Error>(())
/// ```
pub fn set_xpub_nodrop(socket: &mut Socket, on: bool) -> zmq::Result<()> {
    set_option_int(socket, zmq_sys::ZMQ_XPUB_NODROP as c_int, on.into())
}

/// Lets the next `bind` of `tcp://` or `ipc://` take this listening descriptor instead of making one,
/// as systemd's socket activation hands it over. The endpoint given to `bind` then only names it.
/// libzmq closes the descriptor with the socket.
///
/// # Errors
/// [`zmq::Error::EINVAL`] for a negative number. A descriptor that does not listen shows only later:
/// nobody can connect.
///
/// # Examples
/// ```no_run
/// let mut socket = zmq::Context::new().socket(zmq::PULL)?;
/// hwgate_zmq::set_use_fd(&mut socket, 3)?;
/// socket.bind("tcp://127.0.0.1:10000")?;
/// # Ok::<(), zmq::Error>(())
/// ```
#[cfg(unix)]
pub fn set_use_fd(socket: &mut Socket, descriptor: std::os::fd::RawFd) -> zmq::Result<()> {
    if descriptor < 0 {
        return Err(zmq::Error::EINVAL);
    }
    set_option_int(socket, zmq_sys::ZMQ_USE_FD as c_int, descriptor)
}

fn set_option_int(socket: &mut Socket, option: c_int, value: c_int) -> zmq::Result<()> {
    // SAFETY: `socket` is alive and borrowed for us alone, so the pointer is a socket's and no other
    // thread is in it; libzmq copies the value, whose size is the one given.
    let rc = unsafe {
        zmq_sys::zmq_setsockopt(socket.as_mut_ptr(), option, (&raw const value).cast(), size_of::<c_int>())
    };
    if rc == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> zmq::Error {
    // SAFETY: it reads this thread's errno.
    zmq::Error::from_raw(unsafe { zmq_sys::zmq_errno() })
}

/// What libzmq can be built with, by the names it knows them by, and whether this one was.
///
/// # Examples
/// ```
/// for (name, present) in hwgate_zmq::capabilities() {
///     println!("{name}: {present}");
/// }
/// ```
#[must_use]
pub fn capabilities() -> Vec<(&'static str, bool)> {
    ["curve", "ipc", "gssapi", "pgm", "norm", "tipc", "vmci", "WS", "WSS", "draft"]
        .into_iter()
        .map(|name| (name, has(name)))
        .collect()
}

fn has(name: &str) -> bool {
    zmq::has(name) == Some(true)
}

/// Whether this libzmq can encrypt and authenticate by CURVE. False means that a program's
/// `Cargo.toml` lacks hwgate's `[patch.crates-io]` lines.
#[must_use]
pub fn curve_available() -> bool {
    has("curve")
}

/// [`curve_available`] as a check to be made once at start.
///
/// # Errors
/// [`NoCurve`], whose text says what to do.
pub fn require_curve() -> Result<(), NoCurve> {
    if curve_available() { Ok(()) } else { Err(NoCurve) }
}

/// This program's libzmq has no CURVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCurve;

impl fmt::Display for NoCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "libzmq {} has no CURVE: copy the [patch.crates-io] lines of hwgate's Cargo.toml",
            version_string()
        )
    }
}

impl Error for NoCurve {}

/// libzmq's version, as in `4.3.5`.
///
/// # Examples
/// ```
/// assert_eq!(hwgate_zmq::version_string(), "4.3.5");
/// ```
#[must_use]
pub fn version_string() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch}")
}

/// Checks what a user gave as an endpoint before the `zmq` crate sees it, which panics at a NUL, and
/// before libzmq does, which knows more transports than the three that hwgate speaks: `tcp://`,
/// `inproc://` and, where this libzmq has it, `ipc://`.
///
/// Host, port and path are left to libzmq, whose `bind` and `connect` say what is wrong with them.
///
/// # Errors
/// [`EndpointError`], whose text is for the user.
///
/// # Examples
/// ```
/// use hwgate_zmq::{EndpointError, check_endpoint};
///
/// assert_eq!(check_endpoint("tcp://127.0.0.1:10000"), Ok(()));
/// assert_eq!(check_endpoint("127.0.0.1:10000"), Err(EndpointError::NoScheme("127.0.0.1:10000".into())));
/// ```
pub fn check_endpoint(endpoint: &str) -> Result<(), EndpointError> {
    if endpoint.contains('\0') {
        return Err(EndpointError::Nul(endpoint.into()));
    }
    let Some((scheme, address)) = endpoint.split_once("://") else {
        return Err(EndpointError::NoScheme(endpoint.into()));
    };
    match scheme {
        "tcp" | "inproc" => {}
        "ipc" if has("ipc") => {}
        _ => return Err(EndpointError::Scheme(endpoint.into())),
    }
    if address.is_empty() { Err(EndpointError::NoAddress(endpoint.into())) } else { Ok(()) }
}

/// Why an endpoint was refused; each holds the endpoint as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// It has a NUL in it.
    Nul(String),
    /// It has no `://`.
    NoScheme(String),
    /// It names a transport that is not offered here.
    Scheme(String),
    /// Nothing stands after the `://`.
    NoAddress(String),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nul(endpoint) => write!(f, "endpoint {endpoint:?} has a NUL character in it"),
            Self::NoScheme(endpoint) => {
                write!(f, "endpoint {endpoint:?} has no transport: write tcp://HOST:PORT")
            }
            Self::Scheme(endpoint) => {
                let ipc = if has("ipc") { ", ipc://PATH" } else { "" };
                write!(
                    f,
                    "endpoint {endpoint:?}: the transports here are tcp://HOST:PORT{ipc} and inproc://NAME"
                )
            }
            Self::NoAddress(endpoint) => write!(f, "endpoint {endpoint:?} has no address after the ://"),
        }
    }
}

impl Error for EndpointError {}
