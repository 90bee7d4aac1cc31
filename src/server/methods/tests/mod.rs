//! docs/commands.json agrees with the code: methods, parameters, errors and examples here, results in `results.rs`.
//!
//! Methods are called as the command thread calls them. What a call would do later or hand to a device is not done
//! here, so that all can be called, `shutdown` as well.

mod results;
mod schema;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Called, Outcome, call, methods};
use crate::Kind;
use crate::config::{AudioOutput, Config, ForwardConfig, Overrides};
use crate::journal::{Journal, Options};
use crate::server::state::Shared;
use crate::server::{forward, socket};
use crate::wire::rpc::{self, Fault, Params};
use schema::{problem, resolve, types};

const WATCHDOG: Duration = Duration::from_secs(60);

/// Beyond their maximum these are cut, not refused.
const CUT: &[&str] = &["timeout_ms", "wait_ms", "max_bytes"];

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../docs/commands.json")).unwrap()
}

/// A gateway without threads, and without endpoints but those of a forwarder.
struct Bench {
    shared: Shared,
    _sockets: Vec<forward::Bound>,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hwgate.toml");
        std::fs::write(&file, "").unwrap();
        let overrides = Overrides { config: Some(file), ..Overrides::default() };
        let mut config = Config::load(&overrides).unwrap().config;
        config.audio.output = AudioOutput::Null;
        let any = "tcp://127.0.0.1:0";
        let forward = ForwardConfig { monitor: Some(any.to_owned()), ..ForwardConfig::new(any, any) };
        config.forward = vec![ForwardConfig { journal: true, ..forward }];
        let context = zmq::Context::new();
        let sockets = forward::bind(&mut socket::Binder::new(&context, &config), &config.forward).unwrap();
        let forwards = sockets.iter().map(forward::Bound::handle).collect();
        let (journal, recovery) = Journal::open(Options::new(&config.journal.dir)).unwrap();
        let shared = Shared::new(config, Vec::new(), journal, recovery, forwards).unwrap();
        Bench { shared, _sockets: sockets, _dir: dir }
    }

    fn call(&self, method: &str, params: &Map<String, Value>) -> Called {
        call(&self.shared, method, Params::new(params.clone()))
    }

    /// The fault of a call that is to be refused for a parameter, whose name is told.
    fn refused(&self, method: &str, params: &Map<String, Value>, name: &str) {
        match self.call(method, params) {
            Ok(_) => panic!("{method} takes {params:?}"),
            Err(fault) => assert!(fault.error.message().contains(name), "{method}, {name}: {fault:?}"),
        }
    }

    /// Fails where the call is refused for its parameters; that there is no such play or port is another matter.
    fn taken(&self, method: &str, params: &Map<String, Value>) {
        if let Err(fault) = self.call(method, params) {
            assert_ne!(fault.code, rpc::INVALID_PARAMS, "{method} {params:?}: {fault:?}");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let deadline = Instant::now() + WATCHDOG;
        self.shared.devices.stop(deadline);
        let _ = self.shared.sinks.stop(deadline);
        let _ = self.shared.journal.close();
    }
}

/// A method of the document.
struct Described<'a> {
    document: &'a Value,
    json: &'a Value,
    name: &'a str,
    /// But `key`.
    params: Vec<&'a Value>,
}

fn described(document: &Value) -> Vec<Described<'_>> {
    let methods = document["methods"].as_array().unwrap().iter();
    methods
        .map(|json| {
            let mut params: Vec<&Value> = json["params"].as_array().unwrap().iter().collect();
            let key = params.pop().unwrap();
            let name = json["name"].as_str().unwrap();
            assert_eq!(key["$ref"], "#/components/contentDescriptors/Key", "{name}: key comes last");
            let params = params.into_iter().map(|param| resolve(document, param)).collect();
            Described { document, json, name, params }
        })
        .collect()
}

