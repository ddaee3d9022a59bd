//! Tree of values read by the configuration reader, from TOML or JSON.

use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Kind of an integer that is out of range of all types used here.
pub(crate) const HUGE: &str = "a number out of range";

/// A value and its line in the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) line: Option<usize>,
    pub(crate) value: Value,
}

/// Kinds of values in a configuration. Any other kind is represented by its name only.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i128),
    Flag(bool),
    Fraction(f64),
    List(Vec<Node>),
    Table(Vec<Entry>),
    Other(&'static str),
}

/// One key of a table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: Option<usize>,
    pub(crate) node: Node,
}

impl Node {
    /// Display name of the kind of value.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Flag(_) => "true or false",
            Value::Fraction(_) => "a number with a fraction",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }
}

/// Positions of line breaks, to convert an offset to a line number; `None`: errors have no lines.
#[derive(Debug)]
pub(crate) struct Lines(Option<Vec<usize>>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(Some(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect()))
    }

    /// Of a text that no user sees.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Line, counted from 1, of the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> Option<usize> {
        self.0.as_ref().map(|newlines| newlines.partition_point(|newline| *newline < offset) + 1)
    }
}

/// Converts a TOML table.
pub(crate) fn from_toml(table: &DeTable<'_>, lines: &Lines) -> Value {
    let entries = table.iter().map(|(key, value)| Entry {
        key: Cow::into_owned(key.get_ref().clone()),
        line: lines.at(key.span().start),
        node: toml_node(value, lines),
    });
    Value::Table(entries.collect())
}

fn toml_node(value: &Spanned<DeValue<'_>>, lines: &Lines) -> Node {
    let kind = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other(HUGE),
        },
        DeValue::Array(list) => Value::List(list.iter().map(|item| toml_node(item, lines)).collect()),
        DeValue::Table(table) => from_toml(table, lines),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Value::Fraction(number),
            Err(_) => Value::Other(HUGE),
        },
        DeValue::Datetime(_) => Value::Other("a date"),
    };
    Node { line: lines.at(value.span().start), value: kind }
}

/// Converts a JSON value. Its nodes have no line numbers.
pub(crate) fn from_json(json: &serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let value = match json {
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => match number.as_i128() {
            Some(number) => Value::Integer(number),
            None => number.as_f64().map_or(Value::Other(HUGE), Value::Fraction),
        },
        Json::Array(list) => Value::List(list.iter().map(from_json).collect()),
        Json::Object(map) => Value::Table(
            map.iter()
                .map(|(key, value)| Entry { key: key.clone(), line: None, node: from_json(value) })
                .collect(),
        ),
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Null => Value::Other("null"),
    };
    Node { line: None, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_maps_to_its_line() {
        let lines = Lines::of("ab\nc\n\nd");
        let found: Vec<usize> = (0..7).filter_map(|offset| lines.at(offset)).collect();
        assert_eq!(found, [1, 1, 1, 2, 2, 3, 4]);
    }
}
