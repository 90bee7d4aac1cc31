//! Listening sockets: one place for the options that keep strangers and old protocols out.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::config::Config;
use crate::wire::endpoint::Endpoint;
use crate::{Error, Kind, Result};

/// How long a peer may take for the ZeroMQ handshake, in milliseconds.
const HANDSHAKE_MS: i32 = 5000;
/// How long a closing socket goes on sending replies, in milliseconds.
const LINGER_MS: i32 = 500;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// After this many seconds without a byte, TCP asks whether the peer is still there.
const KEEPALIVE_IDLE_S: i32 = 60;

/// Replies that may wait for one client. Beyond it libzmq drops replies in silence, and a client may have so many
/// requests under way.
const REPLY_HWM: i32 = 100_000;

/// Subscriptions of one subscriber that libzmq holds until they are looked at. Few, since it takes them in as long as
/// there are some, within a call for something else: whoever sends them without end would keep the thread there.
const SUBSCRIPTIONS: i32 = 64;
/// The longest subscription, in bytes; beyond it the subscriber is cut.
const SUBSCRIPTION_BYTES: i64 = 64 << 10;

/// Sets what XPUB sockets have besides what all have.
pub(super) fn set_publisher(socket: &zmq::Socket, send_hwm: i32) -> zmq::Result<()> {
    socket.set_sndhwm(send_hwm)?;
    socket.set_rcvhwm(SUBSCRIPTIONS)?;
    socket.set_maxmsgsize(SUBSCRIPTION_BYTES)
}

/// Makes listening sockets, and keeps what belongs to all of them.
pub(super) struct Binder<'a> {
    context: &'a zmq::Context,
    config: &'a Config,
    /// Names and endpoints, with the ports that were chosen.
    pub endpoints: Vec<(String, String)>,
    /// For ipc: a second bind would silently take the path over, so the path has a lock, held while it is bound.
    pub locks: Vec<File>,
}

impl<'a> Binder<'a> {
    pub fn new(context: &'a zmq::Context, config: &'a Config) -> Binder<'a> {
        Binder { context, config, endpoints: Vec::new(), locks: Vec::new() }
    }

    pub fn context(&self) -> &'a zmq::Context {
        self.context
    }

    /// Makes a socket of `kind` that listens at `endpoint`, which is called `name`; `set` sets what others do not
    /// have. Gives the endpoint with the port that was chosen too.
    pub fn bind(
        &mut self,
        kind: zmq::SocketType,
        name: &str,
        endpoint: &str,
        set: impl FnOnce(&zmq::Socket) -> zmq::Result<()>,
    ) -> Result<(zmq::Socket, String)> {
        let (socket, endpoint, lock) = bind(self.context, kind, name, endpoint, self.config, set)?;
        self.locks.extend(lock);
        self.endpoints.push((name.to_owned(), endpoint.clone()));
        Ok((socket, endpoint))
    }
}

fn bind(
    context: &zmq::Context,
    kind: zmq::SocketType,
    name: &str,
    endpoint: &str,
    config: &Config,
    set: impl FnOnce(&zmq::Socket) -> zmq::Result<()>,
) -> Result<(zmq::Socket, String, Option<File>)> {
    let checked = Endpoint::bind(endpoint)?;
    let lock = match &checked {
        Endpoint::Ipc(path) => Some(lock_ipc(path, name)?),
        _ => None,
    };
    let failed = |error: zmq::Error| bind_error(name, endpoint, error);
    let socket = context.socket(kind).map_err(failed)?;
    socket.set_linger(LINGER_MS).map_err(failed)?;
    socket.set_ipv6(checked.needs_ipv6()).map_err(failed)?;
    socket.set_rcvhwm(config.intake.receive_hwm).map_err(failed)?;
    if kind == zmq::ROUTER {
        socket.set_sndhwm(REPLY_HWM).map_err(failed)?;
    }
    socket.set_maxmsgsize(config.intake.max_message as i64).map_err(failed)?;
    socket.set_handshake_ivl(HANDSHAKE_MS).map_err(failed)?;
    socket.set_backlog(BACKLOG).map_err(failed)?;
    socket.set_tcp_keepalive(1).map_err(failed)?;
    socket.set_tcp_keepalive_idle(KEEPALIVE_IDLE_S).map_err(failed)?;
    if !config.security.allow_old_zmtp {
        // With a domain libzmq refuses ZMTP 1 and 2, as which it would take random bytes.
        socket.set_zap_domain("hwgate").map_err(failed)?;
    }
    set(&socket).map_err(failed)?;
    socket.bind(&checked.to_bind()).map_err(failed)?;
    if let Endpoint::Ipc(path) = &checked {
        restrict(path).map_err(|error| Error::io(path.display(), &error))?;
    }
    let endpoint = socket.get_last_endpoint().map_err(failed)?.unwrap_or_else(|_| endpoint.to_owned());
    Ok((socket, endpoint, lock))
}

fn bind_error(name: &str, endpoint: &str, error: zmq::Error) -> Error {
    let (kind, advice) = match error {
        zmq::Error::EADDRINUSE => (Kind::AddrInUse, "is taken; is another gateway running?"),
        zmq::Error::EACCES => (Kind::Permission, "is not allowed to this user; choose a port above 1023"),
        zmq::Error::ENODEV | zmq::Error::EADDRNOTAVAIL => {
            (Kind::InvalidArgument, "is no address of this machine")
        }
        zmq::Error::EPROTONOSUPPORT => (Kind::NotEnabled, "has a transport that this build does not have"),
        zmq::Error::EMFILE => {
            (Kind::Io, "needs a descriptor and there is none left; raise the limit (ulimit -n)")
        }
        _ => return Error::new(Kind::Io, format!("{endpoint} ({name}): cannot listen: {error}")),
    };
    Error::new(kind, format!("{endpoint} ({name}) {advice}"))
}

fn lock_ipc(path: &Path, name: &str) -> Result<File> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let failed = |error| Error::io(Path::new(&lock).display(), &error);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&lock).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::new(
            Kind::AddrInUse,
            format!("ipc://{} ({name}) is taken; is another gateway running?", path.display()),
        )),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Only the gateway's user and group may connect.
fn restrict(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o660))?;
    let _ = path;
    Ok(())
}
