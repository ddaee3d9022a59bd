//! Markdown of the generated pages.

use std::fmt::Write;

/// Maximum length of a line, except in tables.
const COLUMNS: usize = 120;

/// Begins a page with its title, a paragraph and the `generator`: the command that writes the page.
pub fn page(title: &str, text: &str, generator: &str) -> String {
    let generated = format!("This page is generated from the program's definitions by `{generator}`.");
    format!("# {title}\n{}\n\n{}\n\n", wrapped(text), wrapped(&generated))
}

/// Appends a table. The cells of a row are in the order of `heads`.
pub fn table<const N: usize>(
    page: &mut String,
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    line(page, &heads.map(str::to_owned));
    let _ = writeln!(page, "|{}", "---|".repeat(N));
    rows.into_iter().for_each(|row| line(page, &row));
    page.push('\n');
}

fn line(page: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// Appends a heading and a paragraph.
pub fn section(page: &mut String, heading: &str, text: &str) {
    let _ = writeln!(page, "{heading}\n{}\n", wrapped(text));
}

/// Appends a paragraph.
pub fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "{}\n", wrapped(text));
}

/// Appends a block of code.
pub fn code(page: &mut String, language: &str, text: &str) {
    let _ = writeln!(page, "```{language}\n{}\n```\n", text.trim());
}

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS && !line.is_empty() => {
                line.extend([" ", word]);
            }
            Some(line) if line.is_empty() => word.clone_into(line),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Ends a page with one line break.
pub fn finish(page: &str) -> String {
    format!("{}\n", page.trim_end())
}
