//! JSON-RPC 2.0 as the `commands` endpoint speaks it: one frame, one request, always one reply.
//!
//! Nothing here knows a method. A frame becomes a [`Request`] or a [`Fault`]; a handler reads its
//! [`Params`] and gives a value or a fault; [`reply`] makes the frame that goes back.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, Kind};

pub use super::params::Params;

/// The frame is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The frame is JSON, but no request.
pub const INVALID_REQUEST: i32 = -32600;
/// No method has this name.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// A parameter is unknown, missing or of a wrong type.
pub const INVALID_PARAMS: i32 = -32602;

/// Why a request failed: the JSON-RPC code and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// One of the four codes of JSON-RPC, else `-32000 - number` of the error's kind.
    pub code: i32,
    /// Kind and sentence.
    pub error: Error,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { code: error.kind().rpc_code(), error }
    }
}

impl Fault {
    /// The fault for a method that does not exist; names the nearest of `known`.
    pub fn method_not_found(method: &str, known: &[&str]) -> Fault {
        let hint = crate::wire::nearest(method, known.iter().copied())
            .map_or(String::new(), |near| format!("; did you mean {near}?"));
        let message = format!("no method {:?}{hint}", shorten(method));
        Fault { code: METHOD_NOT_FOUND, error: Error::new(Kind::NotFound, message) }
    }

    /// The fault for parameters that do not fit the method.
    pub fn invalid_params(message: impl Into<String>) -> Fault {
        Fault { code: INVALID_PARAMS, error: Error::new(Kind::InvalidArgument, message) }
    }

    /// The fault for a message that is no request.
    pub fn invalid_request(message: impl Into<String>) -> Fault {
        Fault { code: INVALID_REQUEST, error: Error::new(Kind::BadRequest, message) }
    }

    fn parse(message: impl Into<String>) -> Fault {
        Fault { code: PARSE_ERROR, error: Error::new(Kind::BadRequest, message) }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A string or an integer of 64 bits, echoed in the reply.
    pub id: Value,
    /// The method's name.
    pub method: String,
    /// The parameters by name, without `key`.
    pub params: Params,
    /// The `key` parameter: a repeat with the same key gets the first one's reply.
    pub key: Option<String>,
}

/// Reads one frame. On a fault, the id is that of the request where it could be read, else null.
pub fn parse(frame: &[u8]) -> Result<Request, (Value, Fault)> {
    let unknown = |fault| (Value::Null, fault);
    let frame = frame.strip_prefix(b"\xef\xbb\xbf").unwrap_or(frame);
    if is_utf16(frame) {
        return Err(unknown(Fault::parse("UTF-16, expected UTF-8")));
    }
    let value = serde_json::from_slice(frame)
        .map_err(|error| unknown(Fault::parse(format!("the request is not JSON: {error}"))))?;
    let mut members = match value {
        Value::Object(members) => members,
        Value::Array(_) => {
            let text = "a batch is not taken; send each request as a message of its own";
            return Err(unknown(Fault::invalid_request(text)));
        }
        _ => return Err(unknown(Fault::invalid_request("a request is a JSON object"))),
    };
    let id = match members.remove("id") {
        Some(id) if id.is_string() || id.is_i64() || id.is_u64() => id,
        Some(_) => {
            let text = "id must be a string or an integer of 64 bits";
            return Err(unknown(Fault::invalid_request(text)));
        }
        None => {
            let text = "id is missing; notifications are not taken, every request gets a reply";
            return Err(unknown(Fault::invalid_request(text)));
        }
    };
    match validate(members) {
        Ok((method, params, key)) => Ok(Request { id, method, params: Params::new(params), key }),
        Err(fault) => Err((id, fault)),
    }
}

/// The members of a request other than its id.
type Members = (String, Map<String, Value>, Option<String>);

fn validate(mut members: Map<String, Value>) -> Result<Members, Fault> {
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(Fault::invalid_request(r#""jsonrpc": "2.0" is missing"#));
    }
    let Some(Value::String(method)) = members.remove("method") else {
        return Err(Fault::invalid_request("method must be a string"));
    };
    let mut params = match members.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(Value::Array(_)) => {
            return Err(Fault::invalid_params("params must be an object: parameters go by name"));
        }
        Some(_) => return Err(Fault::invalid_params("params must be an object")),
    };
    let key = match params.remove("key") {
        None => None,
        Some(Value::String(key)) if (1..=64).contains(&key.len()) => Some(key),
        Some(_) => {
            return Err(Fault::invalid_params("key: must be a string of 1 to 64 bytes, such as a UUID"));
        }
    };
    Ok((method, params, key))
}

/// The frame of a reply.
pub fn reply(id: &Value, outcome: Result<Value, Fault>) -> Vec<u8> {
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(Fault { code, error }) => {
            let details = error.details().map(|(name, value)| (name.clone(), value.clone()));
            let mut data: Map<String, Value> = details.collect();
            data.insert("kind".to_owned(), error.kind().name().into());
            (None, Some(json!({"code": code, "message": error.message(), "data": data})))
        }
    };
    let reply = Reply { jsonrpc: "2.0", id, result, error };
    // Values are always JSON.
    serde_json::to_vec(&reply).unwrap_or_default()
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// The frame of a request. The parameters must be an object or null.
pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    let params = (!params.is_null()).then_some(params);
    // Values are always JSON.
    serde_json::to_vec(&Asked { jsonrpc: "2.0", id, method, params }).unwrap_or_default()
}

