//! `hwgate tail --forward`: what passes a forwarder, for people and programs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{Gateway, WATCHDOG, free_port, hwgate, run, wait};

#[test]
fn tail_shows_what_passes_a_forwarder() {
    let dir = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()];
    let config = format!(
        "[[forward]]\nid = 'fleet'\ninput = 'tcp://127.0.0.1:{}'\noutput = 'tcp://127.0.0.1:{}'\n",
        ports[0], ports[1]
    );
    std::fs::write(dir.path().join("hwgate.toml"), config).unwrap();
    let gateway = Gateway::start(hwgate(dir.path(), &["run"]));
    let command = |args: &[&str]| {
        let mut command = hwgate(dir.path(), args);
        command.args(["--url", &gateway.url]);
        command
    };
    let tail = |args: &[&str]| {
        let more = ["--forward", "-n", "2", "--timeout", "25"];
        command(&[&["tail"], args, &more[..]].concat()).spawn().unwrap()
    };
    let (people, mut programs) = (tail(&[]), tail(&["--json", "door"]));

    // Nobody can see from here when they have subscribed, so it goes on until the one has what it wants.
    let context = zmq::Context::new();
    let publisher = context.socket(zmq::PUB).unwrap();
    publisher.set_linger(0).unwrap();
    publisher.connect(&format!("tcp://127.0.0.1:{}", ports[0])).unwrap();
    let start = Instant::now();
    while programs.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < WATCHDOG);
        for frames in [&["door", "WARN Tür\x1b[2K\n"][..], &["window", "open", ""]] {
            publisher.send_multipart(frames, 0).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let programs = wait(programs);
    let told: Vec<Value> = programs.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let frames = json!([{"data": "door"}, {"data": "WARN Tür\u{1b}[2K\n"}]);
    assert!(told.len() == 2 && told.iter().all(|one| one["frames"] == frames), "{programs:?}");
    assert!(told[0]["time"].is_string());
    // Those for people have seen both kinds by now, in some order of two.
    let people = wait(people);
    let texts: Vec<&str> = people.out.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert!(texts.contains(&r"door WARN Tür\x1b[2K") && texts.contains(&"window open "), "{people:?}");

    let other = run(command(&["tail", "--forward=main"]));
    assert!(other.code == 1 && other.err.contains("there are fleet"), "{other:?}");
    let none = run(command(&["tail", "--forward=fleet", "nothing", "-n", "1", "--timeout", "200ms"]));
    assert!(none.code == 69 && none.err.contains("0 of 1 messages"), "{none:?}");
}
