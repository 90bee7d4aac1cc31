//! Serial ports: everyone hears, the holder of the lease writes.
//!
//! | file | what is in it |
//! |---|---|
//! | `port.rs` | the thread of one port |
//! | `work.rs` | what it is asked to do, one after another |
//! | `status.rs` | what is known of it |
//! | `framing.rs` | bytes become frames |
//! | `link.rs` | what an open port can do; `native.rs` and `sim.rs` do it |
//! | `path.rs`, `list.rs` | finding a port; which there are |

pub mod framing;
mod link;
pub mod list;
mod native;
mod path;
mod port;
mod sim;
mod status;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::Reply;
use super::lease::Claim;
use crate::config::SerialConfig;
use crate::events::Hub;
use crate::util::guard;
use crate::wire::nearest;
use crate::{Error, Kind, Result};
use link::InUse;
use port::{Command, Port};
use status::State;
use work::{Job, Work};

/// Ports that may be open at once.
const PORTS: usize = 256;
/// How long settings, lines and breaks may wait for their turn.
const TURN: Duration = Duration::from_secs(10);
/// How long a reload waits for ports that it closes.
const CLOSING: Duration = Duration::from_secs(1);

/// The serial ports of a gateway. All functions but [`Ports::configure`] and [`Ports::stop`] return at once; answers
/// come through the [`Reply`].
pub struct Ports {
    hub: Arc<Hub>,
    devices: Arc<InUse>,
    ports: Mutex<All>,
}

#[derive(Default)]
struct All {
    ports: BTreeMap<String, Entry>,
    stopping: bool,
}

struct Entry {
    port: Port,
    /// The settings in which it is declared; none where it was opened by command.
    declared: Option<SerialConfig>,
}

/// What a transaction waits for.
#[derive(Clone, Debug)]
pub enum Expect {
    /// The next frame, whatever it is.
    Any,
    /// A frame that has these bytes in it.
    Bytes(Vec<u8>),
    /// A frame that matches.
    Regex(regex::bytes::Regex),
}

/// Who writes what, and how long it may take.
#[derive(Clone, Debug)]
pub struct Write {
    /// The bytes, sent as they are.
    pub data: Vec<u8>,
    /// The token of the lease, where one is held.
    pub lease: Option<String>,
    /// Who writes, for the `tx` event: the `by` parameter, else empty; the owner of the lease where one is given.
    pub by: String,
    /// From the call to the last byte, or the matching frame.
    pub timeout: Duration,
}

/// Lines that can be set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    /// Data terminal ready; none leaves it.
    pub dtr: Option<bool>,
    /// Request to send; none leaves it.
    pub rts: Option<bool>,
}

impl Ports {
    /// None yet.
    pub fn new(hub: Arc<Hub>) -> Ports {
        Ports { hub, devices: Arc::default(), ports: Mutex::default() }
    }

