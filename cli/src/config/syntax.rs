//! What is no TOML: the parser's errors in the words of the other mistakes, one for each thing that is wrong.

use super::mistake::{Mistake, printable};
use super::node::Lines;

/// Adds the syntax errors. What else was found on their lines, or missed, is their consequence and not told.
pub(super) fn add(
    mut mistakes: Vec<Mistake>,
    errors: &[toml::de::Error],
    text: &str,
    lines: &Lines,
) -> Vec<Mistake> {
    if text.trim_start().starts_with('{') && !errors.is_empty() {
        return vec![json()];
    }
    let written: Vec<&str> = text.lines().collect();
    let mut found: Vec<Mistake> = errors.iter().map(|error| syntax(error, lines)).collect();
    // Behind the first error of a line the parser guesses.
    found.sort_by_key(|mistake| mistake.line);
    found.dedup_by_key(|mistake| mistake.line);
    let found = without_consequences(found, &written);
    let broken: Vec<_> = found.iter().map(|mistake| mistake.line).collect();
    mistakes.retain(|mistake| !broken.contains(&mistake.line));
    mistakes.retain(|mistake| broken.is_empty() || !mistake.error.ends_with("is missing"));
    mistakes.extend(found);
    mistakes.sort_by_key(|mistake| mistake.line);
    mistakes
}

fn json() -> Mistake {
    let remedy = "write it as TOML: [[port]], and below it lines such as: name = \"guest-a\"";
    Mistake {
        line: Some(1),
        error: "this is JSON, and a configuration is TOML".into(),
        remedy: remedy.into(),
    }
}

fn syntax(error: &toml::de::Error, lines: &Lines) -> Mistake {
    let line = error.span().map(|span| lines.at(span.start));
    let message = error.message();
    let remedy = match message {
        _ if message.contains("duplicate key") => "remove one of the two",
        _ if message.contains("must be quoted") => "put the value between plain double quotes",
        _ if message.contains("non-double-quote visible") => "remove the character that cannot be seen",
        _ if message.contains("expected `=`") => "write KEY = VALUE, a [section], or # and a comment",
        _ => "correct this line's TOML",
    };
    Mistake { line, error: printable(&format!("syntax: {message}")), remedy: remedy.to_owned() }
}

/// A section that is written twice makes each of its keys one that is written twice.
fn without_consequences(found: Vec<Mistake>, written: &[&str]) -> Vec<Mistake> {
    let is_header =
        |line: usize| written.get(line - 1).is_some_and(|text| text.trim_start().starts_with('['));
    let header = |line: usize| (1..=line).rev().find(|line| is_header(*line));
    let twice = |mistake: &Mistake| mistake.error.ends_with("duplicate key");
    let sections: Vec<usize> =
        found.iter().filter(|mistake| twice(mistake)).filter_map(|mistake| mistake.line).collect();
    let follows = |mistake: &Mistake| {
        let Some(line) = mistake.line else { return false };
        twice(mistake) && header(line).is_some_and(|header| header < line && sections.contains(&header))
    };
    found.into_iter().filter(|mistake| !follows(mistake)).collect()
}
