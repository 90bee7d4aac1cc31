//! Proves of the libzmq in this workspace what the zmq crate's own lacks.

mod curve;
#[cfg(target_os = "linux")]
mod platform;
mod zap;

use std::time::Duration;
use zmq::{Context, Socket};

/// Long enough for a busy machine; nothing waits so long unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long "nothing arrives" is watched.
const SILENCE: Duration = Duration::from_millis(700);

/// A socket that loses nothing but never hangs.
fn socket(context: &Context, kind: zmq::SocketType) -> Socket {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    wait_at_most(&socket, PATIENCE);
    socket
}

fn wait_at_most(socket: &Socket, time: Duration) {
    let milliseconds = i32::try_from(time.as_millis()).unwrap();
    socket.set_rcvtimeo(milliseconds).unwrap();
    socket.set_sndtimeo(milliseconds).unwrap();
}

/// Binds to a free port and returns where.
fn bind(socket: &Socket) -> String {
    socket.bind("tcp://127.0.0.1:*").unwrap();
    socket.get_last_endpoint().unwrap().unwrap()
}

/// What arrives within [`SILENCE`], if anything does.
fn overheard(socket: &Socket) -> Option<Vec<u8>> {
    wait_at_most(socket, SILENCE);
    let heard = match socket.recv_bytes(0) {
        Ok(bytes) => Some(bytes),
        Err(zmq::Error::EAGAIN) => None,
        Err(error) => panic!("{error}"),
    };
    wait_at_most(socket, PATIENCE);
    heard
}

#[test]
fn version_and_capabilities() {
    assert_eq!(hwgate_zmq::version_string(), "4.3.5");
    let present: Vec<_> =
        hwgate_zmq::capabilities().into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
    let expected: &[&str] = if cfg!(windows) { &["curve"] } else { &["curve", "ipc"] };
    assert_eq!(present, expected);
}

#[test]
fn transports_that_are_left_out_are_unknown() {
    let context = Context::new();
    let socket = socket(&context, zmq::PULL);
    assert_eq!(socket.bind("ws://127.0.0.1:*"), Err(zmq::Error::EPROTONOSUPPORT));
    assert_eq!(socket.connect("wss://127.0.0.1:1"), Err(zmq::Error::EPROTONOSUPPORT));
}

#[test]
fn endpoints_are_checked() {
    use hwgate_zmq::{EndpointError, check_endpoint};
    for good in ["tcp://127.0.0.1:1", "tcp://*:*", "tcp://[::1]:1", "inproc://x"] {
        assert_eq!(check_endpoint(good), Ok(()));
    }
    assert_eq!(check_endpoint("ipc:///tmp/x").is_ok(), cfg!(unix));
    type Kind = fn(String) -> EndpointError;
    let bad: [(&str, Kind); 7] = [
        ("tcp://a\0b", EndpointError::Nul),
        ("", EndpointError::NoScheme),
        ("localhost:1", EndpointError::NoScheme),
        ("tcp://", EndpointError::NoAddress),
        ("ws://localhost:1", EndpointError::Scheme),
        ("TCP://localhost:1", EndpointError::Scheme),
        ("udp://localhost:1", EndpointError::Scheme),
    ];
    for (endpoint, kind) in bad {
        let error = check_endpoint(endpoint).unwrap_err();
        assert_eq!(error, kind(endpoint.into()));
        assert!(error.to_string().contains(&format!("{endpoint:?}")), "{error}");
    }
}

#[test]
fn nodrop_makes_a_full_queue_show() {
    let context = Context::new();
    let mut publisher = socket(&context, zmq::XPUB);
    publisher.set_sndhwm(1).unwrap();
    hwgate_zmq::set_xpub_nodrop(&mut publisher, true).unwrap();
    publisher.bind("inproc://nodrop").unwrap();
    let subscriber = socket(&context, zmq::SUB);
    subscriber.set_rcvhwm(1).unwrap();
    subscriber.connect("inproc://nodrop").unwrap();
    subscriber.set_subscribe(b"").unwrap();
    assert_eq!(publisher.recv_bytes(0).unwrap(), [1]);

    let sent = (0..10).find(|_| publisher.send("x", zmq::DONTWAIT) == Err(zmq::Error::EAGAIN));
    assert_eq!(sent, Some(2), "one message in each queue, then EAGAIN");
    hwgate_zmq::set_xpub_nodrop(&mut publisher, false).unwrap();
    publisher.send("x", zmq::DONTWAIT).unwrap();

    let mut other = socket(&context, zmq::PULL);
    assert_eq!(hwgate_zmq::set_xpub_nodrop(&mut other, true), Err(zmq::Error::EINVAL));
}