impl Described<'_> {
    fn names(&self) -> BTreeSet<&str> {
        self.params.iter().filter_map(|param| param["name"].as_str()).collect()
    }

    fn param(&self, name: &str) -> &Value {
        self.params
            .iter()
            .find(|param| param["name"] == name)
            .unwrap_or_else(|| panic!("{}: {name}", self.name))
    }

    /// Sets of parameters that exclude each other: exactly one of them (`x-one-of`) or at most one.
    fn groups(&self, extension: &str) -> Vec<Vec<&str>> {
        let groups = self.json[extension].as_array().into_iter().flatten();
        groups.map(|group| group.as_array().unwrap().iter().filter_map(Value::as_str).collect()).collect()
    }

    fn examples(&self) -> Vec<Map<String, Value>> {
        let examples = self.json["examples"].as_array().unwrap().iter();
        let member = |param: &Value| (param["name"].as_str().unwrap().to_owned(), param["value"].clone());
        examples.map(|example| example["params"].as_array().unwrap().iter().map(member).collect()).collect()
    }

    /// A value that the parameter may have.
    fn sample(&self, name: &str) -> Value {
        if let Some(value) = self.examples().iter().find_map(|example| example.get(name)) {
            return value.clone();
        }
        let schema = resolve(self.document, &self.param(name)["schema"]);
        let first = |list: &str| schema[list].get(0).cloned();
        first("examples").or_else(|| first("enum")).or_else(|| schema.get("default").cloned()).unwrap_or_else(
            || match types(self.document, schema)[0] {
                "string" if schema["contentEncoding"] == "base64" => json!("aGk="),
                "string" => json!("x"),
                "boolean" => json!(true),
                "object" => json!({}),
                "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
                other => panic!("{}: {name}: no sample of {other}; give an example", self.name),
            },
        )
    }

    /// The first example with this parameter in place of those that it excludes.
    fn with(&self, name: &str, value: Value) -> Map<String, Value> {
        let mut params = self.examples().swap_remove(0);
        for group in ["x-one-of", "x-at-most-one-of"].iter().flat_map(|kind| self.groups(kind)) {
            if group.contains(&name) {
                group.iter().for_each(|rival| drop(params.remove(*rival)));
            }
        }
        params.insert(name.to_owned(), value);
        params
    }
}

/// The names in an error that lists them.
fn listed<'a>(message: &'a str, before: &str) -> BTreeSet<&'a str> {
    let list = message.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {message:?}")).1;
    list.split(';').next().unwrap_or_default().split(", ").collect()
}

#[test]
fn every_method_is_described_and_no_other() {
    let document = document();
    let names: Vec<&str> = described(&document).iter().map(|method| method.name).collect();
    assert_eq!(names, methods().map(|(name, _)| *name).collect::<Vec<_>>());
    for method in described(&document) {
        assert_eq!(method.json["paramStructure"], "by-name", "{}", method.name);
        assert!(method.json["summary"].is_string() && method.json["examples"].is_array(), "{}", method.name);
        assert_eq!(method.names().len(), method.params.len(), "{}: a name twice", method.name);
    }
}

#[test]
fn parameters_are_those_of_the_code() {
    let (bench, document) = (Bench::new(), document());
    for method in described(&document) {
        let unknown = json!({"zzzzzzzz": 1}).as_object().unwrap().clone();
        let fault = bench.call(method.name, &unknown).err().unwrap();
        let names = method.names();
        match names.is_empty() {
            true => assert!(fault.error.message().ends_with("the method takes none"), "{fault:?}"),
            false => assert_eq!(listed(fault.error.message(), "the method takes "), names, "{}", method.name),
        }
        // What is required is named where it is missing; what is not is not.
        let all = method.examples().swap_remove(0);
        bench.taken(method.name, &all);
        let required: Vec<&&Value> = method.params.iter().filter(|param| param["required"] == true).collect();
        if required.is_empty() && method.groups("x-one-of").is_empty() {
            bench.taken(method.name, &Map::new());
        }
        for param in &method.params {
            let name = param["name"].as_str().unwrap();
            let mut without = all.clone();
            without.remove(name);
            if param["required"] == true {
                bench.refused(method.name, &without, name);
            } else if !method.groups("x-one-of").iter().any(|group| group.contains(&name)) {
                bench.taken(method.name, &without);
            }
        }
    }
}

