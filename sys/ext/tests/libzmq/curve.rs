//! CURVE, whose cryptography is ours: between two of ours, and with a libsodium.

use crate::{PATIENCE, bind, overheard, socket, wait_at_most};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use zmq::{Context, CurveKeyPair, Socket};

/// Around the cipher's and the authenticator's block sizes, libzmq's own limits, and large.
const SIZES: [usize; 27] = [
    0,
    1,
    2,
    14,
    15,
    16,
    17,
    30,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    254,
    255,
    256,
    257,
    1000,
    8191,
    8192,
    65_535,
    65_536,
    1 << 20,
];

/// The same bytes in every language.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| u8::try_from((i * 7 + i / 256 + size) % 256).unwrap()).collect()
}

fn serve(socket: &Socket, keys: &CurveKeyPair) {
    socket.set_curve_server(true).unwrap();
    socket.set_curve_secretkey(&keys.secret_key).unwrap();
}

fn join(socket: &Socket, server_key: &[u8], keys: &CurveKeyPair) {
    socket.set_curve_serverkey(server_key).unwrap();
    socket.set_curve_publickey(&keys.public_key).unwrap();
    socket.set_curve_secretkey(&keys.secret_key).unwrap();
}

/// Answers each message by itself, `count` times. The socket comes back, to be closed when the last
/// answer has arrived.
fn echo(socket: Socket, count: usize) -> Socket {
    for _ in 0..count {
        let bytes = socket.recv_bytes(0).unwrap();
        socket.send(bytes, 0).unwrap();
    }
    socket
}

/// Sends every size and checks what comes back.
fn ask(socket: &Socket) {
    for size in SIZES {
        let sent = pattern(size);
        socket.send(&sent, 0).unwrap();
        assert!(socket.recv_bytes(0).unwrap() == sent, "{size} bytes came back otherwise");
    }
}

#[test]
fn it_is_there() {
    assert_eq!(zmq::has("curve"), Some(true));
    assert!(hwgate_zmq::curve_available());
    assert_eq!(hwgate_zmq::require_curve(), Ok(()));
}

#[test]
fn keys_can_be_made_before_any_context() {
    let (one, two) = (CurveKeyPair::new().unwrap(), CurveKeyPair::new().unwrap());
    assert_ne!(one.secret_key, two.secret_key);
    assert_ne!(one.public_key, two.public_key);
}

/// The pair from RFC 7748, 6.1.
#[test]
fn the_public_key_follows_from_the_secret_key() {
    let secret = [
        0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf,
        0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
    ];
    let public = [
        0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a, 0x0d,
        0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
    ];
    let secret = std::ffi::CString::new(zmq::z85_encode(&secret).unwrap()).unwrap();
    let mut text = [0_u8; 41];
    // SAFETY: 41 characters of room, and a string that ends in NUL.
    let rc = unsafe { zmq_sys::zmq_curve_public(text.as_mut_ptr().cast(), secret.as_ptr()) };
    assert_eq!(rc, 0);
    assert_eq!(std::str::from_utf8(&text[..40]).unwrap(), zmq::z85_encode(&public).unwrap());
}

#[test]
fn between_two_of_ours() {
    let context = Context::new();
    let (server_keys, client_keys) = (CurveKeyPair::new().unwrap(), CurveKeyPair::new().unwrap());
    let server = socket(&context, zmq::REP);
    serve(&server, &server_keys);
    let endpoint = bind(&server);
    let client = socket(&context, zmq::REQ);
    join(&client, &server_keys.public_key, &client_keys);
    client.connect(&endpoint).unwrap();

    let answering = thread::spawn(move || echo(server, SIZES.len()));
    ask(&client);
    answering.join().unwrap();
    assert_eq!(client.get_mechanism(), Ok(zmq::Mechanism::ZMQ_CURVE));
}

/// Subscriptions go through the cipher as commands, and flags of multipart messages with it.
#[test]
fn subscriptions_and_multipart() {
    let context = Context::new();
    let (server_keys, client_keys) = (CurveKeyPair::new().unwrap(), CurveKeyPair::new().unwrap());
    let publisher = socket(&context, zmq::XPUB);
    serve(&publisher, &server_keys);
    let endpoint = bind(&publisher);
    let subscriber = socket(&context, zmq::SUB);
    join(&subscriber, &server_keys.public_key, &client_keys);
    subscriber.connect(&endpoint).unwrap();
    subscriber.set_subscribe(b"a/").unwrap();
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01a/");
    publisher.send_multipart(["b/", "unheard"], 0).unwrap();
    publisher.send_multipart(["a/", "", "heard"], 0).unwrap();
    assert_eq!(subscriber.recv_multipart(0).unwrap(), [&b"a/"[..], b"", b"heard"]);
    subscriber.set_unsubscribe(b"a/").unwrap();
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x00a/");
}

