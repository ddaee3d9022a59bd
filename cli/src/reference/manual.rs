//! `linerate.toml(5)`: the man page of the configuration file.

use super::values;
use crate::settings::description::{self, Section};
use console::manual::roff::{Inline, Roff, bold, italic, roman};
use console::{Diagnostic, manual};
use std::path::Path;

/// Name of the page's file.
const FILE: &str = "linerate.toml.5";
/// The guide whose text and examples the page has.
const GUIDE: &str = include_str!("../../../docs/guide/vlans-limits-static.md");

/// Prints the man page of the program, or writes all man pages to `dir`.
pub(crate) fn write(command: clap::Command, dir: Option<&Path>) -> anyhow::Result<()> {
    manual::man(command, dir)?;
    let Some(path) = dir.map(|dir| dir.join(FILE)) else { return Ok(()) };
    let written = std::fs::write(&path, page());
    Ok(written
        .map_err(|e| Diagnostic::failed(path.display(), e, "choose a directory that you may write to"))?)
}

/// The page in roff.
fn page() -> String {
    let mut page = Roff::new();
    let version = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["linerate.toml", "5", "", version, "File Formats"]);
    page.control("SH", ["NAME"]).text([roman("linerate.toml - configuration of a linerate switch")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text(code(
        "`linerate run FILE` reads a TOML file, and `linerate check FILE` validates it. An unknown key, a wrong type \
         and a value out of range are errors. A key `table.key` belongs to the table `table` of its section. A time is \
         a string with a unit, such as `\"1ms\"`.",
    ));
    for section in description::sections() {
        add(&mut page, section);
    }
    page.control("SH", ["EXAMPLES"]);
    guide(&mut page, GUIDE);
    page.control("SH", ["SEE ALSO"]).text([
        bold("linerate"),
        roman("(1), "),
        bold("linerate-check"),
        roman("(1)"),
    ]);
    page.to_roff()
}

fn add(page: &mut Roff, section: &Section) {
    match section.kind {
        None => page.control("SH", [section.title]).text(code(section.about)),
        Some(kind) => {
            let title = format!("Ports of kind {kind}");
            page.control("SS", [title.as_str()]).text(code(&format!("{}.", section.about)))
        }
    };
    for typed in &section.keys {
        page.control("TP", []).text([
            bold(typed.key.name),
            roman(" = "),
            italic(values::types(&typed.shapes)),
        ]);
        page.text(code(&facts(typed)));
    }
}

/// Meaning, allowed values and default of a key.
fn facts(typed: &description::TypedKey) -> String {
    let allowed = values::allowed(&typed.shapes);
    let allowed = if allowed.is_empty() { allowed } else { format!(" Values: {allowed}.") };
    let default = match values::default(typed.key) {
        text if text == "required" => " Required.".to_owned(),
        text => format!(" Default: {text}."),
    };
    format!("{}{allowed}{default}", typed.key.about)
}

/// Text with code between backticks in bold.
fn code(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { bold(part) } else { roman(part) }).collect()
}

/// A page of the guide: headings, paragraphs, lists and code.
fn guide(page: &mut Roff, text: &str) {
    for (i, block) in text.split("```").enumerate() {
        if i % 2 == 1 {
            let (_, lines) = block.split_once('\n').unwrap_or_default();
            page.control("PP", []).control("EX", []);
            for line in lines.lines() {
                page.text([roman(line)]);
            }
            page.control("EE", []);
        } else {
            block.split("\n\n").flat_map(entries).for_each(|entry| paragraph(page, &entry));
        }
    }
}

/// The heading, the paragraph or the entries of a list that a block of Markdown consists of, each in one line.
fn entries(block: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in block.lines().filter(|line| !line.is_empty()) {
        let begins = line.starts_with('#') || line.starts_with("- ");
        match entries.last_mut() {
            Some(last) if is_open && !begins => *last = format!("{last} {}", line.trim_start()),
            _ => entries.push(line.to_owned()),
        }
        is_open = !line.starts_with('#');
    }
    entries
}

fn paragraph(page: &mut Roff, text: &str) {
    if let Some(title) = text.strip_prefix('#') {
        page.control("SS", [title.trim_start_matches('#').trim()]);
    } else if let Some(entry) = text.strip_prefix("- ") {
        page.control("IP", ["\\(bu", "2"]).text(code(&without_links(entry)));
    } else {
        page.control("PP", []).text(code(&without_links(text)));
    }
}

/// `[text](target)` as `text`.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |read, part| match part.split_once("](") {
        Some((shown, rest)) => read + shown + rest.split_once(')').map_or("", |(_, rest)| rest),
        None => read + "[" + part,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_key_and_the_examples_of_the_guide() {
        let page = page();
        for section in description::sections() {
            for typed in &section.keys {
                let name = typed.key.name.replace('-', "\\-");
                assert!(page.contains(&format!("\\fB{name}\\fR = ")), "{name} is missing");
            }
        }
        let examples = page.split_once(".SH EXAMPLES").unwrap().1;
        for text in
            [".SS VLANs", ".SS Limits", "Static entries", "broadcast_limit = 1000", "[[bridge.static]]"]
        {
            assert!(examples.contains(text), "{text} is missing in {examples}");
        }
    }

    #[test]
    fn links_and_wrapped_lines_are_joined() {
        assert_eq!(without_links("a ([b](c.md#d)) [[e]] f"), "a (b) [[e]] f");
        assert_eq!(entries("## A\n- b\n  c\n- d"), ["## A", "- b c", "- d"]);
    }
}