    /// The ports whose threads live.
    fn all(&self) -> MutexGuard<'_, All> {
        let mut all = guard(&self.ports);
        all.ports.retain(|_, entry| !entry.port.ended());
        all
    }

    /// Makes the declared ports be these: opens new ones, closes those that are gone, reopens those whose settings
    /// changed or that were closed by command; ports opened by command stay, unless their id is declared now with
    /// other settings. Waits up to a second for those that close.
    pub fn configure(&self, wanted: &[SerialConfig]) {
        let mut all = self.all();
        if all.stopping {
            return;
        }
        let mut closing = Vec::new();
        all.ports.retain(|id, entry| {
            let now = wanted.iter().find(|config| config.id == *id);
            let stays = match (&entry.declared, now) {
                (None, None) => true,
                (Some(_), None) => false,
                (Some(before), Some(now)) => before == now,
                (None, Some(now)) => entry.port.shared.status(|status| status.config == *now),
            };
            if stays {
                entry.declared = now.cloned();
                entry.port.shared.status(|status| status.declared = now.is_some());
            } else {
                entry.port.end(&Error::new(Kind::Closed, "the settings were changed"));
                closing.push(entry.port.gone());
            }
            stays
        });
        drop(all);
        let deadline = Instant::now() + CLOSING;
        for gone in closing {
            let _ = gone.recv_deadline(deadline);
        }
        let mut all = self.all();
        for config in wanted {
            if all.ports.contains_key(&config.id) {
                continue;
            }
            match Port::start(config.clone(), &self.hub, &self.devices, None) {
                Ok(port) => {
                    let entry = Entry { port, declared: Some(config.clone()) };
                    all.ports.insert(config.id.clone(), entry);
                }
                Err(error) => log::error!("serial {}: {}", config.id, error.message()),
            }
        }
    }

    /// Opens a port. Same id and settings as one that is open: ok, with `already` true. Same id or same device with
    /// others: BUSY. A declared port that is not there now: the reason why.
    pub fn open(&self, config: SerialConfig, reply: Reply) {
        let mut all = self.all();
        if all.stopping {
            return reply.answer(Err(Error::new(Kind::ShuttingDown, "the gateway is stopping")));
        }
        if let Some(entry) = all.ports.get(&config.id) {
            return reply.answer(again(&config, &entry.port));
        }
        if all.ports.len() >= PORTS {
            let text = format!("{PORTS} ports are open; close one first");
            return reply.answer(Err(Error::new(Kind::Busy, text)));
        }
        let id = config.id.clone();
        // A thread that does not start drops the reply, which then answers by itself.
        if let Ok(port) = Port::start(config, &self.hub, &self.devices, Some(reply)) {
            all.ports.insert(id, Entry { port, declared: None });
        }
    }

    /// Hands a command to a port; NOT_FOUND where there is none of this id.
    fn tell(&self, id: &str, command: impl FnOnce(&Port, Reply), reply: Reply) {
        let all = self.all();
        match visible(&all, id) {
            Ok(port) => command(port, reply),
            Err(error) => reply.answer(Err(error)),
        }
    }

    /// Queues a job; QUEUE_FULL where too much waits.
    fn ask(&self, id: &str, job: impl FnOnce(Reply) -> Job, reply: Reply) {
        self.tell(
            id,
            |port, reply| {
                let job = job(reply);
                match port.shared.reserve(job.bytes()) {
                    Ok(()) => port.tell(Command::Do(job)),
                    Err(error) => job.reply.answer(Err(error)),
                }
            },
            reply,
        );
    }

    /// Closes a port; a declared one as well, until a reload or `open`.
    pub fn close(&self, id: &str, lease: Option<String>, reply: Reply) {
        self.tell(id, |port, reply| port.tell(Command::Close { lease, reply }), reply);
    }

    /// Queues bytes. The answer comes when the system has taken them: `{"written": n}`.
    pub fn write(&self, id: &str, write: Write, reply: Reply) {
        let Write { data, lease, by, timeout } = write;
        self.ask(id, |reply| Job::new(Work::Write(data), lease, by, timeout, reply), reply);
    }

    /// Writes, then answers with the first frame that fits and ends after the write began.
    pub fn transact(&self, id: &str, write: Write, expect: Expect, reply: Reply) {
        let Write { data, lease, by, timeout } = write;
        self.ask(id, |reply| Job::new(Work::Transact(data, expect), lease, by, timeout, reply), reply);
    }

    /// Changes what `settings` names, see [`crate::config::serial::LineSettings::changed`]; answers with all of them.
    pub fn set(&self, id: &str, settings: Map<String, Value>, lease: Option<String>, reply: Reply) {
        self.ask(id, |reply| Job::new(Work::Set(settings), lease, String::new(), TURN, reply), reply);
    }

    /// Sets DTR and RTS where given, and answers with all lines. Needs no lease where it sets none.
    pub fn lines(&self, id: &str, lines: Lines, lease: Option<String>, reply: Reply) {
        if lines.dtr.is_none() && lines.rts.is_none() {
            return self.tell(id, |port, reply| port.tell(Command::Lines(reply)), reply);
        }
        self.ask(id, |reply| Job::new(Work::Lines(lines), lease, String::new(), TURN, reply), reply);
    }

    /// Sends a break of this length, 1 ms to 5 s.
    pub fn send_break(&self, id: &str, length: Duration, lease: Option<String>, reply: Reply) {
        self.ask(id, |reply| Job::new(Work::Break(length), lease, String::new(), TURN, reply), reply);
    }

    /// Makes a `sim:` port read these bytes.
    pub fn inject(&self, id: &str, data: Vec<u8>, reply: Reply) {
        self.tell(id, |port, reply| port.tell(Command::Inject(data, reply)), reply);
    }

    /// Gives the lease of a port to `owner` for `ttl`, waiting up to `wait` while another holds it.
    pub fn claim(&self, id: &str, owner: String, ttl: Duration, wait: Duration, reply: Reply) {
        let until = Instant::now() + wait;
        self.tell(id, |port, reply| port.tell(Command::Claim(Claim { owner, ttl, until, reply })), reply);
    }

    /// Makes a lease last for `ttl` from now.
    pub fn renew(&self, id: &str, token: String, ttl: Duration, reply: Reply) {
        self.tell(id, |port, reply| port.tell(Command::Renew { token, ttl, reply }), reply);
    }

    /// Ends a lease; a transaction under it ends with CLOSED.
    pub fn release(&self, id: &str, token: String, reply: Reply) {
        self.tell(id, |port, reply| port.tell(Command::Release { token, reply }), reply);
    }

    /// One port, or with no id an array of all. Never waits for a device.
    pub fn status(&self, id: Option<&str>) -> Result<Value> {
        let all = self.all();
        match id {
            Some(id) => Ok(visible(&all, id)?.shared.to_json().into()),
            None => Ok(shown(&all).map(|port| port.shared.to_json()).collect()),
        }
    }

    /// Id, kind, state and lease of each, for `device.list`.
    pub fn devices(&self) -> Vec<Value> {
        let told = ["id", "kind", "state", "lease"];
        shown(&self.all())
            .map(|port| {
                port.shared.to_json().into_iter().filter(|(name, _)| told.contains(&name.as_str())).collect()
            })
            .collect()
    }

    /// Closes all; see [`super::Devices::stop`].
    pub fn stop(&self, deadline: Instant) {
        let mut all = self.all();
        all.stopping = true;
        let ports = std::mem::take(&mut all.ports);
        drop(all);
        let error = Error::new(Kind::ShuttingDown, "the gateway is stopping");
        ports.values().for_each(|entry| entry.port.end(&error));
        for entry in ports.values() {
            let _ = entry.port.gone().recv_deadline(deadline);
        }
    }
}