#[derive(Serialize)]
struct Asked<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
}

/// Reads a reply: its id and the outcome. `None` when the frame is no reply.
///
/// The kind of an error is that of `data.kind`; a kind that this version does not know is INTERNAL.
pub fn parse_reply(frame: &[u8]) -> Option<(Value, Result<Value, Error>)> {
    let mut reply: Map<String, Value> = serde_json::from_slice(frame).ok()?;
    let id = reply.remove("id")?;
    if let Some(error) = reply.get("error") {
        let kind = error["data"]["kind"].as_str().and_then(Kind::from_name).unwrap_or(Kind::Internal);
        let message = error["message"].as_str().unwrap_or("the gateway gave no reason");
        let details = error["data"].as_object().into_iter().flatten().filter(|(name, _)| *name != "kind");
        let error =
            details.fold(Error::new(kind, message), |error, (name, value)| error.with(name, value.clone()));
        return Some((id, Err(error)));
    }
    Some((id, Ok(reply.remove("result")?)))
}

/// The frames before the body: they lead the reply back and are echoed as they came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope(Vec<Vec<u8>>);

impl Envelope {
    /// The routing id of the peer that the ROUTER socket took the message from.
    pub fn routing_id(&self) -> &[u8] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// The whole message that answers with these frames.
    pub fn wrap(&self, body: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
        self.0.iter().cloned().chain(body).collect()
    }
}

/// What a message to the `commands` endpoint holds behind its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// One frame, for [`parse`].
    Request(Vec<u8>),
    /// `[INIT, topic]`, the registration of existing producers; answered by [`Body::init_reply`].
    Init(Vec<u8>),
}

impl Body {
    /// The frames that answer `[INIT, topic]`: `[OK, topic]`.
    pub fn init_reply(topic: Vec<u8>) -> [Vec<u8>; 2] {
        [b"OK".to_vec(), topic]
    }
}

/// Splits a message from a ROUTER socket into envelope and body.
///
/// The envelope is all frames through the first empty one (REQ, proxies, REQ_CORRELATE), else the
/// routing id alone (DEALER). A body that is neither one frame nor INIT is a fault to answer with a null id.
pub fn split(mut frames: Vec<Vec<u8>>) -> (Envelope, Result<Body, Fault>) {
    let end = match frames.iter().position(Vec::is_empty) {
        Some(delimiter) => delimiter + 1,
        None => 1.min(frames.len()),
    };
    let mut body = frames.split_off(end);
    let body = match body.as_mut_slice() {
        [one] => Ok(Body::Request(std::mem::take(one))),
        [init, topic] if init == b"INIT" => Ok(Body::Init(std::mem::take(topic))),
        frames => {
            let text = format!("{} frames, expected one of JSON", frames.len());
            Err(Fault::invalid_request(text))
        }
    };
    (Envelope(frames), body)
}

/// Whether bytes that should be JSON look like UTF-16: a BOM, or a NUL as one of the first two bytes.
fn is_utf16(frame: &[u8]) -> bool {
    matches!(frame, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..])
}

