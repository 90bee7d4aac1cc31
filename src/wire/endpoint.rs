//! A ZeroMQ endpoint as a person writes it, checked before libzmq sees it.
//!
//! libzmq says "No such device" to `localhost`, takes a port that does not exist, and never connects to
//! an IPv6 address unless told beforehand; the binding panics on a NUL. So each is checked here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// A checked endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `tcp://host:port`
    Tcp {
        /// A name, an address without brackets, or `*`.
        host: String,
        /// 0 lets the system choose, for binding only.
        port: u16,
    },
    /// `ipc://path`; not on Windows.
    Ipc(PathBuf),
}

/// The longest path of a Unix socket, in bytes, less the NUL.
const IPC_MAX: usize = 103;

impl Endpoint {
    /// Checks an endpoint to listen on. `*` and port 0 are allowed.
    ///
    /// The error is INVALID_ARGUMENT and says what is allowed.
    pub fn bind(text: &str) -> Result<Endpoint> {
        parse(text).map_err(|reason| refused(text, &reason))
    }

    /// Checks an endpoint to connect to. `*`, port 0 and nothing-in-particular addresses are refused.
    pub fn connect(text: &str) -> Result<Endpoint> {
        let endpoint = Endpoint::bind(text)?;
        let reason = match &endpoint {
            Endpoint::Tcp { host, .. } if is_wildcard(host) => {
                "that is an address to listen on; name the host to connect to"
            }
            Endpoint::Tcp { port: 0, .. } => "port 0 is for listening; name the port to connect to",
            _ => return Ok(endpoint),
        };
        Err(refused(text, reason))
    }

