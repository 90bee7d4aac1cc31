//! As much of JSON Schema as docs/commands.json uses, and stricter: a member that no schema names is a problem.

use serde_json::Value;

/// What a schema may have in it; anything else would be passed over in silence.
const KEYWORDS: &[&str] = &[
    "type",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "contentEncoding",
    "items",
    "maxItems",
    "required",
    "properties",
    "additionalProperties",
    "oneOf",
];

/// What a `$ref` leads to, or the value itself.
pub fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let Some(path) = value.get("$ref") else { return value };
    let pointer = path.as_str().and_then(|path| path.strip_prefix('#')).unwrap_or("?");
    document.pointer(pointer).unwrap_or_else(|| panic!("{path} leads nowhere"))
}

/// The names of JSON's types that a schema allows; all those of `oneOf` where it has no `type`.
pub fn types<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let schema = resolve(document, schema);
    match (&schema["type"], &schema["oneOf"]) {
        (Value::String(one), _) => vec![one],
        (Value::Array(several), _) => several.iter().filter_map(Value::as_str).collect(),
        (_, Value::Array(choices)) => choices.iter().flat_map(|choice| types(document, choice)).collect(),
        _ => Vec::new(),
    }
}

/// What is wrong with the value; nothing where it fits.
pub fn problem(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve(document, schema);
    let wrong = |what: String| Err(format!("{value}: {what}"));
    if let Some(name) = schema.as_object().unwrap().keys().find(|name| !KEYWORDS.contains(&name.as_str())) {
        return wrong(format!("{name} is not checked here"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let problems: Vec<String> =
            choices.iter().filter_map(|choice| problem(document, choice, value).err()).collect();
        if problems.len() + 1 != choices.len() {
            return wrong(format!("fits {} of oneOf: {problems:?}", choices.len() - problems.len()));
        }
    }
    let types = types(document, schema);
    if types.is_empty() {
        return wrong("the schema has no type".to_owned());
    }
    if !types.iter().any(|name| is(name, value)) {
        return wrong(format!("none of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|choices| !choices.contains(value)) {
        return wrong(format!("none of {}", schema["enum"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong(format!("not {}", schema["const"]));
    }
    match value {
        Value::String(text) => string(schema, text).or_else(wrong),
        Value::Number(number) => {
            let number = number.as_f64();
            let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
            let fits = least.is_none_or(|least| number >= Some(least)) && (most.is_none() || number <= most);
            if fits { Ok(()) } else { wrong("out of range".to_owned()) }
        }
        Value::Array(items) if schema.get("items").is_some() => {
            if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
                return wrong("too many items".to_owned());
            }
            items.iter().try_for_each(|item| problem(document, &schema["items"], item))
        }
        Value::Object(members) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(name) = required.into_iter().find(|name| !members.contains_key(*name)) {
                return wrong(format!("{name} is missing"));
            }
            let (named, others) = (schema.get("properties"), schema.get("additionalProperties"));
            members.iter().try_for_each(|(name, value)| {
                match named.and_then(|named| named.get(name)).or(others) {
                    Some(schema) => {
                        problem(document, schema, value).map_err(|text| format!("{name}: {text}"))
                    }
                    // The object of `oneOf` has been looked at; one without members may have any.
                    None if named.is_none() => Ok(()),
                    None => wrong(format!("{name} is not described")),
                }
            })
        }
        _ => Ok(()),
    }
}

fn string(schema: &Value, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    let long = schema["maxLength"].as_u64().is_some_and(|most| length > most);
    if long || schema["minLength"].as_u64().is_some_and(|least| length < least) {
        return Err("its length is not allowed".to_owned());
    }
    if schema["pattern"].as_str().is_some_and(|pattern| !regex::Regex::new(pattern).unwrap().is_match(text)) {
        return Err("it does not match the pattern".to_owned());
    }
    if schema["contentEncoding"] == "base64" && crate::wire::data::decode(text).is_none() {
        return Err("it is not base64".to_owned());
    }
    Ok(())
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    }
}
