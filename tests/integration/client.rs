//! `client::Client` against the real program: requests and subscriptions through restarts, cuts and slow readers.

use std::thread;
use std::time::{Duration, Instant};

use hwgate::Kind;
use hwgate::client::{Client, Message, SubscribeOptions, Subscription};
use hwgate::wire::rpc::Request;
use serde_json::{Map, Value, json};

use super::client_rig::{Does, Network, Peer, impatient, in_background};
use super::gateway::{Gateway, Home, WATCHDOG, wait_for};

/// A gateway that tells clients to come over [`Network`].
const ADVERTISE: &str = "advertise = \"127.0.0.2\"\n";

fn client(url: &str) -> Client {
    Client::connect(Some(url)).unwrap()
}

/// The client's way through the network, and the network.
fn through_network(gateway: &Gateway) -> (Network, String) {
    let port = |name| gateway.endpoint(name).rsplit_once(':').unwrap().1.parse().unwrap();
    let network = Network::new(&[port("commands"), port("events")]);
    (network, format!("tcp://127.0.0.2:{}", port("commands")))
}

fn publish(client: &Client, topic: &str, payload: &str) -> u64 {
    client.publish(topic, payload.as_bytes(), Map::new(), WATCHDOG).unwrap().seq
}

/// The next message in words: an event is its payload.
fn next(subscription: &Subscription) -> String {
    match subscription.recv(WATCHDOG).unwrap().expect("nothing comes") {
        Message::Event(event) => String::from_utf8(event.payload).unwrap(),
        Message::Missed(count) => format!("missed {count:?}"),
        Message::Disconnected => "disconnected".into(),
        Message::Reconnected { restarted } => format!("reconnected, restarted {restarted}"),
    }
}

fn subscribe(client: &Client, topics: &[&str]) -> Subscription {
    let options = SubscribeOptions { timeout: Some(WATCHDOG), ..SubscribeOptions::default() };
    client.subscribe(topics, options).unwrap()
}

#[test]
fn c03_subscribe_and_at_once_five_events() {
    let mut home = Home::new("");
    let gateway = home.start();
    let publisher = client(gateway.endpoint("commands"));
    for run in 0..100 {
        let client = client(gateway.endpoint("commands"));
        let topic = format!("app/c03/{run}");
        let events = subscribe(&client, &[&topic]);
        for n in 1..=5 {
            publish(&publisher, &topic, &n.to_string());
        }
        assert_eq!((0..5).map(|_| next(&events)).collect::<String>(), "12345", "run {run}");
    }
}

#[test]
fn c06_both_subscriptions_survive_a_restart() {
    let mut home = Home::new("");
    let gateway = home.start();
    let client = client(gateway.endpoint("commands"));
    let events = subscribe(&client, &["app/a", "app/b"]);
    publish(&client, "app/a", "A1");
    publish(&client, "app/b", "B1");
    assert_eq!([next(&events), next(&events)], ["A1", "B1"]);
    let session = client.hello().unwrap().session.clone();
    gateway.kill();
    assert_eq!(next(&events), "disconnected");
    // Once with all ports as before, once with another one for events.
    for restart in ["same ports", "another port"] {
        if restart == "another port" {
            home.forget_events_port();
        }
        let gateway = home.start();
        assert_eq!([next(&events), next(&events)], ["reconnected, restarted true", "missed None"]);
        publish(&client, "app/a", "A2");
        publish(&client, "app/b", "B2");
        assert_eq!([next(&events), next(&events)], ["A2", "B2"], "{restart}");
        assert_ne!(client.hello().unwrap().session, session);
        gateway.kill();
        assert_eq!(next(&events), "disconnected");
    }
}