#[test]
fn parameters_exclude_each_other_as_described() {
    let (bench, document) = (Bench::new(), document());
    let mut seen = 0;
    for method in described(&document) {
        for (kind, needed) in [("x-one-of", true), ("x-at-most-one-of", false)] {
            for group in method.groups(kind) {
                seen += 1;
                for (index, name) in group.iter().enumerate() {
                    let one = method.with(name, method.sample(name));
                    bench.taken(method.name, &one);
                    for other in &group[index + 1..] {
                        let mut two = one.clone();
                        two.insert((*other).to_owned(), method.sample(other));
                        bench.refused(method.name, &two, other);
                    }
                    let mut none = one;
                    none.remove(*name);
                    if needed {
                        bench.refused(method.name, &none, name);
                    } else {
                        bench.taken(method.name, &none);
                    }
                }
            }
        }
    }
    assert!(seen > 5, "{seen} groups");
}

#[test]
fn values_are_taken_and_refused_as_described() {
    let (bench, document) = (Bench::new(), document());
    for method in described(&document) {
        for param in &method.params {
            let (name, schema) = (param["name"].as_str().unwrap(), resolve(&document, &param["schema"]));
            let taken = |value: Value| {
                assert_eq!(problem(&document, schema, &value), Ok(()), "{} {name}", method.name);
                bench.taken(method.name, &method.with(name, value));
            };
            let refused = |value: Value| {
                assert!(problem(&document, schema, &value).is_err(), "{} {name}: {value}", method.name);
                bench.refused(method.name, &method.with(name, value), name);
            };
            assert!(param["description"].is_string(), "{} {name}", method.name);
            taken(method.sample(name));
            schema.get("default").cloned().into_iter().for_each(taken);
            let listed = ["enum", "examples"].iter().filter_map(|list| schema[list].as_array()).flatten();
            listed.cloned().for_each(taken);
            let allowed = types(&document, schema);
            let others =
                [json!("zz zz"), json!(7), json!(1.5), json!(true), json!([1]), json!({"zzzzzzzz": 1})];
            for (other, kind) in
                others.into_iter().zip(["string", "integer", "number", "boolean", "array", "object"])
            {
                let fits = allowed.contains(&kind) || (kind == "integer" && allowed.contains(&"number"));
                if !fits {
                    refused(other);
                }
            }
            if schema.get("enum").is_some() || schema["contentEncoding"] == "base64" {
                refused(json!("zzzz?"));
            }
            ranges(schema, name, taken, refused);
            lengths(schema, taken, refused);
            objects(&bench, &method, name);
        }
    }
}

/// The ends of what a number may be, and what lies beyond.
fn ranges(schema: &Value, name: &str, taken: impl Fn(Value), refused: impl Fn(Value)) {
    for (end, beyond) in [("minimum", -1), ("maximum", 1)] {
        let Some(limit) = schema[end].as_i64() else { continue };
        taken(json!(limit));
        if end == "minimum" || !CUT.contains(&name) {
            refused(json!(limit + beyond));
        }
    }
}

/// The longest and the shortest text and array, and what is longer or shorter.
fn lengths(schema: &Value, taken: impl Fn(Value), refused: impl Fn(Value)) {
    // A text in which the length alone may be wrong.
    let start = if schema["pattern"] == "^app/." { "app/" } else { "" };
    let text = |length: u64| Value::from(format!("{start}{}", "x".repeat(length as usize - start.len())));
    if let Some(most) = schema["maxLength"].as_u64() {
        // A topic gets a slash at its end.
        taken(text(most - u64::from(!start.is_empty())));
        refused(text(most + 1));
    }
    if schema["minLength"].as_u64() == Some(1) {
        refused(json!(""));
    }
    if schema.get("pattern").is_some() {
        refused(json!("?"));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        taken(json!(vec!["x"; most as usize]));
        refused(json!(vec!["x"; most as usize + 1]));
    }
}