#[test]
fn a_wrong_server_key_is_refused() {
    let context = Context::new();
    let (server_keys, client_keys) = (CurveKeyPair::new().unwrap(), CurveKeyPair::new().unwrap());
    let server = socket(&context, zmq::PULL);
    serve(&server, &server_keys);
    server
        .monitor("inproc://refused", i32::from(zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL.to_raw()))
        .unwrap();
    let events = socket(&context, zmq::PAIR);
    events.connect("inproc://refused").unwrap();
    let endpoint = bind(&server);

    // Another key, one of no use to anyone (a point of low order), a client without CURVE.
    for server_key in [Some(CurveKeyPair::new().unwrap().public_key), Some([0; 32]), None] {
        let client = socket(&context, zmq::PUSH);
        if let Some(key) = server_key {
            join(&client, &key, &client_keys);
        }
        client.connect(&endpoint).unwrap();
        client.send("must not arrive", 0).unwrap();
        assert_eq!(overheard(&server), None);
        if server_key == Some([0; 32]) {
            continue; // this client says nothing at all
        }
        let expected = match server_key {
            Some(_) => zmq_sys::ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC,
            None => zmq_sys::ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH,
        };
        // A refused client comes again and again: there may be more of the one before.
        let details = std::iter::repeat_with(|| {
            let event = events.recv_multipart(0).expect("the refusal is reported");
            u32::from_ne_bytes(event[0][2..6].try_into().unwrap())
        });
        assert!(details.take(1000).any(|detail| detail == expected));
    }

    let client = socket(&context, zmq::PUSH);
    join(&client, &server_keys.public_key, &client_keys);
    client.connect(&endpoint).unwrap();
    client.send("must arrive", 0).unwrap();
    assert_eq!(server.recv_bytes(0).unwrap(), b"must arrive");
}

/// A server whose contexts come and go, from several threads at once: the table of functions is
/// registered by whoever is first.
#[test]
fn contexts_in_many_threads() {
    let threads: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                let keys = CurveKeyPair::new().unwrap();
                let context = Context::new();
                let server = socket(&context, zmq::PAIR);
                serve(&server, &keys);
                let endpoint = bind(&server);
                let client = socket(&context, zmq::PAIR);
                join(&client, &keys.public_key, &CurveKeyPair::new().unwrap());
                client.connect(&endpoint).unwrap();
                client.send("x", 0).unwrap();
                assert_eq!(server.recv_bytes(0).unwrap(), b"x");
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A Python with pyzmq, whose wheels bring libzmq with libsodium; `None` if it is to be done without.
fn python() -> Option<Command> {
    let interpreter = std::env::var("HWGATE_PYTHON").unwrap_or_else(|_| "python3".into());
    let check = "import sys, zmq; sys.exit(not zmq.has('curve'))";
    if Command::new(&interpreter).args(["-c", check]).output().is_ok_and(|output| output.status.success()) {
        return Some(Command::new(interpreter));
    }
    let problem = format!(
        "{interpreter} has no pyzmq with CURVE. Get one: python3 -m venv VENV && VENV/bin/pip install pyzmq, \
         then set HWGATE_PYTHON=VENV/bin/python3"
    );
    if std::env::var("HWGATE_SKIP_PYZMQ").as_deref() != Ok("1") {
        panic!("{problem}; or set HWGATE_SKIP_PYZMQ=1 to leave libsodium untested");
    }
    eprintln!("SKIPPED, libsodium is untested: {problem}");
    None
}

const PATTERN_IN_PYTHON: &str = "
import sys, zmq
def pattern(size):
    return bytes((i * 7 + i // 256 + size) % 256 for i in range(size))
def text(key):
    return bytes.fromhex(key)
context = zmq.Context()
";

const CLIENT_IN_PYTHON: &str = "
endpoint, server_key, sizes = sys.argv[1], text(sys.argv[2]), eval(sys.argv[3])
socket = context.socket(zmq.REQ)
socket.linger, socket.rcvtimeo, socket.sndtimeo = 0, 30000, 30000
socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
socket.curve_serverkey = zmq.utils.z85.encode(server_key)
socket.connect(endpoint)
for size in sizes:
    socket.send(pattern(size))
    assert socket.recv() == pattern(size), size
assert socket.mechanism == zmq.CURVE
print('checked', len(sizes))
";

const SERVER_IN_PYTHON: &str = "
sizes = eval(sys.argv[1])
socket = context.socket(zmq.REP)
socket.linger, socket.rcvtimeo, socket.sndtimeo = 2000, 30000, 30000
public, socket.curve_secretkey = zmq.curve_keypair()
socket.curve_server = True
socket.bind('tcp://127.0.0.1:*')
print(socket.last_endpoint.decode().rstrip(chr(0)), zmq.utils.z85.decode(public).hex(), flush=True)
for size in sizes:
    got = socket.recv()
    assert got == pattern(size), size
    socket.send(got)
print('checked', len(sizes), flush=True)
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_libsodium_client_at_our_server() {
    let Some(mut python) = python() else { return };
    let context = Context::new();
    let keys = CurveKeyPair::new().unwrap();
    let server = socket(&context, zmq::REP);
    serve(&server, &keys);
    let endpoint = bind(&server);
    let answering = thread::spawn(move || echo(server, SIZES.len()));
    let script = format!("{PATTERN_IN_PYTHON}{CLIENT_IN_PYTHON}")
        .replace("import sys, zmq", "import sys, zmq, zmq.utils.z85");
    let output = python
        .args(["-c", &script, &endpoint, &hex(&keys.public_key), &format!("{SIZES:?}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "checked 27");
    answering.join().unwrap();
}

#[test]
fn our_client_at_a_libsodium_server() {
    let Some(mut python) = python() else { return };
    let script = format!("{PATTERN_IN_PYTHON}{SERVER_IN_PYTHON}")
        .replace("import sys, zmq", "import sys, zmq, zmq.utils.z85");
    let mut server =
        python.args(["-c", &script, &format!("{SIZES:?}")]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let (endpoint, key) = first.split_once(' ').unwrap();
    let key: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&key[2 * i..2 * i + 2], 16).unwrap()).collect();

    let context = Context::new();
    let client = socket(&context, zmq::REQ);
    wait_at_most(&client, PATIENCE);
    join(&client, &key, &CurveKeyPair::new().unwrap());
    client.connect(endpoint).unwrap();
    ask(&client);
    assert_eq!(lines.next().unwrap().unwrap(), "checked 27");
    assert!(server.wait().unwrap().success());
}
