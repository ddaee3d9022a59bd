//! Schemas of the OpenAPI document as tables.

use crate::api::routes;
use anyhow::Context;
use serde_json::Value;

/// The OpenAPI document as JSON.
pub(super) struct Schemas(Value);

impl Schemas {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(serde_json::to_value(routes::document())?))
    }

    /// Paths, each with its methods.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&String, &Value)> {
        members(&self.0["paths"])
    }

    /// Schemas by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        members(&self.0["components"]["schemas"])
    }

    /// Description of the whole document.
    pub(super) fn about(&self) -> &str {
        text(&self.0["info"]["description"])
    }

    /// Rows of a schema's properties: name, type, description.
    pub(super) fn fields(&self, schema: &str) -> anyhow::Result<Vec<[String; 3]>> {
        let properties = self.0["components"]["schemas"]
            .get(schema)
            .with_context(|| format!("there is no schema {schema}"))?;
        Ok(rows(properties))
    }
}

/// The members of an object; none of any other value.
pub(super) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The text of a string; empty for any other value.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Rows of the properties of an object's schema.
pub(super) fn rows(schema: &Value) -> Vec<[String; 3]> {
    let row = |(name, field): (&String, &Value)| [format!("`{name}`"), type_of(field), about(field)];
    members(&schema["properties"]).map(row).collect()
}

/// Description of a field.
fn about(field: &Value) -> String {
    text(&field["description"]).to_owned()
}

/// Type of a field, with links to other schemas.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](api.md#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
        return choices.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    if schema["type"] == "array" {
        return format!("list of {}", type_of(&schema["items"]));
    }
    if schema["type"] == "object" && schema["additionalProperties"].is_object() {
        return format!("map to {}", type_of(&schema["additionalProperties"]));
    }
    match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}