#[test]
fn events_of_a_new_session_from_before_the_reconnect_come() {
    let mut home = Home::new(ADVERTISE);
    let gateway = home.start();
    let (network, url) = through_network(&gateway);
    let client = client(&url);
    let events = subscribe(&client, &["app/a"]);
    network.cut();
    gateway.kill();
    let gateway = home.start();
    for n in 1..=3 {
        gateway.request("events.publish", json!({"topic": "app/a", "data": n.to_string()}));
    }
    network.mend();
    let all: Vec<_> = (0..6).map(|_| next(&events)).collect();
    assert_eq!(all, ["disconnected", "reconnected, restarted true", "missed None", "1", "2", "3"]);
}

#[test]
fn a_cut_connection_loses_nothing_that_the_gateway_still_has() {
    let mut home = Home::new(ADVERTISE);
    let gateway = home.start();
    let (network, url) = through_network(&gateway);
    let client = client(&url);
    let events = subscribe(&client, &["app/a"]);
    publish(&client, "app/a", "0");
    assert_eq!(next(&events), "0");
    let direct = Client::connect(Some(gateway.endpoint("commands"))).unwrap();
    for round in 0..3 {
        network.cut();
        assert_eq!(next(&events), "disconnected", "{round}");
        for n in 0..20 {
            publish(&direct, "app/a", &n.to_string());
            // Another subscription's events count in the ids only.
            publish(&direct, "app/b", "b");
        }
        network.mend();
        assert_eq!(next(&events), "reconnected, restarted false");
        let all: Vec<_> = (0..20).map(|_| next(&events)).collect();
        assert_eq!(all, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(events.try_recv(), Ok(None));
}

#[test]
fn what_the_gateway_no_longer_has_is_told() {
    let mut home = Home::new(ADVERTISE);
    let gateway = home.start();
    let (network, url) = through_network(&gateway);
    let client = client(&url);
    let events = subscribe(&client, &["app/a"]);
    publish(&client, "app/a", "0");
    assert_eq!(next(&events), "0");
    network.cut();
    let direct = Client::connect(Some(gateway.endpoint("commands"))).unwrap();
    // The ring of a topic has 1,000.
    for n in 1..=1200 {
        publish(&direct, "app/a", &n.to_string());
    }
    network.mend();
    assert_eq!(next(&events), "disconnected");
    assert_eq!([next(&events), next(&events)], ["reconnected, restarted false", "missed Some(200)"]);
    for n in 201..=1200 {
        assert_eq!(next(&events), n.to_string());
    }
}

#[test]
fn a_stopped_reader_sees_its_gap_and_nobody_else_waits() {
    let mut home = Home::new("");
    let gateway = home.start();
    let client = client(gateway.endpoint("commands"));
    let options = SubscribeOptions { max_events: 10, timeout: Some(WATCHDOG), ..Default::default() };
    let slow = client.subscribe(&["app/a"], options).unwrap();
    let quick = subscribe(&client, &["app"]);
    for n in 1..=50 {
        publish(&client, "app/a", &n.to_string());
        assert_eq!(next(&quick), n.to_string());
    }
    wait_for("the loss", || (slow.dropped() == 40).then_some(()));
    for n in 1..=10 {
        assert_eq!(next(&slow), n.to_string());
    }
    assert_eq!(next(&slow), "missed Some(40)");
    publish(&client, "app/a", "51");
    assert_eq!(next(&slow), "51");
}

#[test]
fn c64_com1_does_not_hear_com10() {
    let mut home = Home::new("");
    let gateway = home.start();
    let client = client(gateway.endpoint("commands"));
    let one = subscribe(&client, &["app/COM1"]);
    let all = subscribe(&client, &[""]);
    for topic in ["app/COM10", "app/COM1", "app/COM2"] {
        publish(&client, topic, topic);
    }
    assert_eq!(next(&one), "app/COM1");
    // Everything, also the gateway's own, but not what clients use among themselves.
    let _other = subscribe(&client, &["app/x"]);
    publish(&client, "app/last", "last");
    let heard: Vec<_> = std::iter::from_fn(|| Some(next(&all)).filter(|payload| payload != "last")).collect();
    assert_eq!(heard, ["app/COM10", "app/COM1", "app/COM2"]);
    assert_eq!(one.try_recv(), Ok(None));
}

#[test]
fn requests_from_eight_threads_at_once_get_their_own_replies() {
    let mut home = Home::new("");
    let gateway = home.start();
    let client = client(gateway.endpoint("commands"));
    thread::scope(|scope| {
        for t in 0..8 {
            let client = client.clone();
            scope.spawn(move || {
                for n in 1..=200 {
                    assert_eq!(publish(&client, &format!("app/thread/{t}"), ""), n);
                    let error = client.request("serial.status", json!({"id": "none"}), WATCHDOG);
                    assert_eq!(error.unwrap_err().kind(), Kind::NotFound);
                }
            });
        }
    });
}

#[test]
fn c14_a_lost_reply_gives_timeout_and_the_next_call_works() {
    let mut count = 0;
    let peer = Peer::start("tcp://127.0.0.1:*", "s", move |request: &Request| {
        count += 1;
        assert!(request.key.is_some());
        if count == 2 { Does::Nothing } else { Does::Answers(json!(count)) }
    });
    let client = client(&peer.url);
    client.wait(WATCHDOG).unwrap();
    let ask = |timeout| client.request("m", Value::Null, timeout);
    assert_eq!(ask(WATCHDOG), Ok(json!(1)));
    let start = Instant::now();
    let error = ask(Duration::from_millis(500)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.message().ends_with("no reply to m within 500ms; outcome unknown"), "{error}");
    assert_eq!(ask(WATCHDOG), Ok(json!(3)));
}

#[test]
fn c39_outcome_unknown_when_the_gateway_dies_between() {
    let first = Peer::start("tcp://127.0.0.1:*", "first", |_| Does::Dies);
    let url = first.url.clone();
    let client = client(&url);
    client.wait(WATCHDOG).unwrap();
    let reply = in_background({
        let client = client.clone();
        move || client.request("serial.write", json!({}), WATCHDOG)
    });
    first.join();
    let second = Peer::start(&url, "second", |request| Does::Answers(request.method.as_str().into()));
    let error = reply().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{url} went away during serial.write; outcome unknown (DISCONNECTED)")
    );
    assert_eq!(client.request("again", Value::Null, WATCHDOG), Ok(json!("again")));
    drop(second);
}

#[test]
fn c39_nothing_is_done_again_by_a_gateway_that_was_restarted() {
    let mut home = Home::new(ADVERTISE);
    let gateway = home.start();
    let (network, url) = through_network(&gateway);
    let client = client(&url);
    client.wait(WATCHDOG).unwrap();
    let reply = lose_the_reply(&gateway, &network, &client);
    gateway.kill();
    let _gateway = home.start();
    network.mend();
    assert_eq!(reply().unwrap_err().kind(), Kind::Disconnected);
    assert_eq!(publish(&client, "app/once", ""), 1);
}

#[test]
fn a_key_makes_it_safe_to_send_again() {
    let mut home = Home::new(ADVERTISE);
    let gateway = home.start();
    let (network, url) = through_network(&gateway);
    let client = client(&url);
    client.wait(WATCHDOG).unwrap();
    let reply = lose_the_reply(&gateway, &network, &client);
    network.mend();
    assert_eq!(reply().unwrap()["seq"], 1);
    assert_eq!(publish(&client, "app/once", ""), 2);
}

/// A request that was carried out but whose reply was lost, with the connection cut since.
fn lose_the_reply(
    gateway: &Gateway,
    network: &Network,
    client: &Client,
) -> impl FnOnce() -> hwgate::Result<Value> + use<> {
    let published = || gateway.request("stats", json!({}))["events"]["published"].as_u64().unwrap();
    let before = published();
    network.mute();
    let asker = client.clone();
    let params = json!({"topic": "app/once"});
    let reply = in_background(move || asker.request("events.publish", params, WATCHDOG));
    wait_for("the event", || (published() > before).then_some(()));
    network.cut();
    reply
}

#[test]
fn a_frozen_gateway_is_noticed_and_welcomed_back() {
    let mut home = Home::new("");
    let gateway = home.start();
    let client = Client::new(impatient(gateway.endpoint("commands"))).unwrap();
    let events = subscribe(&client, &["app/a"]);
    gateway.signal("STOP");
    assert_eq!(next(&events), "disconnected");
    wait_for("the loss", || (!client.is_connected()).then_some(()));
    let error = client.request("ping", Value::Null, Duration::from_millis(10)).unwrap_err();
    assert_eq!(error.kind(), Kind::NotConnected);
    gateway.signal("CONT");
    assert_eq!(next(&events), "reconnected, restarted false");
    publish(&client, "app/a", "back");
    assert_eq!(next(&events), "back");
}

#[test]
fn a_client_may_come_before_its_gateway() {
    let mut home = Home::new("");
    let url = home.start().endpoint("commands").to_owned();
    let client = client(&url);
    let events = client.subscribe(&["app/a"], SubscribeOptions::later()).unwrap();
    let early = in_background({
        let client = client.clone();
        move || client.publish("app/a", b"early", Map::new(), WATCHDOG)
    });
    let error = client.wait(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.to_string(), format!("no gateway answers at {url} (NOT_CONNECTED)"));
    assert_eq!(events.wait(Duration::from_millis(50)).unwrap_err().kind(), Kind::NotConnected);
    let gateway = home.start();
    early().unwrap();
    events.wait(WATCHDOG).unwrap();
    publish(&client, "app/a", "late");
    wait_for("the event", || (next(&events) == "late").then_some(()));
    let error = client.request("events.publish", json!({"topic": "gateway/x"}), WATCHDOG).unwrap_err();
    assert_eq!(error.kind(), Kind::Permission);
    drop(gateway);
}

#[test]
fn the_end_is_quick_and_told_to_all() {
    // Nobody listens there.
    let client = client("tcp://127.0.0.1:9");
    let events = client.subscribe(&["app/a"], SubscribeOptions::later()).unwrap();
    let pending = in_background({
        let client = client.clone();
        move || client.request("ping", Value::Null, Duration::MAX)
    });
    thread::yield_now();
    let start = Instant::now();
    client.close();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(pending().unwrap_err().kind(), Kind::Closed);
    assert_eq!(events.recv(WATCHDOG).unwrap_err().kind(), Kind::Closed);
    assert_eq!(events.iter().next(), None);
    assert_eq!(client.request("ping", Value::Null, WATCHDOG).unwrap_err().kind(), Kind::Closed);
    assert_eq!(client.wait(WATCHDOG).unwrap_err().kind(), Kind::Closed);
    client.close();
}

#[test]
fn what_is_wrong_with_the_other_side_is_said() {
    let mut home = Home::new("");
    let gateway = home.start();
    let logs = gateway.endpoint("logs").to_owned();
    let error = wait_for("the reason", || {
        let client = client(&logs);
        client.wait(Duration::from_secs(2)).err().filter(|error| error.message().contains("plain log port"))
    });
    assert_eq!(error.message(), format!("{logs} is the plain log port; connect to commands (10003)"));

    let peer = Peer::start("tcp://127.0.0.1:*", "s", |_| Does::Nothing);
    let client = client(&peer.url);
    client.wait(WATCHDOG).unwrap();
    let error = client.subscribe(&["app/a"], SubscribeOptions::default()).err().unwrap();
    assert_eq!(error.kind(), Kind::NotEnabled);
    for params in [json!([1]), json!("x")] {
        assert_eq!(client.request("m", params, WATCHDOG).unwrap_err().kind(), Kind::InvalidArgument);
    }
    assert_eq!(Client::connect(Some("tcp://*:1")).err().unwrap().kind(), Kind::InvalidArgument);
}
