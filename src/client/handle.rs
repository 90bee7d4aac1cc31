//! [`Client`]: what programs hold.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::calls::Call;
use super::hello::Hello;
use super::io;
use super::options::{Options, SubscribeOptions, deadline};
use super::queue::Queue;
use super::shared::{Op, Shared};
use super::subscription::Subscription;
use crate::events::Published;
use crate::wire::{Endpoint, data, rpc};
use crate::{Error, Kind, Result, wake};

/// How long the end of a client may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How much longer than its time a caller waits for the I/O thread to say so.
const GRACE: Duration = Duration::from_secs(5);

/// A connection to a gateway that lasts: any number of threads may ask and subscribe, it comes back after each restart of the
/// gateway, and subscriptions with it.
///
/// Clones are the same connection; it ends when the last one is dropped, within two seconds. A forked child gets FORKED
/// from all calls and makes a client of its own.
///
/// ```no_run
/// use std::time::Duration;
/// use hwgate::client::{Client, Message, SubscribeOptions};
///
/// let client = Client::connect(None)?; // never waits; HWGATE_URL or tcp://127.0.0.1:10003
/// client.wait(Duration::from_secs(5))?;
/// let scans = client.subscribe(&["serial/scanner/rx/"], SubscribeOptions::default())?;
/// let reply = client.request("serial.status", serde_json::json!({"id": "scanner"}), Duration::from_secs(2))?;
/// println!("{reply}");
/// while let Some(message) = scans.recv(Duration::from_secs(60))? {
///     match message {
///         Message::Event(event) => println!("{}", String::from_utf8_lossy(&event.payload)),
///         Message::Missed(count) => println!("{count:?} scans are lost"),
///         Message::Disconnected => println!("the gateway is away"),
///         Message::Reconnected { .. } => println!("the gateway is back"),
///     }
/// }
/// # Ok::<(), hwgate::Error>(())
/// ```
#[derive(Clone)]
pub struct Client(Arc<Handle>);

/// Ends the connection when the last client goes.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.forked() {
            self.0.close(CLOSE_TIMEOUT);
        }
    }
}

impl Client {
    /// A client of the gateway at `url`, by the rule of [`super::url`], with all other options at their defaults.
    ///
    /// Does not wait for a gateway. INVALID_ARGUMENT for what cannot be connected to.
    pub fn connect(url: Option<&str>) -> Result<Client> {
        Client::new(Options { url: url.map(str::to_owned), ..Options::default() })
    }

    /// A client with these options. Does not wait for a gateway. INVALID_ARGUMENT for a wrong url.
    pub fn new(options: Options) -> Result<Client> {
        let url = super::url(options.url.as_deref())?;
        let context = zmq::Context::new();
        let (woken, waker) = wake::pair(&context)?;
        let shared = Arc::new(Shared::new(url, waker));
        io::spawn(&shared, context, woken, &options).inspect_err(|error| shared.ended(error))?;
        Ok(Client(Arc::new(Handle(shared))))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Where the gateway is looked for.
    pub fn url(&self) -> &Endpoint {
        &self.shared().url
    }

    /// Blocks up to `timeout` until a gateway has answered; at once if one is connected.
    ///
    /// NOT_CONNECTED with the reason that is known: nobody answers, or something else does. UNAUTHORIZED, CLOSED.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.shared().check()?;
        self.shared().wait(timeout)
    }

    /// Whether a gateway is connected now. One that froze counts as connected for up to [`Options::dead_after`].
    pub fn is_connected(&self) -> bool {
        !self.shared().forked() && self.shared().ready()
    }

