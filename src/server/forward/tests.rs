//! The parts of a forwarder by themselves; all together is tested with foreign clients in tests/interop.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use hwgate_zmq::Incoming;

use super::connections::Connections;
use super::output::Output;

const WATCHDOG: Duration = Duration::from_secs(30);
const BODY: usize = 4096;

/// An output over tcp, whose subscribers read nothing unless they are told to.
struct Rig {
    context: zmq::Context,
    /// Both ends of what makes frames such as a forwarder receives.
    frames: (zmq::Socket, zmq::Socket),
    output: Output,
    endpoint: String,
}

impl Rig {
    fn new() -> Rig {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::XPUB).unwrap();
        socket.set_sndhwm(100).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let frames = [(); 2].map(|()| context.socket(zmq::PAIR).unwrap());
        frames[0].bind("inproc://frames").unwrap();
        frames[1].connect("inproc://frames").unwrap();
        Rig { output: Output::new(socket).unwrap(), endpoint, frames: frames.into(), context }
    }

    fn subscriber(&self, topic: &str) -> zmq::Socket {
        let socket = self.context.socket(zmq::SUB).unwrap();
        socket.set_rcvhwm(100).unwrap();
        socket.set_rcvtimeo(2000).unwrap();
        socket.set_subscribe(topic.as_bytes()).unwrap();
        socket.connect(&self.endpoint).unwrap();
        assert_eq!(self.output.socket.recv_bytes(0).unwrap()[1..], *topic.as_bytes());
        socket
    }

    /// Sends `[topic, number, body]`; tells what was lost.
    fn send(&mut self, topic: &str, number: u32, wait: Duration) -> hwgate_zmq::Lost {
        let parts = [topic.as_bytes(), &number.to_le_bytes(), &[b'x'; BODY]];
        self.frames.0.send_multipart(parts, 0).unwrap();
        let mut frames = [(); 3].map(|()| Incoming::new());
        frames.iter_mut().for_each(|frame| frame.receive(&mut self.frames.1, 0).unwrap());
        self.output.send(&mut frames, |waited, _| waited < wait)
    }
}

fn received(socket: &zmq::Socket) -> Vec<u32> {
    let number = |frames: Vec<Vec<u8>>| {
        assert_eq!((frames.len(), frames[2].len()), (3, BODY));
        u32::from_le_bytes(frames[1][..].try_into().unwrap())
    };
    std::iter::from_fn(|| socket.recv_multipart(0).ok()).map(number).collect()
}

/// One subscriber reads, one does not. Everyone waits once; then the first has everything in order, and what the other
/// has in the end and what it lost are all there was.
#[test]
fn a_stuck_subscriber_is_waited_for_once_and_its_losses_are_counted() {
    let mut rig = Rig::new();
    let (quick, stuck) = (rig.subscriber(""), rig.subscriber("a"));
    let total = 10_000;
    let reader = std::thread::spawn(move || received(&quick));
    let start = Instant::now();
    let mut lost = 0;
    for number in 0..total {
        lost += rig.send("abc", number, Duration::from_millis(300)).messages;
    }
    assert!(start.elapsed() < WATCHDOG);
    // The reader may have been behind for a moment too, and caught up.
    assert!(rig.output.waits > 0, "nobody was waited for");
    assert!(lost > 0, "a queue of 100 took {total}");
    let got = received(&stuck);
    assert!(got.is_sorted());
    assert_eq!(got.len() as u64 + lost, u64::from(total));
    assert!(reader.join().unwrap().into_iter().eq(0..total));
}

/// With two that are stuck at different times the second is waited for as well, since messages went through between.
#[test]
fn each_that_becomes_stuck_is_waited_for_once() {
    let mut rig = Rig::new();
    let stuck: Vec<zmq::Socket> = ["a", "b"].map(|topic| rig.subscriber(topic)).into();
    for topic in ["a", "b"] {
        let before = rig.output.waits;
        let mut number = 0;
        while rig.send(topic, number, Duration::from_millis(50)).messages == 0 {
            number += 1;
        }
        // It may have been behind more than once before it was stuck for good.
        let waits = rig.output.waits;
        assert!(waits > before, "{topic} was not waited for");
        for number in 0..500 {
            assert_eq!(
                rig.send(topic, number, Duration::from_millis(50)).deliveries,
                1,
                "it is passed over now"
            );
        }
        assert_eq!(rig.output.waits, waits);
        assert_eq!(rig.send("c", 0, Duration::from_millis(50)).messages, 0, "nobody subscribed to it");
    }
    drop(stuck);
}

#[test]
fn without_patience_nobody_is_waited_for_but_no_reader_loses_for_it() {
    let mut rig = Rig::new();
    let (quick, stuck) = (rig.subscriber(""), rig.subscriber("a"));
    let start = Instant::now();
    let mut lost = 0;
    for number in 0..2000 {
        lost += rig.send("a", number, Duration::ZERO).messages;
        assert_eq!(quick.recv_multipart(0).unwrap()[1], number.to_le_bytes());
    }
    assert!(start.elapsed() < WATCHDOG);
    assert_eq!(received(&stuck).len() as u64 + lost, 2000);
}

/// C65: nobody reads the news of connections, thousands of which come and go, and messages pass all the same, also
/// through other sockets of the context.
#[test]
fn c65_an_unread_socket_monitor_holds_up_nothing() {
    let context = zmq::Context::new();
    let listening = |kind| {
        let socket = context.socket(kind).unwrap();
        socket.set_rcvtimeo(WATCHDOG.as_millis() as i32).unwrap();
        let peers = Connections::watch(&context, &socket).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        (socket, peers, endpoint)
    };
    let (input, mut peers, endpoint) = listening(zmq::SUB);
    let (other, _unread, other_endpoint) = listening(zmq::PULL);
    input.set_subscribe(b"").unwrap();
    let address = endpoint.strip_prefix("tcp://").unwrap();
    for _ in 0..1500 {
        drop(TcpStream::connect(address).unwrap());
    }
    let publisher = context.socket(zmq::PUB).unwrap();
    publisher.connect(&endpoint).unwrap();
    let push = context.socket(zmq::PUSH).unwrap();
    push.connect(&other_endpoint).unwrap();
    for number in 0..50_u32 {
        push.send(&number.to_le_bytes()[..], 0).unwrap();
        assert_eq!(other.recv_bytes(0).unwrap(), number.to_le_bytes());
    }
    // The publisher has no subscriber until its connection is made, which these cannot tell.
    let start = Instant::now();
    let mut passed = 0;
    while passed < 50 {
        publisher.send("x", 0).unwrap();
        passed += u32::from(input.poll(zmq::POLLIN, 10).unwrap() > 0 && input.recv_bytes(0).is_ok());
        assert!(start.elapsed() < WATCHDOG, "{passed} of 50 passed");
    }
    let start = Instant::now();
    while peers.count() != 1 {
        assert!(start.elapsed() < WATCHDOG, "{} connections", peers.count());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(publisher);
    while peers.count() != 0 {
        assert!(start.elapsed() < WATCHDOG, "{} connections", peers.count());
        std::thread::sleep(Duration::from_millis(5));
    }
}