/// A name from a peer, cut so that a message stays readable.
fn shorten(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(frame: &[u8]) -> (Value, i32, String) {
        let (id, fault) = parse(frame).unwrap_err();
        (id, fault.code, fault.error.to_string())
    }

    #[test]
    fn a_request_is_read() {
        let request =
            parse(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"key\":\"k\",\"a\":1}}");
        let request = request.unwrap();
        assert_eq!((request.id, request.method.as_str()), (json!(7), "ping"));
        assert_eq!(request.key.as_deref(), Some("k"));
        assert_eq!(request.params, Params::new(json!({"a": 1}).as_object().unwrap().clone()));
    }

    #[test]
    fn each_fault_has_its_code_and_id() {
        let null = Value::Null;
        assert_eq!(code(b"{").1, PARSE_ERROR);
        for utf16 in [&b"\xff\xfe{\0}\0"[..], b"\xfe\xff\0{\0}", b"{\0}\0", b"\0{\0}"] {
            let expected = "UTF-16, expected UTF-8 (BAD_REQUEST)".to_owned();
            assert_eq!(code(utf16), (null.clone(), PARSE_ERROR, expected));
        }
        for frame in [
            &b"[]"[..],
            b"7",
            br#"{"jsonrpc":"2.0","method":"ping"}"#,
            br#"{"jsonrpc":"2.0","method":"ping","id":null}"#,
            br#"{"jsonrpc":"2.0","method":"ping","id":1.5}"#,
            br#"{"jsonrpc":"2.0","method":"ping","id":123456789012345678901}"#,
        ] {
            let (id, code, _) = code(frame);
            assert_eq!((id, code), (null.clone(), INVALID_REQUEST));
        }
        assert_eq!(code(br#"{"cmd":"ping","id":"x"}"#).0, json!("x"));
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1}"#).1, INVALID_REQUEST);
        let array = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#;
        assert_eq!(code(array).1, INVALID_PARAMS);
        let key = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"key":1}}"#;
        assert_eq!(code(key).1, INVALID_PARAMS);
    }

    #[test]
    fn replies_carry_the_kind_and_come_back_as_errors() {
        let leased = Error::new(Kind::Leased, "scanner is held by another").with("owner", "tool");
        let fault = Fault::from(leased.clone());
        let frame = reply(&json!("a"), Err(fault));
        let value: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(value["error"]["code"], -32011);
        assert_eq!(value["error"]["data"]["kind"], "LEASED");
        let (id, outcome) = parse_reply(&frame).unwrap();
        assert_eq!(id, json!("a"));
        assert_eq!(outcome.unwrap_err(), leased);
        let (_, outcome) = parse_reply(&reply(&json!(1), Ok(Value::Null))).unwrap();
        assert_eq!(outcome, Ok(Value::Null));
        let fault = Fault::method_not_found("pign", &["ping", "hello"]);
        assert_eq!(fault.error.to_string(), "no method \"pign\"; did you mean ping? (NOT_FOUND)");
    }

    #[test]
    fn every_kind_of_peer_gets_its_envelope_back() {
        let frames = |parts: &[&str]| parts.iter().map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>();
        for (message, depth) in [
            (frames(&["id", "{}"]), 1),                      // DEALER
            (frames(&["id", "", "{}"]), 2),                  // REQ
            (frames(&["id", "4321", "", "{}"]), 3),          // REQ_CORRELATE
            (frames(&["proxy", "id", "", "{}"]), 3),         // through a proxy
            (frames(&["proxy", "id", "4321", "", "{}"]), 4), // both
        ] {
            let (envelope, body) = split(message.clone());
            assert_eq!(body, Ok(Body::Request(b"{}".to_vec())));
            assert_eq!(envelope.routing_id(), message[0]);
            let mut expected = message[..depth].to_vec();
            expected.push(b"r".to_vec());
            assert_eq!(envelope.wrap([b"r".to_vec()]), expected);
        }
        for init in [frames(&["id", "INIT", "t"]), frames(&["id", "", "INIT", "t"])] {
            let (envelope, body) = split(init.clone());
            let Ok(Body::Init(topic)) = body else { panic!("INIT was not seen") };
            let reply = envelope.wrap(Body::init_reply(topic));
            assert_eq!(reply[reply.len() - 2..], frames(&["OK", "t"])[..]);
        }
        for message in [frames(&["id"]), frames(&["id", ""]), frames(&["id", "", "a", "b"]), vec![]] {
            assert_eq!(split(message).1.unwrap_err().code, INVALID_REQUEST);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..6)) {
            let (envelope, body) = split(frames.clone());
            if let Ok(Body::Request(frame)) = body {
                let _ = parse(&frame);
                let _ = parse_reply(&frame);
            }
            prop_assert!(frames.starts_with(&envelope.wrap([])));
        }

        #[test]
        fn whatever_the_members_are_there_is_a_reply(
            id in "[0-9\"a-z\\[\\]{}.]{0,6}", method in "\\PC{0,20}", params in "[\\[\\]{}\"a:1,]{0,12}",
        ) {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method:?},"params":{params}}}"#);
            let frame = match parse(text.as_bytes()) {
                Ok(request) => reply(&request.id, Ok(Value::Null)),
                Err((id, fault)) => reply(&id, Err(fault)),
            };
            prop_assert!(parse_reply(&frame).is_some());
        }
    }
}
