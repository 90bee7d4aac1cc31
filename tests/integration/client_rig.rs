//! What stands between a client and a gateway in tests: a network that can be cut, and a gateway that misbehaves.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hwgate::wire::rpc::{self, Body, Request};
use serde_json::{Value, json};

use super::gateway::WATCHDOG;

/// Listens at 127.0.0.2 on the ports of a gateway at 127.0.0.1, which must `advertise` that address.
pub struct Network {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    streams: Mutex<Vec<TcpStream>>,
    /// New connections are closed at once.
    down: AtomicBool,
    /// What the gateway says is thrown away.
    mute: AtomicBool,
}

impl Network {
    pub fn new(ports: &[u16]) -> Network {
        let state = Arc::<State>::default();
        for &port in ports {
            let listener = TcpListener::bind(("127.0.0.2", port)).unwrap();
            let state = state.clone();
            thread::spawn(move || {
                for client in listener.incoming() {
                    let client = client.unwrap();
                    if state.down.load(Ordering::SeqCst) {
                        continue;
                    }
                    let Ok(gateway) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                    for stream in [&client, &gateway] {
                        stream.set_nodelay(true).unwrap();
                        state.streams.lock().unwrap().push(stream.try_clone().unwrap());
                    }
                    let back = (gateway.try_clone().unwrap(), client.try_clone().unwrap());
                    let state = state.clone();
                    thread::spawn(move || copy(client, gateway, &|| false));
                    thread::spawn(move || copy(back.0, back.1, &|| state.mute.load(Ordering::SeqCst)));
                }
            });
        }
        Network { state }
    }

    /// Cuts all connections, and lets no new ones through until [`Network::mend`].
    pub fn cut(&self) {
        self.state.down.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Nothing that the gateway says comes through.
    pub fn mute(&self) {
        self.state.mute.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.state.mute.store(false, Ordering::SeqCst);
        self.state.down.store(false, Ordering::SeqCst);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, drop: &dyn Fn() -> bool) {
    let mut buffer = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !drop() && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// What a [`Peer`] does with a request.
pub enum Does {
    Answers(Value),
    Nothing,
    /// It ends, with all its connections.
    Dies,
}

/// A ROUTER that says hello as a gateway does, and does with other requests what a test wants.
pub struct Peer {
    pub url: String,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Peer {
    pub fn start(
        endpoint: &str,
        session: &'static str,
        mut act: impl FnMut(&Request) -> Does + Send + 'static,
    ) -> Peer {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::ROUTER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvtimeo(10).unwrap();
        // The one before it may not have gone yet.
        super::gateway::wait_for("the port", || socket.bind(endpoint).ok());
        let url = socket.get_last_endpoint().unwrap().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let Ok(frames) = socket.recv_multipart(0) else { continue };
                let (envelope, body) = rpc::split(frames);
                let Ok(Body::Request(frame)) = body else { panic!("this is no request") };
                let request = rpc::parse(&frame).unwrap();
                let result = match request.method.as_str() {
                    "hello" => json!({"session": session, "protocol": 1, "endpoints": {}}),
                    "ping" => json!({}),
                    _ => match act(&request) {
                        Does::Answers(result) => result,
                        Does::Nothing => continue,
                        Does::Dies => return,
                    },
                };
                socket.send_multipart(envelope.wrap([rpc::reply(&request.id, Ok(result))]), 0).unwrap();
            }
        });
        Peer { url, thread: Some(thread), stop }
    }

    /// Waits until it has died.
    pub fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Options for a client that notices a frozen gateway soon.
pub fn impatient(url: &str) -> hwgate::client::Options {
    hwgate::client::Options {
        url: Some(url.to_owned()),
        dead_after: Duration::from_millis(600),
        ..Default::default()
    }
}

/// Runs in a thread, and gives its result within the time of the watchdog.
pub fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(work()));
    move || receiver.recv_timeout(WATCHDOG).expect("it takes too long")
}
