//! What docs/commands.json says of the methods and their parameters.

use std::sync::OnceLock;

use serde_json::Value;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// An object, an array, or one of several types.
    Several,
    /// No such method or parameter is described; a newer gateway may know it.
    Unknown,
}

fn description() -> &'static Value {
    static DESCRIPTION: OnceLock<Value> = OnceLock::new();
    DESCRIPTION
        .get_or_init(|| serde_json::from_str(include_str!("../../docs/commands.json")).unwrap_or_default())
}

fn methods() -> impl Iterator<Item = &'static Value> {
    description()["methods"].as_array().into_iter().flatten()
}

fn find(method: &str) -> Option<&'static Value> {
    methods().find(|known| known["name"] == method)
}

/// Whether a method is described.
pub fn is_known(method: &str) -> bool {
    find(method).is_some()
}

/// The parameters of a method but `key`, which every method has; those that several share stand in one place.
fn params(method: &'static Value) -> impl Iterator<Item = &'static Value> {
    let whole = |param: &'static Value| match param["$ref"].as_str() {
        Some(place) => description().pointer(place.trim_start_matches('#')).unwrap_or(param),
        None => param,
    };
    method["params"].as_array().into_iter().flatten().map(whole).filter(|param| param["name"] != "key")
}

/// The type of a method's parameter.
pub fn type_of(method: &str, name: &str) -> Type {
    let Some(param) = find(method).and_then(|method| params(method).find(|param| param["name"] == name))
    else {
        return Type::Unknown;
    };
    match param["schema"]["type"].as_str() {
        Some("string") => Type::Text,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Several,
    }
}

/// A line for each method: its name, its parameters, what it does.
pub fn list() -> impl Iterator<Item = String> {
    methods().map(|method| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let params: Vec<String> = params(method)
            .map(|param| match param["required"] == true {
                true => text(&param["name"]),
                false => format!("[{}]", text(&param["name"])),
            })
            .collect();
        let head = format!("{} {}", text(&method["name"]), params.join(" "));
        format!("{}\n    {}", head.trim_end(), text(&method["summary"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known() {
        assert_eq!(type_of("serial.write", "data"), Type::Text);
        assert_eq!(type_of("serial.write", "timeout_ms"), Type::Integer);
        assert_eq!(type_of("audio.play", "volume"), Type::Number);
        assert_eq!(type_of("serial.lines", "dtr"), Type::Boolean);
        assert_eq!(type_of("serial.open", "framing"), Type::Several);
        assert_eq!(type_of("serial.write", "nothing"), Type::Unknown);
        assert_eq!(type_of("no.method", "id"), Type::Unknown);
        assert!(is_known("ping") && !is_known("pong"));
        let lines: Vec<String> = list().collect();
        assert!(lines.iter().any(|line| line.starts_with("serial.write id ")), "{lines:?}");
    }
}
