//! Types, values and defaults of keys as text.

use crate::settings::reader::key::{DefaultValue, Key};
use crate::settings::reader::shape::Shape;

/// Names of the types, such as `integer or table`.
pub(super) fn types(shapes: &[Shape]) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in shapes.iter().map(type_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

fn type_name(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::Word(_) => "string".to_owned(),
        Shape::Integer(_) => "integer".to_owned(),
        Shape::Number(_) => "number".to_owned(),
        Shape::Flag => "boolean".to_owned(),
        Shape::Time => "time".to_owned(),
        Shape::List(entry) => format!("list of {}s", type_name(entry)),
        Shape::Table => "table".to_owned(),
        Shape::Map(value) => format!("table of {}s", type_name(value)),
    }
}

/// Allowed values; empty if the type says all.
pub(super) fn allowed(shapes: &[Shape]) -> String {
    let mut allowed: Vec<String> = shapes.iter().map(values).filter(|text| !text.is_empty()).collect();
    allowed.dedup();
    allowed.join(", or ")
}

fn values(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::Flag | Shape::Time | Shape::Table => String::new(),
        Shape::Word(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        Shape::Integer(range) => format!("{} to {}", range.start(), range.end()),
        Shape::Number(range) => format!("{} to {}", range.start(), range.end()),
        Shape::List(entry) | Shape::Map(entry) => values(entry),
    }
}

/// Effect of leaving the key out.
pub(super) fn default(key: &Key) -> String {
    match key.default {
        DefaultValue::Required => "required".to_owned(),
        DefaultValue::Toml(value) => format!("`{value}`"),
        DefaultValue::Text(text) => text.to_owned(),
    }
}
