//! Schemas of ports and bonds in the control API: the keys of `[[port]]` and `[[bond]]` sections.

use super::bonds::BondSettings;
use super::description::{self, Section, TypedKey};
use super::reader::key::{DefaultValue, Key};
use super::reader::shape::Shape;
use super::topology::PortSettings;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

const ABOUT: &str = "The keys of a `[[port]]` section; responses have the defaults filled in.";

impl PartialSchema for PortSettings {
    fn schema() -> RefOr<Schema> {
        let sections = description::sections();
        let ports = || sections.iter().filter(|section| section.title == "[[port]]");
        let common = ports().filter(|section| section.kind.is_none()).map(object);
        let kinds = ports().filter_map(|section| Some(of_kind(section, section.kind?)));
        let kinds: Vec<Value> = kinds.chain([granted()]).collect();
        let parts: Vec<Value> = common.chain([json!({ "oneOf": kinds })]).collect();
        let schema = serde_json::from_value(json!({ "description": ABOUT, "allOf": parts }));
        RefOr::T(schema.unwrap_or_default())
    }
}

impl PartialSchema for BondSettings {
    fn schema() -> RefOr<Schema> {
        let sections = description::sections();
        let bond = sections.iter().find(|section| section.title == "[[bond]]").map(object);
        RefOr::T(bond.and_then(|schema| serde_json::from_value(schema).ok()).unwrap_or_default())
    }
}

impl ToSchema for BondSettings {
    fn name() -> Cow<'static, str> {
        "Bond".into()
    }
}

impl ToSchema for PortSettings {
    fn name() -> Cow<'static, str> {
        "Port".into()
    }
}

/// Schema of a port of an application, in responses only.
fn granted() -> Value {
    let about = "Port of an application, in responses only.";
    let number = |about: &str| json!({ "type": "integer", "description": about });
    let properties = json!({
        "kind": { "type": "string", "enum": ["granted"], "description": about },
        "pid": number("Process that asked for the port."),
        "uid": number("Its user."),
        "gid": number("Its group."),
        "grant": number("Number of the grant since the start of the switch."),
        "section": number("Position of its `[[grant]]` section in the file, from 0."),
        "memory": number("Maximum memory that the application may share, in bytes."),
    });
    json!({ "type": "object", "title": "granted", "description": about, "required": ["kind"], "properties": properties })
}

/// Schema of a kind: its value of `kind`, which only the default kind may leave out, and its keys.
fn of_kind(section: &Section, kind: &str) -> Value {
    let mut schema = object(section);
    let name = json!({ "type": "string", "enum": [kind], "description": section.about });
    schema["properties"]["kind"] = name;
    schema["title"] = kind.into();
    schema["description"] = section.about.into();
    if kind != super::kinds::PortKind::default().name() {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        schema["required"] = [Value::from("kind")].into_iter().chain(required).collect();
    }
    schema
}

/// Schema of the keys of a section, without those of its tables.
fn object(section: &Section) -> Value {
    let own = section.keys.iter().filter(|typed| !typed.key.name.contains('.') && typed.key.name != "kind");
    let properties: Map<String, Value> =
        own.clone().map(|typed| (typed.key.name.to_owned(), property(typed, section))).collect();
    let required =
        own.filter(|typed| typed.key.default == DefaultValue::Required).map(|typed| typed.key.name);
    let required: Vec<&str> = required.collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn property(typed: &TypedKey, section: &Section) -> Value {
    let mut types: Vec<Value> =
        typed.shapes.iter().map(|shape| of_shape(shape, typed.key, section)).collect();
    let mut schema = if types.len() == 1 { types.remove(0) } else { json!({ "oneOf": types }) };
    schema["description"] = typed.key.about.into();
    if let Some(default) = default(typed.key) {
        schema["default"] = default;
    }
    schema
}

/// The default as JSON.
fn default(key: &Key) -> Option<Value> {
    let DefaultValue::Toml(text) = key.default else { return None };
    serde_json::to_value(text.parse::<toml::Value>().ok()?).ok()
}

fn of_shape(shape: &Shape, key: &Key, section: &Section) -> Value {
    let number = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Word(words) => json!({ "type": "string", "enum": words }),
        Shape::Integer(range) => {
            json!({ "type": "integer", "minimum": number(*range.start()), "maximum": number(*range.end()) })
        }
        Shape::Number(range) => json!({ "type": "number", "minimum": range.start(), "maximum": range.end() }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Time => json!({ "type": "string", "pattern": "^([0-9]+[a-z]+ ?)+$" }),
        Shape::List(entry) => json!({ "type": "array", "items": of_shape(entry, key, section) }),
        Shape::Table => table(key, section),
        Shape::Map(value) => {
            json!({ "type": "object", "additionalProperties": of_shape(value, key, section) })
        }
    }
}

/// Schema of the table `key`: its keys are named `key.inner`.
fn table(key: &Key, section: &Section) -> Value {
    let inner = section.keys.iter().filter_map(|typed| {
        let name = typed.key.name.strip_prefix(key.name)?.strip_prefix('.')?;
        Some((name.to_owned(), property(typed, section)))
    });
    json!({ "type": "object", "properties": inner.collect::<Map<_, _>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties<'a>(schema: &'a Value, parts: &mut Vec<(&'a str, &'a Value)>) {
        let own = schema["properties"].as_object().into_iter().flatten();
        parts.extend(own.map(|(name, schema)| (name.as_str(), schema)));
    }

    /// Every key of a serialized port has a schema that admits its value.
    #[test]
    fn the_schema_has_every_key_that_a_port_is_serialized_with() {
        let schema = serde_json::to_value(PortSettings::schema()).unwrap();
        let kinds = schema["allOf"][1]["oneOf"].as_array().unwrap();
        for (kind, json) in super::super::kinds::tests::serialized() {
            let own = kinds.iter().find(|own| own["title"] == kind).unwrap();
            let mut known = Vec::new();
            properties(&schema["allOf"][0], &mut known);
            properties(own, &mut known);
            for (key, value) in json.as_object().unwrap() {
                let (_, schema) =
                    known.iter().find(|(name, _)| name == key).unwrap_or_else(|| panic!("{kind}: {key}"));
                assert!(admits(schema, value), "{kind}: {key} = {value}, {schema}");
            }
        }
    }

    fn admits(schema: &Value, value: &Value) -> bool {
        if let Some(choices) = schema["oneOf"].as_array() {
            return choices.iter().any(|choice| admits(choice, value));
        }
        match schema["type"].as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => {
                value.as_array().is_some_and(|list| list.iter().all(|entry| admits(&schema["items"], entry)))
            }
            "object" => value.as_object().is_some_and(|table| {
                table.iter().all(|(key, value)| admits(&schema["properties"][key], value))
            }),
            other => panic!("{other}"),
        }
    }
}
