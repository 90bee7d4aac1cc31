//! The parameters of a request, read into a method's own struct.
//!
//! Every error names the method and the parameter, and an unknown parameter is an error that names
//! the nearest known one: a misspelt `timeout_ms` must not be a silent wait for ever.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, Visitor, value::StringDeserializer};
use serde_json::{Map, Value};

use super::rpc::Fault;

/// The parameters of one request, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(Map<String, Value>);

impl Params {
    /// Parameters from the members of a JSON object.
    pub fn new(members: Map<String, Value>) -> Params {
        Params(members)
    }

    /// The parameters as JSON, in the order of their names: the same text for the same parameters.
    pub fn text(&self) -> String {
        // Members of a map are ordered by their names.
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// A parameter as it was given.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The same parameters with this one.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Params {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Reads the parameters of `method` into `T`, a struct with named fields.
    ///
    /// Unknown parameters are errors whether or not `T` says `deny_unknown_fields`.
    pub fn read<T: DeserializeOwned>(self, method: &str) -> Result<T, Fault> {
        T::deserialize(Struct(self.0))
            .map_err(|error| Fault::invalid_params(format!("{method}: {}", error.0)))
    }

    /// For methods without parameters: an error if there are any.
    pub fn none(self, method: &str) -> Result<(), Fault> {
        #[derive(Deserialize)]
        struct Nothing {}
        self.read::<Nothing>(method).map(|Nothing {}| ())
    }
}

/// Deserialises a struct only, since only a struct tells which names are known.
struct Struct(Map<String, Value>);

impl<'de> de::Deserializer<'de> for Struct {
    type Error = Trouble;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Trouble> {
        if let Some(name) = self.0.keys().find(|name| !known.contains(&name.as_str())) {
            let hint = match super::nearest(name, known.iter().copied()) {
                Some(near) => format!("; did you mean {near}?"),
                None if known.is_empty() => "; the method takes none".to_owned(),
                None => format!("; the method takes {}", known.join(", ")),
            };
            return Err(Trouble(format!("no parameter {name:?}{hint}")));
        }
        visitor.visit_map(Fields { rest: self.0.into_iter(), current: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Trouble> {
        Err(Trouble("parameters are read into a struct only".to_owned()))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Walks over the parameters and remembers the name, for the error.
struct Fields {
    rest: serde_json::map::IntoIter,
    current: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Trouble;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Trouble> {
        self.current = self.rest.next();
        match &self.current {
            Some((name, _)) => seed.deserialize(StringDeserializer::new(name.clone())).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Trouble> {
        let (name, value) = self.current.take().unwrap_or_default();
        seed.deserialize(value).map_err(|error| Trouble(format!("{name}: {error}")))
    }
}

/// What is wrong with the parameters.
#[derive(Debug)]
struct Trouble(String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Trouble {}

impl de::Error for Trouble {
    fn custom<T: fmt::Display>(message: T) -> Trouble {
        Trouble(message.to_string())
    }

    fn missing_field(field: &'static str) -> Trouble {
        Trouble(format!("parameter {field} is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Open {
        path: String,
        #[serde(default)]
        baud: Option<u32>,
    }

    fn open(params: Value) -> Result<Open, String> {
        let Value::Object(members) = params else { unreachable!() };
        Params::new(members).read("serial.open").map_err(|fault| fault.error.message().to_owned())
    }

    #[test]
    fn every_error_names_the_parameter() {
        assert_eq!(open(json!({"path": "p", "baud": 9600})), Ok(Open { path: "p".into(), baud: Some(9600) }));
        let error = |params| open(params).unwrap_err();
        assert_eq!(
            error(json!({"path": "p", "bauds": 1})),
            "serial.open: no parameter \"bauds\"; did you mean baud?"
        );
        assert_eq!(error(json!({"baud": 1})), "serial.open: parameter path is missing");
        assert_eq!(
            error(json!({"path": 5})),
            "serial.open: path: invalid type: integer `5`, expected a string"
        );
        assert!(error(json!({"path": "p", "baud": -1})).starts_with("serial.open: baud: "));
        assert!(error(json!({"zzzzzzzz": 1})).ends_with("the method takes path, baud"));
        let members = json!({"x": 1}).as_object().unwrap().clone();
        let fault = Params::new(members).none("ping").unwrap_err();
        assert_eq!(fault.error.message(), "ping: no parameter \"x\"; the method takes none");
        assert!(Params::default().none("ping").is_ok());
    }
}
