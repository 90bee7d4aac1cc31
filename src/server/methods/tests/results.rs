//! What methods answer has the form that docs/commands.json describes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Bench, Described, WATCHDOG, described, document, problem};
use crate::device::Reply;
use crate::journal::Header;
use crate::server::methods::{Answer, Outcome};
use crate::wire::{Level, Record, TextRule};

impl Bench {
    /// Does what the method does, to its end.
    fn ask(&self, method: &str, params: &Value) -> Answer {
        match self.call(method, params.as_object().unwrap())? {
            Outcome::Now(value) => Ok(value),
            Outcome::Later(work) => work(&self.shared),
            Outcome::Device(work) => {
                let (reply, answer) = Reply::channel();
                work(&self.shared, reply);
                answer.recv_timeout(WATCHDOG).unwrap().map_err(Into::into)
            }
        }
    }

    fn log(&self, text: &[u8], fields: &str, pid: Option<u32>) {
        let mut body = Vec::new();
        let (source, host, rule) = ("door", "kiosk-7", TextRule::Utf8);
        Record { time: 1, level: Level::Warn, source, host, pid, rule, text, fields }.encode(&mut body);
        let header = Header { records: 1, first_seq: 1, ..Header::default() };
        self.shared.journal.append(&header, &body, false).unwrap();
    }
}

/// Asks, and looks at the answers.
struct Asker<'a> {
    bench: &'a Bench,
    methods: Vec<Described<'a>>,
    asked: BTreeSet<&'a str>,
}

impl<'a> Asker<'a> {
    fn new(bench: &'a Bench, document: &'a Value) -> Asker<'a> {
        Asker { bench, methods: described(document), asked: BTreeSet::new() }
    }

    fn ask(&mut self, name: &str, params: Value) -> Value {
        let method = self.methods.iter().find(|method| method.name == name).unwrap();
        let result =
            self.bench.ask(name, &params).unwrap_or_else(|fault| panic!("{name} {params}: {fault:?}"));
        let fits = problem(method.document, &method.json["result"]["schema"], &result);
        assert_eq!(fits, Ok(()), "{name} {params}");
        self.asked.insert(method.name);
        result
    }
}

#[test]
fn results_are_as_described() {
    let (bench, document) = (Bench::new(), document());
    let mut asker = Asker::new(&bench, &document);
    for method in ["hello", "ping", "stats", "serial.list", "config.reload", "log.list"] {
        asker.ask(method, json!({}));
    }
    bench.log(b"it is open", r#"{"since_s":30}"#, Some(812));
    bench.log(b"\xff", "", None);
    assert_eq!(asker.ask("log.tail", json!({}))["records"].as_array().unwrap().len(), 2);
    asker.ask("log.flush", json!({}));
    assert_eq!(asker.ask("log.rotate", json!({}))["files"].as_array().unwrap().len(), 1);
    asker.ask("log.reopen", json!({}));

    asker.ask("events.publish", json!({"topic": "app/door", "data": "open", "fields": {"by": "guard"}}));
    asker.ask("events.publish", json!({"topic": "app/door", "data_base64": "/w=="}));
    assert_eq!(
        asker.ask("events.replay", json!({"topics": ["app/"]}))["events"].as_array().unwrap().len(),
        2
    );
    let first = asker.ask("events.replay", json!({"max_bytes": 1, "session": "another"}));
    assert!(first["next"].is_u64() && first["complete"] == false, "{first}");
    assert_eq!(asker.ask("forward.pause", json!({})), json!({"id": "main", "paused": true}));
    bench.shared.forwards[0].register(b"logTestV1");
    bench.shared.forwards[0].register(b"\xff");
    let stats = asker.ask("forward.stats", json!({"id": "main"}));
    let forward = &stats["forwards"][0];
    assert_eq!(forward["registered"], json!({"logTestV1": 1, "\\xff": 1}));
    assert_eq!((&forward["paused"], &forward["registrations"]), (&json!(true), &json!(2)));
    asker.ask("forward.resume", json!({"id": "main"}));
    assert_eq!(asker.ask("forward.stats", json!({}))["forwards"][0]["paused"], false);
    serial(&mut asker);
    asker.ask("shutdown", json!({}));

    let all = asker.methods.iter().map(|method| method.name);
    let left: Vec<&str> = all.filter(|name| !asker.asked.contains(name)).collect();
    // The sound output is asked in its own test.
    assert_eq!(
        left,
        ["device.list", "audio.list", "audio.play", "audio.stop", "audio.volume", "audio.status"]
    );
}

fn serial(asker: &mut Asker<'_>) {
    let open = json!({
        "id": "loop", "path": "sim:loop", "dtr": true, "rts": false, "any_baud": true, "baud": 12345,
        "framing": {"delimiter_hex": "ff", "timeout": "1h"},
    });
    assert_eq!(asker.ask("serial.open", open.clone())["already"], false);
    assert_eq!(asker.ask("serial.open", open)["already"], true);
    for (id, framing) in [
        ("a", json!("raw")),
        ("b", json!({"fixed": "2KiB"})),
        ("c", json!({"delimiter": "\u{3}", "max": 9})),
        ("d", json!({"line": "cr"})),
    ] {
        asker.ask("serial.open", json!({"id": id, "path": "sim:loop", "framing": framing}));
        asker.ask("serial.status", json!({"id": id}));
        asker.ask("serial.close", json!({"id": id}));
    }
    let lease = asker.ask("device.claim", json!({"id": "loop", "owner": "tool"}))["lease"].clone();
    asker.ask("serial.status", json!({}));
    asker.ask("device.renew", json!({"id": "loop", "lease": lease, "ttl_ms": 3_600_000}));
    let written = asker.ask("serial.write", json!({"id": "loop", "lease": lease, "data_base64": "/w=="}));
    assert_eq!(written, json!({"written": 1}));
    let set = json!({"id": "loop", "lease": lease, "baud": 9600, "any_baud": false, "parity": "odd", "stop_bits": 2});
    assert_eq!(asker.ask("serial.set", set)["baud"], 9600);
    asker.ask("serial.break", json!({"id": "loop", "lease": lease, "duration_ms": 1}));
    asker.ask("device.release", json!({"id": "loop", "lease": lease}));
    asker.ask("serial.lines", json!({"id": "loop", "dtr": true}));
    assert_eq!(asker.ask("sim.inject", json!({"id": "loop", "data": "hello"})), json!({"injected": 5}));
    asker.ask("serial.close", json!({"id": "loop"}));

    asker
        .ask("serial.open", json!({"id": "lines", "path": "sim:loop", "framing": {"line": "any", "max": 9}}));
    // "W 120" and a byte that is no text, then a line that is longer than a frame may be.
    let groups =
        json!({"id": "lines", "data_base64": "VyAxMjD/Cg==", "expect_regex": r"^W (\d+)(x)?((?-u:\xff))$"});
    let answer = asker.ask("serial.transact", groups);
    assert_eq!(answer["captures"], json!(["120", null, {"data_base64": "/w=="}]));
    assert_eq!((&answer["data_base64"], &answer["written"]), (&json!("VyAxMjD/"), &json!(7)));
    let long = asker.ask("serial.transact", json!({"id": "lines", "data": "0123456789\n", "expect": "8"}));
    assert_eq!((&long["data"], &long["truncated"]), (&json!("012345678"), &json!(true)));
    let partial = json!({"id": "lines", "data": "short", "expect_base64": "c2hvcnQ="});
    assert_eq!(asker.ask("serial.transact", partial)["partial"], true);
    asker.ask("serial.status", json!({"id": "lines"}));
}
