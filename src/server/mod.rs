//! The running gateway. This version answers the gateway's own commands and counts plain messages;
//! journal, files and devices come with the server proper, behind the same functions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::config::{Config, diff};
use crate::error::{Error, Kind, Result};
use crate::wire::{Endpoint, rpc};

/// Asks for the end of a server; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// Nothing asked for yet.
    pub fn new() -> Shutdown {
        Shutdown::default()
    }

    /// Asks for the end. Does not block.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the end was asked for.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A gateway that serves.
pub struct Server {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    config: Mutex<Config>,
    endpoints: Vec<(String, String)>,
    asked: Shutdown,
    end: Shutdown,
    received: AtomicU64,
    warnings: Vec<String>,
    session: String,
}

/// Binds everything and returns when serving.
///
/// ADDR_IN_USE when another listens on an endpoint; INVALID_ARGUMENT for one that this machine has not.
pub fn start(config: Config, warnings: Vec<String>) -> Result<Server> {
    let context = zmq::Context::new();
    let mut endpoints = Vec::new();
    let mut bind = |name: &str, kind, endpoint: &Option<String>| -> Result<Option<zmq::Socket>> {
        let Some(text) = endpoint else { return Ok(None) };
        let endpoint = Endpoint::bind(text)?;
        let what = |error| bind_error(text, name, error);
        let socket = context.socket(kind).map_err(what)?;
        socket.set_linger(1000).map_err(what)?;
        socket.set_ipv6(endpoint.needs_ipv6()).map_err(what)?;
        socket.set_maxmsgsize(config.intake.max_message as i64).map_err(what)?;
        socket.bind(&endpoint.to_bind()).map_err(what)?;
        let real = socket.get_last_endpoint().map_err(what)?.unwrap_or_else(|_| text.clone());
        endpoints.push((name.to_owned(), real));
        Ok(Some(socket))
    };
    let commands = bind("commands", zmq::ROUTER, &config.endpoints.commands)?;
    let logs = bind("logs", zmq::PULL, &config.endpoints.logs)?;
    let shared = Arc::new(Shared {
        config: Mutex::new(config),
        endpoints,
        asked: Shutdown::new(),
        end: Shutdown::new(),
        received: AtomicU64::new(0),
        warnings,
        session: uuid::Uuid::new_v4().to_string(),
    });
    let serving = Arc::clone(&shared);
    let thread = thread::Builder::new()
        .name("commands".to_owned())
        .spawn(move || serve(&serving, commands, logs))
        .map_err(|error| Error::io("starting a thread", &error))?;
    Ok(Server { shared, thread })
}

fn bind_error(endpoint: &str, name: &str, error: zmq::Error) -> Error {
    match error {
        zmq::Error::EADDRINUSE => {
            let text = format!("{endpoint} ({name}); is another gateway running?");
            Error::new(Kind::AddrInUse, text)
        }
        zmq::Error::EACCES => {
            Error::new(Kind::Permission, format!("{endpoint} ({name}): {}", error.message()))
        }
        _ => Error::new(Kind::InvalidArgument, format!("{endpoint} ({name}): {}", error.message())),
    }
}

impl Server {
    /// Name and real endpoint of each channel.
    pub fn endpoints(&self) -> Vec<(String, String)> {
        self.shared.endpoints.clone()
    }

    /// Reads the settings again; says what changed. A wrong file leaves the old ones in force.
    pub fn reload(&self) -> Result<String> {
        self.shared.reload()
    }

    /// Reopens the log files.
    pub fn reopen(&self) -> Result<()> {
        Ok(())
    }

    /// Whether every thread does its work.
    pub fn healthy(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends the server within `grace`.
    pub fn stop(self, grace: Duration) -> Result<()> {
        self.shared.end.request();
        let deadline = std::time::Instant::now() + grace;
        while !self.thread.is_finished() {
            if std::time::Instant::now() >= deadline {
                return Err(Error::new(Kind::Timeout, format!("not stopped within {grace:?}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Blocks up to `timeout`; whether a client asked for the end.
    pub fn wait(&self, timeout: Duration) -> bool {
        let deadline = std::time::Instant::now() + timeout;
        while !self.shared.asked.is_requested() && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.shared.asked.is_requested()
    }
}

fn serve(shared: &Shared, commands: Option<zmq::Socket>, logs: Option<zmq::Socket>) {
    let sockets: Vec<&zmq::Socket> = commands.iter().chain(&logs).collect();
    while !shared.end.is_requested() {
        let mut items: Vec<_> = sockets.iter().map(|socket| socket.as_poll_item(zmq::POLLIN)).collect();
        let _ = zmq::poll(&mut items, 20);
        while let Some(Ok(_)) = logs.as_ref().map(|socket| socket.recv_multipart(zmq::DONTWAIT)) {
            shared.received.fetch_add(1, Ordering::Relaxed);
        }
        while let Some(Ok(frames)) = commands.as_ref().map(|socket| socket.recv_multipart(zmq::DONTWAIT)) {
            let reply = shared.answer(frames);
            let _ = commands.as_ref().map(|socket| socket.send_multipart(reply, zmq::DONTWAIT));
        }
    }
}

impl Shared {
    fn answer(&self, frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let (envelope, body) = rpc::split(frames);
        let reply = match body {
            Ok(rpc::Body::Init(topic)) => return envelope.wrap(rpc::Body::init_reply(topic)),
            Ok(rpc::Body::Request(frame)) => match rpc::parse(&frame) {
                Ok(request) => {
                    let id = request.id.clone();
                    rpc::reply(&id, self.call(request))
                }
                Err((id, fault)) => rpc::reply(&id, Err(fault)),
            },
            Err(fault) => rpc::reply(&Value::Null, Err(fault)),
        };
        envelope.wrap([reply])
    }

    fn call(&self, request: rpc::Request) -> std::result::Result<Value, rpc::Fault> {
        const METHODS: &[&str] = &["hello", "ping", "stats", "config.reload", "log.reopen", "shutdown"];
        if !METHODS.contains(&request.method.as_str()) {
            return Err(rpc::Fault::method_not_found(&request.method, METHODS));
        }
        request.params.none(&request.method)?;
        let config = self.config.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let endpoints: serde_json::Map<String, Value> =
            self.endpoints.iter().map(|(name, endpoint)| (name.clone(), json!(endpoint))).collect();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(match request.method.as_str() {
            "hello" => json!({
                "name": config.gateway.name, "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
                "session": self.session, "host": gethostname::gethostname().to_string_lossy(),
                "pid": std::process::id(), "time_ns": time.to_string(), "endpoints": endpoints,
                "limits": {"max_text": config.intake.max_text}, "features": [], "curve": null,
            }),
            "stats" => json!({
                "status": "ok", "config": config.file, "warnings": self.warnings,
                "logs": {"received": self.received.load(Ordering::Relaxed)},
            }),
            "config.reload" => json!({"message": self.reload()?}),
            "shutdown" => {
                self.asked.request();
                Value::Bool(true)
            }
            "ping" => json!("pong"),
            _ => Value::Bool(true),
        })
    }

    fn reload(&self) -> Result<String> {
        let mut config = self.config.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let new = config.load_again()?.config;
        let diff = diff(&config, &new);
        config.logs = new.logs;
        config.intake = crate::config::Intake { max_message: config.intake.max_message, ..new.intake };
        let list = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        Ok(format!("in force: {}; waits for a restart: {}", list(&diff.reload), list(&diff.needs_restart)))
    }
}