    /// What the gateway said of itself when it was last connected; none before the first time.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        if self.shared().forked() { None } else { self.shared().hello() }
    }

    /// Asks the gateway; blocks up to `timeout` for the reply. `params` is an object or null.
    ///
    /// Without a connection it waits for one, as [`Options::max_waiting`] allows. When the connection breaks before the reply, it
    /// is sent again to the same run of the gateway with the same `key`, so that nothing is done twice.
    ///
    /// INVALID_ARGUMENT for other `params`; NOT_CONNECTED: it was not sent in time; QUEUE_FULL, TOO_LARGE: it was not sent;
    /// TIMEOUT, DISCONNECTED: it was sent, outcome unknown; CLOSED. All other errors are the gateway's own, as it gave them. After
    /// each of them but CLOSED the client works as before.
    pub fn request(&self, method: &str, params: Value, timeout: Duration) -> Result<Value> {
        let shared = self.shared();
        shared.check()?;
        let params = with_key(method, params)?;
        let (sender, receiver) = bounded(1);
        let id = shared.next_id();
        shared.post(Op::Call(Call {
            id,
            method: method.to_owned(),
            frame: rpc::request(id, method, &params),
            timeout,
            deadline: deadline(timeout),
            internal: false,
            // Who has stopped waiting misses nothing.
            reply: Box::new(move |outcome| drop(sender.send(outcome))),
        }))?;
        receiver.recv_timeout(timeout.min(Duration::from_secs(366 * 24 * 3600)) + GRACE).unwrap_or_else(
            |_| {
                let text = format!(
                    "{method}: a defect in the client: its I/O thread does not answer; outcome unknown"
                );
                Err(Error::new(Kind::Internal, text))
            },
        )
    }

    /// Publishes an event below `app/`; a missing `/` at its end is added. `fields` become members of its header. Blocks up to `timeout`;
    /// gives its numbers.
    ///
    /// PERMISSION for other topics, INVALID_ARGUMENT for fields named as the common members; else as [`Client::request`].
    pub fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        fields: Map<String, Value>,
        timeout: Duration,
    ) -> Result<Published> {
        let mut params = Map::new();
        params.insert("topic".to_owned(), topic.into());
        params.insert("fields".to_owned(), fields.into());
        data::write(&mut params, payload);
        let result = self.request("events.publish", params.into(), timeout)?;
        let number = |name: &str| result[name].as_u64();
        match (number("id"), number("seq")) {
            (Some(id), Some(seq)) => Ok(Published { id, seq }),
            _ => Err(Error::new(Kind::Internal, format!("events.publish: the gateway answers {result}"))),
        }
    }

    /// Subscribes to topics, 1 to 1,000; a missing `/` at their ends is added, so that `serial/COM1` never hears COM10. An empty
    /// topic is everything.
    ///
    /// Returns when all that is published from now on is heard, see [`SubscribeOptions::timeout`] and
    /// [`Subscription::wait`] for what happens otherwise. INVALID_ARGUMENT for a wrong topic.
    pub fn subscribe(&self, topics: &[&str], options: SubscribeOptions) -> Result<Subscription> {
        self.shared().check()?;
        let subscription = Subscription::start(self.shared().clone(), Queue::new(&options), topics)?;
        if let Some(timeout) = options.timeout {
            subscription.wait(timeout)?;
        }
        Ok(subscription)
    }

    /// Ends the connection, for all clones, within two seconds. Requests without a reply get CLOSED, as do subscriptions when they
    /// have been read to the end. Harmless the second time.
    pub fn close(&self) {
        if !self.shared().forked() {
            self.shared().close(CLOSE_TIMEOUT);
        }
    }
}

/// The parameters with a `key` that no other request has, unless they have one.
fn with_key(method: &str, params: Value) -> Result<Value> {
    let mut params = match params {
        Value::Null => Map::new(),
        Value::Object(params) => params,
        _ => {
            let text = format!("{method}: params must be an object: parameters go by name");
            return Err(Error::new(Kind::InvalidArgument, text));
        }
    };
    if !params.contains_key("key") {
        params.insert("key".to_owned(), Uuid::new_v4().to_string().into());
    }
    Ok(params.into())
}
