//! Reads one section: each key is read once with its type, and a key that is not read is an error.

use super::node::{Entry, HUGE, Node, Value};
use super::notes::{Findings, Place, Section};
use super::shape::Shape;
use super::words::{alike, nearest};
use console::Span;
use console::duration::InvalidSpan;
use console::words::one_of;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// One section being read.
pub(crate) struct Fields<'a, 'n> {
    entries: &'a [Entry],
    section: Section,
    /// Key of the table inside the section; empty for the section itself.
    within: &'static str,
    asked: Vec<&'static str>,
    /// Keys that are present and already have an error of their own.
    excused: Vec<&'static str>,
    pub(crate) notes: &'n mut Findings,
}

impl<'a, 'n> Fields<'a, 'n> {
    /// Opens `node`, which should be a table.
    pub(crate) fn open(node: &'a Node, section: Section, notes: &'n mut Findings) -> Self {
        notes.written((section, ""), node.line);
        if !matches!(node.value, Value::Table(_)) {
            let reason = format!("is {}, not a table", node.kind());
            notes.wrong((section, ""), reason, "write it as a section with keys of its own");
        }
        Self::open_inner(node, (section, ""), notes)
    }

    /// Opens the table at `place` inside a section: errors are attributed to the section.
    pub(crate) fn open_inner(node: &'a Node, place: Place, notes: &'n mut Findings) -> Self {
        let entries = match &node.value {
            Value::Table(entries) => entries.as_slice(),
            _ => &[],
        };
        let (section, within) = place;
        Self { entries, section, within, asked: Vec::new(), excused: Vec::new(), notes }
    }

    /// Records a type of `key` for the reference. Only readers of values with several types call it directly.
    pub(crate) fn accepts(&mut self, key: &'static str, shape: impl FnOnce() -> Shape) {
        self.record(key, || Some(shape()));
    }

    fn record(&mut self, key: &'static str, shape: impl FnOnce() -> Option<Shape>) {
        let within = self.within;
        let path = || if within.is_empty() { key.to_owned() } else { format!("{within}.{key}") };
        self.notes.record(self.section, path, shape);
    }

    /// Place of `key` in this section.
    pub(crate) fn place(&self, key: &'static str) -> Place {
        (self.section, key)
    }

