//! A ZAP domain keeps out whoever cannot be asked for it, and the handler is told who comes.

use crate::{bind, overheard, socket};
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use zmq::{Context, CurveKeyPair, Socket};

/// Lets everybody in, and passes on domain and address of each. Ends with its context.
fn handler(context: &Context) -> mpsc::Receiver<(String, String)> {
    let (tell, told) = mpsc::channel();
    let socket = context.socket(zmq::REP).unwrap();
    socket.set_linger(0).unwrap();
    socket.bind("inproc://zeromq.zap.01").unwrap();
    thread::spawn(move || {
        while let Ok(frames) = socket.recv_multipart(0) {
            let text = |i: usize| String::from_utf8(frames[i].clone()).unwrap();
            let _ = tell.send((text(2), text(3)));
            let reply: [&[u8]; 6] = [b"1.0", &frames[1], b"200", b"OK", b"somebody", b""];
            socket.send_multipart(reply, 0).unwrap();
        }
    });
    told
}

fn pull(context: &Context, domain: Option<&str>) -> Socket {
    let mut server = socket(context, zmq::PULL);
    if let Some(domain) = domain {
        server.set_zap_domain(domain).unwrap();
        hwgate_zmq::set_zap_enforce_domain(&mut server, true).unwrap();
    }
    server
}

/// Says all this to a fresh connection and keeps it open.
fn raw(endpoint: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    // The server may cut us before all is said.
    let _ = stream.write_all(bytes);
    stream
}

/// A PUSH of ZMTP 1.0: an anonymous identity, then one frame.
const ZMTP_1: &[u8] = b"\x01\x00\x04\x00old";

/// A PUSH (8) of ZMTP 2.0: signature, revision 1, an anonymous identity, then one frame.
const ZMTP_2: &[u8] = b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x08\x00\x00\x00\x03old";

/// Proves that what is refused below is spoken rightly.
#[test]
fn old_peers_are_heard_without_a_domain() {
    let context = Context::new();
    let server = pull(&context, None);
    let endpoint = bind(&server);
    for bytes in [ZMTP_1, ZMTP_2] {
        let _peer = raw(&endpoint, bytes);
        assert_eq!(server.recv_bytes(0).unwrap(), b"old");
    }
}

#[test]
fn old_peers_and_noise_are_refused_with_a_domain() {
    let context = Context::new();
    let told = handler(&context);
    let server = pull(&context, Some("logs"));
    let endpoint = bind(&server);

    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || {
        let mut bytes = vec![0; 2000];
        bytes.fill_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        });
        bytes
    };
    let mut peers = vec![raw(&endpoint, ZMTP_1), raw(&endpoint, ZMTP_2)];
    for _ in 0..50 {
        peers.push(raw(&endpoint, &noise()));
        // The same behind the start of a greeting of ZMTP 1, 2 and 3.
        for start in [&ZMTP_1[..2], &ZMTP_2[..14], b"\xff\0\0\0\0\0\0\0\x01\x7f\x03"] {
            peers.push(raw(&endpoint, &[start, &noise()].concat()));
        }
    }
    assert_eq!(overheard(&server), None);
    assert!(told.try_recv().is_err(), "none of them came so far as to be asked about");

    let client = socket(&context, zmq::PUSH);
    client.connect(&endpoint).unwrap();
    client.send("good", 0).unwrap();
    assert_eq!(server.recv_bytes(0).unwrap(), b"good");
    assert_eq!(told.recv().unwrap(), ("logs".into(), "127.0.0.1".into()));
}

/// libzmq fails open by itself; with the option a dead handler lets nobody in.
#[test]
fn without_a_handler_nobody_comes_in() {
    let context = Context::new();
    let keys = CurveKeyPair::new().unwrap();
    for enforce in [false, true] {
        for curve in [false, true] {
            let mut server = socket(&context, zmq::PULL);
            server.set_zap_domain("logs").unwrap();
            hwgate_zmq::set_zap_enforce_domain(&mut server, enforce).unwrap();
            let client = socket(&context, zmq::PUSH);
            if curve {
                server.set_curve_server(true).unwrap();
                server.set_curve_secretkey(&keys.secret_key).unwrap();
                client.set_curve_serverkey(&keys.public_key).unwrap();
                let own = CurveKeyPair::new().unwrap();
                client.set_curve_publickey(&own.public_key).unwrap();
                client.set_curve_secretkey(&own.secret_key).unwrap();
            }
            client.connect(&bind(&server)).unwrap();
            client.send("x", 0).unwrap();
            if enforce {
                assert_eq!(overheard(&server), None, "curve: {curve}");
            } else {
                assert_eq!(server.recv_bytes(0).unwrap(), b"x", "curve: {curve}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_handler_is_told_user_group_and_process_of_an_ipc_peer() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("ipc://{}", folder.path().join("socket").display());
    let context = Context::new();
    let told = handler(&context);
    let server = pull(&context, Some("logs"));
    server.bind(&endpoint).unwrap();
    let client = socket(&context, zmq::PUSH);
    client.connect(&endpoint).unwrap();
    client.send("x", 0).unwrap();
    let mut message = zmq::Message::new();
    server.recv(&mut message, 0).unwrap();
    assert_eq!(&*message, b"x");
    assert_eq!(message.gets("User-Id"), Some("somebody"));
    // SAFETY: they only read numbers of this process.
    let (user, group, process) = unsafe { (libc::getuid(), libc::getgid(), libc::getpid()) };
    assert_eq!(told.recv().unwrap(), ("logs".into(), format!("localhost:{user}:{group}:{process}")));
}

/// A listening descriptor from outside, as systemd passes it.
#[cfg(unix)]
#[test]
fn a_descriptor_from_outside_is_served() {
    use std::os::fd::IntoRawFd;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let context = Context::new();
    let mut server = socket(&context, zmq::PULL);
    assert_eq!(hwgate_zmq::set_use_fd(&mut server, -1), Err(zmq::Error::EINVAL));
    hwgate_zmq::set_use_fd(&mut server, listener.into_raw_fd()).unwrap();
    server.bind(&endpoint).unwrap();
    let client = socket(&context, zmq::PUSH);
    client.connect(&endpoint).unwrap();
    client.send("x", 0).unwrap();
    assert_eq!(server.recv_bytes(0).unwrap(), b"x");
}
