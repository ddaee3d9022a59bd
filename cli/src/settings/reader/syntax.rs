//! Converts syntax errors of the TOML parser to diagnostics, one per cause.

use super::node::Lines;
use super::notes::printable;
use console::Diagnostic;

/// Adds the syntax errors. Other errors on their lines are consequences and not reported.
pub(crate) fn add(
    mut known: Vec<Diagnostic>,
    errors: &[toml::de::Error],
    text: &str,
    lines: &Lines,
) -> Vec<Diagnostic> {
    if text.trim_start().starts_with('{') && !errors.is_empty() {
        return vec![json()];
    }
    let written: Vec<&str> = text.lines().collect();
    let mut found: Vec<Diagnostic> = errors.iter().map(|error| syntax(error, lines)).collect();
    // After the first error of a line, the parser's errors are unreliable.
    found.sort_by_key(|error| error.line);
    found.dedup_by_key(|error| error.line);
    let found = without_consequences(found, &written);
    let broken: Vec<_> = found.iter().map(|error| error.line).collect();
    known.retain(|error| !broken.contains(&error.line));
    known.retain(|error| broken.is_empty() || !error.reason.ends_with("is missing"));
    known.extend(found);
    known.sort_by_key(|error| error.line);
    known
}

fn json() -> Diagnostic {
    let remedy = "write it as TOML: [[port]], and below it lines such as: name = \"guest-a\"";
    Diagnostic { line: Some(1), ..Diagnostic::bad("", "this is JSON, and a configuration is TOML", remedy) }
}

fn syntax(error: &toml::de::Error, lines: &Lines) -> Diagnostic {
    let line = error.span().and_then(|span| lines.at(span.start)?.try_into().ok());
    let message = error.message();
    let remedy = match message {
        _ if message.contains("duplicate key") => "remove one of the two",
        _ if message.contains("must be quoted") => "put the value between plain double quotes",
        _ if message.contains("non-double-quote visible") => "remove the invisible character",
        _ if message.contains("expected `=`") => "write KEY = VALUE, a [section], or # and a comment",
        _ => "correct this line's TOML",
    };
    Diagnostic { line, ..Diagnostic::bad("syntax", printable(message), remedy) }
}

/// Removes errors of duplicate keys that follow from a duplicate section.
fn without_consequences(found: Vec<Diagnostic>, written: &[&str]) -> Vec<Diagnostic> {
    let is_header =
        |line: u32| written.get(line as usize - 1).is_some_and(|text| text.trim_start().starts_with('['));
    let header = |line: u32| (1..=line).rev().find(|line| is_header(*line));
    let twice = |error: &Diagnostic| error.reason.ends_with("duplicate key");
    let sections: Vec<u32> =
        found.iter().filter(|error| twice(error)).filter_map(|error| error.line).collect();
    let follows = |error: &Diagnostic| {
        let Some(line) = error.line else { return false };
        twice(error) && header(line).is_some_and(|header| header < line && sections.contains(&header))
    };
    found.into_iter().filter(|error| !follows(error)).collect()
}
