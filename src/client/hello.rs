//! Who answered: the reply to `hello`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire::Endpoint;

/// What a client knows of the gateway that it is connected to.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// `[gateway] name`.
    pub name: String,
    /// Of the program.
    pub version: String,
    /// Of docs/PROTOCOL.md.
    pub protocol: u64,
    /// Names this run of the gateway; another one after each start.
    pub session: String,
    /// Where it runs.
    pub host: String,
    /// Its process.
    pub pid: u64,
    /// Endpoints by name, as this client can reach them: a wildcard has become the host that was called.
    pub endpoints: BTreeMap<String, String>,
    /// What it can do, such as `events` or `sound`.
    pub features: Vec<String>,
    /// The longest message that it takes, in bytes.
    pub max_message: usize,
    /// The whole reply, for members that this version does not know.
    pub raw: Value,
}

/// What a gateway takes that does not say.
const MAX_MESSAGE: u64 = 16 << 20;

impl Hello {
    /// Reads the reply of a gateway that was called at `called`; none where it is no such reply.
    pub(super) fn read(reply: Value, called: &Endpoint) -> Option<Hello> {
        let text = |name: &str| reply[name].as_str().unwrap_or_default().to_owned();
        let session = reply["session"].as_str().filter(|session| !session.is_empty())?.to_owned();
        // Whom a Unix socket reaches is on this machine.
        let here = Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 };
        let called = if matches!(called, Endpoint::Ipc(_)) { &here } else { called };
        let seen = |text: &str| match Endpoint::bind(text) {
            Ok(endpoint) => endpoint.seen_from(called).to_string(),
            // A transport of a later version.
            Err(_) => text.to_owned(),
        };
        let endpoints = reply["endpoints"].as_object()?;
        Some(Hello {
            name: text("name"),
            version: text("version"),
            protocol: reply["protocol"].as_u64()?,
            session,
            host: text("host"),
            pid: reply["pid"].as_u64().unwrap_or_default(),
            endpoints: endpoints
                .iter()
                .filter_map(|(name, endpoint)| Some((name.clone(), seen(endpoint.as_str()?))))
                .collect(),
            features: reply["features"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|feature| Some(feature.as_str()?.to_owned()))
                .collect(),
            max_message: reply["limits"]["max_message"].as_u64().unwrap_or(MAX_MESSAGE) as usize,
            raw: reply,
        })
    }

    /// Where events come from, if this gateway has any.
    pub(super) fn events(&self) -> Option<Endpoint> {
        Endpoint::connect(self.endpoints.get("events")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wildcard_is_the_host_that_was_called_and_strangers_are_told() {
        let called = Endpoint::connect("tcp://kiosk-7:10003").unwrap();
        let reply = json!({"session": "s", "protocol": 1, "later": true,
            "endpoints": {"events": "tcp://0.0.0.0:10002", "x": "ws://a"}});
        let hello = Hello::read(reply, &called).unwrap();
        assert_eq!(hello.events().unwrap().to_string(), "tcp://kiosk-7:10002");
        assert_eq!((&hello.endpoints["x"][..], hello.max_message), ("ws://a", 16 << 20));
        for stranger in
            [Value::Null, json!("pong"), json!({"session": "s"}), json!({"endpoints": {}, "protocol": 1})]
        {
            assert_eq!(Hello::read(stranger, &called), None);
        }
    }
}