    /// Value of `key`, if present.
    pub(crate) fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.record(key, || None);
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        self.notes.written((self.section, key), entry.line);
        Some(&entry.node)
    }

    /// Whether the value of `key` is already known to be invalid.
    pub(crate) fn is_spoiled(&self, key: &'static str) -> bool {
        self.notes.is_spoiled((self.section, key))
    }

    /// Accepts `key` with any value.
    pub(crate) fn allow(&mut self, key: &'static str) {
        self.asked.push(key);
    }

    /// A key that belongs to another kind of section. Its presence is an error, and it is not suggested for unknown
    /// keys. Only the first reason is reported.
    pub(crate) fn foreign(&mut self, key: &'static str, reason: impl Display, remedy: &str) {
        let Some(entry) = self.entries.iter().find(|entry| entry.key == key) else { return };
        self.notes.written((self.section, key), entry.line);
        self.notes.wrong((self.section, key), reason, remedy);
        self.excused.push(key);
    }

    /// Reads a string.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.accepts(key, || Shape::Text);
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => Some(text),
            _ => self.not(key, node, "a string"),
        }
    }

    /// Reads an IP address and a port number. Host names are rejected, because name resolution would block all other
    /// ports.
    pub(crate) fn address(&mut self, key: &'static str) -> Option<SocketAddr> {
        let text = self.text(key)?;
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Some(address),
            _ => {
                let reason = format!("`{key}` \"{text}\" is not an IP address with a port");
                self.wrong(key, reason, "write it as 127.0.0.1:5555 or [::1]:5555".to_owned())
            }
        }
    }

    /// Reads a required string.
    pub(crate) fn required(&mut self, key: &'static str, example: &str) -> &'a str {
        let found = self.text(key);
        // A misspelt key is reported once, as an unknown key.
        if self.entries.iter().any(|entry| entry.key != key && alike(&entry.key, key)) {
            self.notes.mark_invalid((self.section, key));
        }
        if found.is_none() {
            let remedy = self.notes.example(key, &format!("\"{example}\""));
            self.notes.wrong((self.section, key), format!("`{key}` is missing"), remedy);
        }
        found.unwrap_or_default()
    }

    /// Reads a list of strings; empty if the key is absent. `wanted` describes the list's content.
    pub(crate) fn texts(&mut self, key: &'static str, wanted: &str) -> Vec<String> {
        self.accepts(key, || Shape::list(Shape::Text));
        let Some(node) = self.node(key) else { return Vec::new() };
        let text = |node: &Node| match &node.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        let texts = match &node.value {
            Value::List(list) => list.iter().map(text).collect(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            let remedy = format!("write a list of {wanted}");
            self.wrong::<()>(key, format!("`{key}` is not a list of strings"), remedy);
            Vec::new()
        })
    }

    /// Reads a list of at least one text, each parsed by `read`, which returns the error of an invalid one; empty if
    /// the key is absent. `example` is a valid list.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
        example: &str,
    ) -> Vec<T> {
        self.accepts(key, || Shape::list(Shape::Text));
        let Some(node) = self.node(key) else { return Vec::new() };
        let remedy = format!("write a list such as {key} = {example}");
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                self.wrong::<()>(key, format!("`{key}` is an empty list"), format!("{remedy}, or remove it"));
                return Vec::new();
            }
            _ => {
                self.not::<()>(key, node, &format!("a list such as {example}"));
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for node in nodes {
            let entry = match &node.value {
                Value::Text(text) => read(text),
                _ => Err(format!("`{key}` lists {}, not a string", node.kind())),
            };
            match entry {
                Ok(entry) => found.push(entry),
                Err(reason) => self.notes.wrong_at(self.section, node.line, reason, remedy.clone()),
            }
        }
        found
    }

    /// Reads an integer within `range`.
    pub(crate) fn number<T: TryFrom<i128>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i128>,
        unit: &str,
    ) -> Option<T> {
        self.accepts(key, || Shape::Integer(range.clone()));
        let node = self.node(key)?;
        match node.value {
            Value::Integer(number) => self.within(key, number, &range, unit),
            Value::Other(HUGE) => {
                let remedy = format!("give {} to {} {unit}", range.start(), range.end());
                self.wrong(key, format!("`{key}` is {HUGE}"), remedy)
            }
            _ => self.not(key, node, "an integer"),
        }
    }

    /// Returns `number` if it is within `range`.
    pub(crate) fn within<T: TryFrom<i128>>(
        &mut self,
        key: &'static str,
        number: i128,
        range: &RangeInclusive<i128>,
        unit: &str,
    ) -> Option<T> {
        let found = range.contains(&number).then(|| T::try_from(number).ok()).flatten();
        if found.is_some() {
            return found;
        }
        let range = format!("{} to {}", range.start(), range.end());
        self.invalid(key, number, &range, format!("give {range} {unit}"))
    }

    /// Reads a number within `range`, integer or decimal. `remedy` names the range.
    pub(crate) fn decimal(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        remedy: &str,
    ) -> Option<f64> {
        self.accepts(key, || Shape::Number(range.clone()));
        let node = self.node(key)?;
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Fraction(number) => number,
            _ => return self.not(key, node, "a number"),
        };
        if range.contains(&number) {
            return Some(number);
        }
        self.invalid(key, number, format!("{} to {}", range.start(), range.end()), remedy.to_owned())
    }

    /// Reads a duration, as text with a unit.
    pub(crate) fn span(&mut self, key: &'static str) -> Option<Span> {
        self.accepts(key, || Shape::Time);
        let node = self.node(key)?;
        self.span_of(key, node)
    }

    /// Reads a duration in a range.
    pub(crate) fn span_within(
        &mut self,
        key: &'static str,
        range: &RangeInclusive<Duration>,
    ) -> Option<Span> {
        let span = self.span(key)?;
        if range.contains(&span.0) {
            return Some(span);
        }
        let range = format!("{} to {}", Span(*range.start()), Span(*range.end()));
        self.invalid(key, span, &range, format!("give {range}"))
    }

    /// Reads a duration from the value of `key` or a part of it.
    pub(crate) fn span_of(&mut self, key: &'static str, node: &Node) -> Option<Span> {
        if let Some(number) = bare(&node.value) {
            return self.invalid(key, number, "a duration with a unit", format!("write \"{number}s\""));
        }
        let Value::Text(text) = &node.value else { return self.not(key, node, "a duration such as \"5s\"") };
        let invalid = |error| self.wrong(key, format!("`{key}` \"{text}\" is not a duration"), error);
        text.parse().map_err(|error: InvalidSpan| error.to_string()).map_or_else(invalid, Some)
    }

    /// Value of `key`, which is still to be read.
    pub(crate) fn peek(&mut self, key: &'static str) -> Option<&'a Value> {
        self.node(key).map(|node| &node.value)
    }

    /// Reads true or false.
    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.accepts(key, || Shape::Flag);
        let node = self.node(key)?;
        match node.value {
            Value::Flag(flag) => Some(flag),
            _ => self.not(key, node, "true or false"),
        }
    }

    /// Reads one of the given words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let quoted = || one_of(&words.iter().map(|(word, _)| *word).collect::<Vec<_>>());
        self.choice_or(key, words, quoted)
    }

    /// As [`Fields::choice`], for a key that has values of other types too: `expected` describes all values, for an
    /// error.
    pub(crate) fn choice_or<T: Copy, S: Display>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        expected: impl FnOnce() -> S,
    ) -> Option<T> {
        self.accepts(key, || Shape::Word(words.iter().map(|(word, _)| (*word).to_owned()).collect()));
        let node = self.node(key)?;
        let Value::Text(text) = &node.value else {
            return self.not(key, node, &expected().to_string());
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| word == text) {
            return Some(*value);
        }
        let expected = expected();
        self.invalid(key, format!("\"{text}\""), &expected, format!("write {expected}"))
    }

    /// Reports a value of the wrong type.
    pub(crate) fn not<T>(&mut self, key: &'static str, node: &Node, wanted: &str) -> Option<T> {
        let remedy = format!("write {wanted}");
        self.wrong(key, format!("`{key}` is {}, not {wanted}", node.kind()), remedy)
    }

    /// Reports an invalid value of `key`.
    pub(crate) fn invalid<T>(
        &mut self,
        key: &'static str,
        value: impl Display,
        expected: impl Display,
        remedy: String,
    ) -> Option<T> {
        self.wrong(key, format!("invalid value {value} for `{key}`: expected {expected}"), remedy)
    }

    /// Reports an error of `key`; reads nothing.
    pub(crate) fn wrong<T>(&mut self, key: &'static str, reason: impl Display, remedy: String) -> Option<T> {
        self.notes.wrong((self.section, key), reason, remedy);
        None
    }

    /// Reports every unknown key, with the nearest known one.
    pub(crate) fn finish(mut self) {
        self.report_unknown();
    }

    /// Like [`Fields::finish`], if more errors follow.
    pub(crate) fn report_unknown(&mut self) {
        let known = |key: &str| self.asked.contains(&key) || self.excused.contains(&key);
        for entry in self.entries.iter().filter(|entry| !known(&entry.key)) {
            let remedy = nearest(&entry.key, &self.asked);
            self.notes.wrong_at(self.section, entry.line, format!("unknown key `{}`", entry.key), remedy);
        }
    }
}

/// A number without a unit, written as a number or as text.
fn bare(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number| *number > 0)
}