fn is_shown(port: &Port) -> bool {
    port.shared.status(|now| now.state != State::Opening)
}

fn shown(all: &All) -> impl Iterator<Item = &Port> {
    all.ports.values().map(|entry| &entry.port).filter(|port| is_shown(port))
}

fn visible<'a>(all: &'a All, id: &str) -> Result<&'a Port> {
    let found = all.ports.get(id).map(|entry| &entry.port).filter(|port| is_shown(port));
    found.ok_or_else(|| {
        let ids = || shown(all).map(|port| port.shared.id.as_str());
        let hint = match nearest(id, ids()) {
            Some(near) => format!("did you mean {near}?"),
            None if ids().next().is_none() => "none is open".to_owned(),
            None => format!("there are {}", ids().collect::<Vec<_>>().join(", ")),
        };
        Error::new(Kind::NotFound, format!("no serial port is called {id:?}; {hint}"))
    })
}

/// The answer to opening a port that is there already.
fn again(config: &SerialConfig, port: &Port) -> Result<Value> {
    let id = &config.id;
    let (state, reason, same) =
        port.shared.status(|now| (now.state, now.reason.clone().unwrap_or_default(), now.config == *config));
    if !same {
        let text = format!("{id} is open with other settings; close it first, or use serial.set");
        return Err(Error::new(Kind::Busy, text));
    }
    match state {
        State::Open => {
            let mut answer = port.shared.to_json();
            answer.insert("already".to_owned(), json!(true));
            Ok(answer.into())
        }
        State::Opening => Err(Error::new(Kind::Busy, format!("{id} is just being opened"))),
        _ => {
            let text = format!("{id} is not open: {reason}; it is opened as soon as it is there");
            Err(Error::new(Kind::Disconnected, text))
        }
    }
}