    /// What to give to libzmq's `bind`: `localhost`, which it does not take, becomes 127.0.0.1.
    pub fn to_bind(&self) -> String {
        match self {
            Endpoint::Tcp { host, port } if host.eq_ignore_ascii_case("localhost") => {
                format!("tcp://127.0.0.1:{port}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the socket needs the IPv6 option before it binds this.
    pub fn needs_ipv6(&self) -> bool {
        matches!(self, Endpoint::Tcp { host, .. } if host.contains(':'))
    }

    /// Whether only this machine can reach what listens here.
    pub fn is_local(&self) -> bool {
        match self {
            Endpoint::Ipc(_) => true,
            Endpoint::Tcp { host, .. } => match host.parse::<IpAddr>() {
                Ok(address) => address.to_canonical().is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            },
        }
    }

    /// This endpoint with the host of `called` where it listens on every address, so that a client
    /// on another machine can use what a gateway told it.
    pub fn seen_from(self, called: &Endpoint) -> Endpoint {
        match (self, called) {
            (Endpoint::Tcp { host, port }, Endpoint::Tcp { host: called, .. }) if is_wildcard(&host) => {
                Endpoint::Tcp { host: called.clone(), port }
            }
            (endpoint, _) => endpoint,
        }
    }

    /// An `ipc://` endpoint with a relative path put below `base`.
    pub fn below(self, base: &Path) -> Endpoint {
        match self {
            Endpoint::Ipc(path) if !path.to_string_lossy().starts_with('@') => Endpoint::Ipc(base.join(path)),
            other => other,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Endpoint::Ipc(path) => write!(f, "ipc://{}", path.display()),
        }
    }
}

/// Whether this is a host name or address that can be written before `:port`.
pub fn check_host(host: &str) -> std::result::Result<(), String> {
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if host.contains(':') {
        // An interface may follow the address, as in fe80::1%eth0.
        let (address, zone) = host.split_once('%').unwrap_or((host, "x"));
        let plain = zone.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        return match address.parse::<Ipv6Addr>() {
            Ok(_) if plain && !zone.is_empty() => Ok(()),
            _ => Err(format!("{host} is no IPv6 address")),
        };
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return host.parse::<Ipv4Addr>().map(|_| ()).map_err(|_| format!("{host} is no IPv4 address"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if host.len() > 253 || !host.chars().all(allowed) {
        return Err("the host may have letters, digits, '-', '_' and '.'".into());
    }
    Ok(())
}

fn parse(text: &str) -> std::result::Result<Endpoint, String> {
    if text.contains('\0') {
        return Err("a NUL is not allowed".into());
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("the scheme is missing; write tcp://host:port or ipc://path".into());
    };
    match scheme {
        "tcp" => parse_tcp(rest),
        "ipc" => parse_ipc(rest),
        "inproc" => Err("inproc reaches only the own process; use tcp://host:port".into()),
        _ => Err(format!("scheme {scheme:?} is not taken; use tcp or ipc")),
    }
}

fn parse_tcp(rest: &str) -> std::result::Result<Endpoint, String> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the ']' is missing")?;
            if !host.contains(':') {
                return Err(format!("{host} is no IPv6 address"));
            }
            (host, port.strip_prefix(':').ok_or("the port is missing; write tcp://[address]:port")?)
        }
        None => {
            let (host, port) = rest.rsplit_once(':').ok_or("the port is missing; write tcp://host:port")?;
            if host.contains(':') {
                return Err("write an IPv6 address in brackets: tcp://[::1]:10003".into());
            }
            (host, port)
        }
    };
    if host != "*" {
        check_host(host)?;
    }
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits => Ok(Endpoint::Tcp { host: host.to_owned(), port }),
        _ => Err(format!("port {port:?} is not allowed; it is a number from 0 to 65535")),
    }
}

fn parse_ipc(path: &str) -> std::result::Result<Endpoint, String> {
    if cfg!(windows) {
        return Err("ipc is not available on Windows; use tcp://127.0.0.1:port".into());
    }
    if path.is_empty() || path == "*" {
        return Err("the path is missing; write ipc://path".into());
    }
    if path.len() > IPC_MAX {
        return Err(format!("the path is longer than {IPC_MAX} bytes, which sockets do not take"));
    }
    Ok(Endpoint::Ipc(PathBuf::from(path)))
}

fn is_wildcard(host: &str) -> bool {
    host == "*" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_unspecified())
}

fn refused(text: &str, reason: &str) -> Error {
    Error::new(Kind::InvalidArgument, format!("endpoint {text:?}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_taken_to_listen_on() {
        for (text, bound, ipv6, local) in [
            ("tcp://127.0.0.1:10003", "tcp://127.0.0.1:10003", false, true),
            ("tcp://localhost:1", "tcp://127.0.0.1:1", false, true),
            ("tcp://[::1]:0", "tcp://[::1]:0", true, true),
            ("tcp://*:65535", "tcp://*:65535", false, false),
            ("tcp://0.0.0.0:5", "tcp://0.0.0.0:5", false, false),
            ("tcp://[::]:5", "tcp://[::]:5", true, false),
            ("tcp://[::ffff:127.0.0.1]:5", "tcp://[::ffff:127.0.0.1]:5", true, true),
            ("tcp://[fe80::1%eth0]:5", "tcp://[fe80::1%eth0]:5", true, false),
            ("tcp://127.8.8.8:5", "tcp://127.8.8.8:5", false, true),
            ("tcp://eth0:5", "tcp://eth0:5", false, false),
        ] {
            let endpoint = Endpoint::bind(text).unwrap();
            assert_eq!(endpoint.to_bind(), bound);
            assert_eq!((endpoint.needs_ipv6(), endpoint.is_local()), (ipv6, local), "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (text, reason) in [
            ("tcp://127.0.0.1", "port is missing"),
            ("tcp://127.0.0.1:70000", "from 0 to 65535"),
            ("tcp://127.0.0.1:", "from 0 to 65535"),
            ("tcp://127.0.0.1:+5", "from 0 to 65535"),
            ("tcp://127.0.0.1:*", "from 0 to 65535"),
            ("tcp://127.0.0.256:5", "no IPv4"),
            ("tcp://::1:5", "in brackets"),
            ("tcp://[::1]", "port is missing"),
            ("tcp://[::g]:5", "no IPv6"),
            ("tcp://:5", "host is missing"),
            ("tcp://a b:5", "letters"),
            ("tcp://a;b:5", "letters"),
            ("tcp://a\0b:5", "NUL"),
            ("127.0.0.1:5", "scheme is missing"),
            ("udp://127.0.0.1:5", "use tcp or ipc"),
            ("inproc://x", "own process"),
            ("ipc://", if cfg!(windows) { "Windows" } else { "path is missing" }),
        ] {
            let error = Endpoint::bind(text).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidArgument);
            assert!(error.message().contains(reason), "{error}");
        }
        for text in ["tcp://*:5", "tcp://0.0.0.0:5", "tcp://[::]:5", "tcp://localhost:0"] {
            assert_eq!(Endpoint::connect(text).unwrap_err().kind(), Kind::InvalidArgument);
        }
        assert!(Endpoint::connect("tcp://localhost:5").is_ok());
    }

    #[test]
    fn a_wildcard_is_seen_as_the_host_that_was_called() {
        let called = Endpoint::connect("tcp://kiosk-7:10003").unwrap();
        let seen = |text| Endpoint::bind(text).unwrap().seen_from(&called).to_string();
        assert_eq!(seen("tcp://0.0.0.0:10000"), "tcp://kiosk-7:10000");
        assert_eq!(seen("tcp://[::]:10000"), "tcp://kiosk-7:10000");
        assert_eq!(seen("tcp://10.0.0.1:10000"), "tcp://10.0.0.1:10000");
    }

    proptest! {
        #[test]
        fn what_is_taken_comes_back_the_same(text in "(tcp|ipc)://[\\[\\]a-f0-9:.*%]{0,20}") {
            if let Ok(endpoint) = Endpoint::bind(&text) {
                prop_assert_eq!(Endpoint::bind(&endpoint.to_string()).unwrap(), endpoint);
            }
        }
    }
}
