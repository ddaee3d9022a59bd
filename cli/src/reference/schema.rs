//! Schemas of an OpenAPI document as tables.

use anyhow::Context;
use console::markdown;
use serde_json::Value;
use utoipa::openapi::OpenApi;

/// An OpenAPI document as JSON.
pub(super) struct Schemas {
    document: Value,
    /// File of the page that describes the schemas.
    page: &'static str,
}

impl Schemas {
    pub(super) fn new(document: &OpenApi, page: &'static str) -> anyhow::Result<Self> {
        Ok(Self { document: serde_json::to_value(document)?, page })
    }

    /// Paths, each with its methods.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&String, &Value)> {
        members(&self.document["paths"])
    }

    /// Schemas by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        members(&self.document["components"]["schemas"])
    }

    /// Description of the whole document.
    pub(super) fn about(&self) -> &str {
        text(&self.document["info"]["description"])
    }

    /// Rows of a schema's properties: name, type, description.
    pub(super) fn fields(&self, schema: &str) -> anyhow::Result<Vec<[String; 3]>> {
        let properties = self.document["components"]["schemas"]
            .get(schema)
            .with_context(|| format!("there is no schema {schema}"))?;
        Ok(self.rows(properties))
    }

    /// Rows of the properties of an object's schema.
    fn rows(&self, schema: &Value) -> Vec<[String; 3]> {
        let row = |(name, field): (&String, &Value)| {
            [format!("`{name}`"), self.type_of(field), about(field).to_owned()]
        };
        members(&schema["properties"]).map(row).collect()
    }

    /// Type of a field, with links to other schemas.
    pub(super) fn type_of(&self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return format!("[{name}]({}#{})", self.page, name.to_lowercase());
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
            return choices.iter().map(|choice| self.type_of(choice)).collect::<Vec<_>>().join(" or ");
        }
        if schema["type"] == "array" {
            let of_entry = schema["prefixItems"]
                .as_array()
                .map(|items| items.iter().map(|item| self.type_of(item)).collect::<Vec<_>>().join(" and "));
            return format!("list of {}", of_entry.unwrap_or_else(|| self.type_of(&schema["items"])));
        }
        if schema["type"] == "object" && schema["additionalProperties"].is_object() {
            return format!("map to {}", self.type_of(&schema["additionalProperties"]));
        }
        match &schema["type"] {
            Value::String(name) => name.clone(),
            Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
            _ => "any".to_owned(),
        }
    }

    /// Appends one schema: the table of its fields, its values, or the tables of its parts.
    pub(super) fn describe(&self, page: &mut String, name: &str, schema: &Value) {
        markdown::section(page, &format!("### {name}"), text(&schema["description"]));
        self.table(page, schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            if part["$ref"].is_string() {
                markdown::paragraph(page, &format!("All fields of {}.", self.type_of(part)));
            }
            self.table(page, part);
            for choice in part["oneOf"].as_array().into_iter().flatten() {
                let about = sentence(text(&choice["description"]));
                markdown::paragraph(page, &format!("`{}`: {about}", text(&choice["title"])));
                self.table(page, choice);
            }
        }
        let values = schema["enum"].as_array().into_iter().flatten().map(text);
        let values: Vec<String> = values.map(|value| format!("`\"{value}\"`")).collect();
        if !values.is_empty() {
            markdown::paragraph(page, &format!("One of {}.", values.join(", ")));
        }
    }

    fn table(&self, page: &mut String, schema: &Value) {
        let rows = self.rows(schema);
        if !rows.is_empty() {
            markdown::table(page, ["field", "type", "meaning"], rows);
        }
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

/// Description of a field. That of an optional object is beside the reference to its schema.
fn about(field: &Value) -> &str {
    let choices = field["oneOf"].as_array().into_iter().flatten();
    let mut texts = std::iter::once(field).chain(choices).map(|part| text(&part["description"]));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

/// A text as a sentence.
pub(super) fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}