/// The members that an object may have, where the code knows them.
fn objects(bench: &Bench, method: &Described<'_>, name: &str) {
    let schema = resolve(method.document, &method.param(name)["schema"]);
    let choices = schema["oneOf"].as_array().into_iter().flatten().chain([schema]);
    let mut named = choices.filter_map(|schema| resolve(method.document, schema)["properties"].as_object());
    let Some(properties) = named.next() else { return };
    let params = method.with(name, json!({"zzzzzzzz": 1}));
    let fault = bench.call(method.name, &params).err().unwrap();
    let names = properties.keys().map(String::as_str).collect();
    assert_eq!(listed(fault.error.message(), "there are "), names, "{} {name}", method.name);
}

#[test]
fn errors_are_those_of_the_code() {
    let document = document();
    let errors = document["components"]["errors"].as_object().unwrap();
    let told = |kind: Kind, code: i32| json!({"code": code, "data": {"kind": kind.name()}});
    let protocol = [
        ("ParseError", told(Kind::BadRequest, rpc::PARSE_ERROR)),
        ("InvalidRequest", told(Kind::BadRequest, rpc::INVALID_REQUEST)),
        ("MethodNotFound", told(Kind::NotFound, rpc::METHOD_NOT_FOUND)),
        ("InvalidParams", told(Kind::InvalidArgument, rpc::INVALID_PARAMS)),
    ];
    let kinds = Kind::ALL.iter().map(|kind| (kind.name(), told(*kind, kind.rpc_code())));
    let wanted: Map<String, Value> =
        kinds.chain(protocol).map(|(name, error)| (name.to_owned(), error)).collect();
    let described: Map<String, Value> = errors
        .iter()
        .map(|(name, error)| {
            let mut error = error.as_object().unwrap().clone();
            assert!(error.remove("message").is_some_and(|message| message.is_string()), "{name}");
            (name.clone(), error.into())
        })
        .collect();
    assert_eq!(described, wanted);
    // The two that any method with parameters can show here.
    let fault = |method: &str| call(&Bench::new().shared, method, Params::default()).err().unwrap();
    let Fault { code, error } = fault("nonsense");
    assert_eq!(told(error.kind(), code), wanted["MethodNotFound"]);
    let Fault { code, error } = fault("serial.close");
    assert_eq!(told(error.kind(), code), wanted["InvalidParams"]);
}

#[test]
fn examples_fit() {
    let (bench, document) = (Bench::new(), document());
    for method in described(&document) {
        let results = method.json["examples"].as_array().unwrap().iter().map(|it| &it["result"]);
        for (params, result) in method.examples().into_iter().zip(results) {
            for (name, value) in &params {
                let fits = problem(&document, &method.param(name)["schema"], value);
                assert_eq!(fits, Ok(()), "{} {name}", method.name);
            }
            bench.taken(method.name, &params);
            assert_eq!(result["name"], method.json["result"]["name"], "{}", method.name);
            let fits = problem(&document, &method.json["result"]["schema"], &result["value"]);
            assert_eq!(fits, Ok(()), "{}", method.name);
        }
        // Of what runs on a thread of its own only so much runs at once.
        let later = matches!(bench.call(method.name, &method.examples()[0]), Ok(Outcome::Later(_)));
        let mut errors = method.json["errors"].as_array().into_iter().flatten();
        let busy = errors.any(|error| error["$ref"] == "#/components/errors/BUSY");
        assert!(busy || !later, "{} may be BUSY", method.name);
    }
}

#[test]
fn references_lead_somewhere() {
    fn walk(document: &Value, value: &Value, seen: &mut BTreeSet<String>) {
        if let Some(path) = value.get("$ref").and_then(Value::as_str) {
            resolve(document, value);
            seen.insert(path.to_owned());
        }
        match value {
            Value::Object(members) => members.values().for_each(|value| walk(document, value, seen)),
            Value::Array(items) => items.iter().for_each(|value| walk(document, value, seen)),
            _ => {}
        }
    }
    let (document, mut seen) = (document(), BTreeSet::new());
    walk(&document, &document, &mut seen);
    for part in ["schemas", "contentDescriptors"] {
        for name in document["components"][part].as_object().unwrap().keys() {
            assert!(seen.contains(&format!("#/components/{part}/{name}")), "{name} is not used");
        }
    }
}
