//! `[[forward]]`: what producers publish is passed on to subscribers.

use std::time::Duration;

/// One forwarder. All its endpoints are listened on.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardConfig {
    /// What clients call it: 1 to 64 of `A-Z a-z 0-9 . _ -`. Default: `main`.
    pub id: String,
    /// SUB, subscribed to everything: publishers connect to it.
    pub input: String,
    /// XPUB: subscribers connect to it.
    pub output: String,
    /// ROUTER for registration and `forward.*`, if any.
    pub state: Option<String>,
    /// XPUB that shows each message as `["in", frames…]`, if any.
    pub monitor: Option<String>,
    /// Whether what passes is also logged, with the topic as source.
    pub journal: bool,
    /// Messages that may wait in memory for each publisher. Default 1,000,000.
    pub receive_hwm: i32,
    /// Messages that may wait in memory for each subscriber. Default 1,000,000.
    pub send_hwm: i32,
    /// Messages that may wait in memory for each subscriber of the monitor; further ones are lost to it. Default
    /// 100,000.
    pub monitor_hwm: i32,
    /// How long a subscriber whose queue is full holds up the others, before it loses messages. Default 1 s.
    pub send_wait: Duration,
}

impl ForwardConfig {
    /// Named `main`, without `state`, `monitor` and `journal`.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> ForwardConfig {
        ForwardConfig {
            id: "main".to_owned(),
            input: input.into(),
            output: output.into(),
            state: None,
            monitor: None,
            journal: false,
            receive_hwm: 1_000_000,
            send_hwm: 1_000_000,
            monitor_hwm: 100_000,
            send_wait: Duration::from_secs(1),
        }
    }

    /// Its endpoints with the names of their keys, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let always = [("input", &self.input), ("output", &self.output)];
        let perhaps = [("state", self.state.as_ref()), ("monitor", self.monitor.as_ref())];
        always.into_iter().chain(perhaps.into_iter().filter_map(|(name, text)| Some((name, text?))))
    }
}
