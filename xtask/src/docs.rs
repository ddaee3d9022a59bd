//! Document checks: link targets (files and headings), repository paths in backticks and decision numbers exist, rows
//! of the index of decisions agree with their pages, and lines have at most 120 columns. `cargo xtask docs` runs them and builds the book in `target/book` if mdBook is
//! installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command;
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(2);
/// Top-level directories whose paths in backticks are checked.
const FOLDERS: [&str; 12] = [
    "benches/",
    "cli/",
    "dataplane/",
    "docs/",
    "examples/",
    "fuzz/",
    "lab/",
    "net/",
    "stack/",
    "tests/",
    "tools/",
    "xtask/",
];
/// Paths of other projects that start with the same directory names.
const FOREIGN: [&str; 1] = ["net/vhost-user.c"];
/// Maximum width of a line of text.
const COLUMNS: usize = 120;
/// mdBook requires each entry of the summary on one line.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the documents, then builds the book if mdBook is installed.
pub(crate) fn run() -> Result<Outcome> {
    let flaws = flaws(&command::root());
    if !flaws.is_empty() {
        bail!("broken links, stale rows or long lines:\n{}", flaws.join("\n"));
    }
    let remedy = "cargo install mdbook --locked";
    if let Some(missing) = command::missing("mdBook", Command::new("mdbook").arg("--version"), remedy) {
        return Ok(missing);
    }
    let mut build = Command::new("mdbook");
    build.arg("build").arg("docs").current_dir(command::root());
    command::run(&build, LIMIT).map(|()| Outcome::Passed)
}

/// Each broken reference, stale row and long line, as `FILE: ERROR`.
fn flaws(root: &Path) -> Vec<String> {
    let documents: Vec<PathBuf> = [root.to_owned(), root.join("docs"), root.join("examples")]
        .iter()
        .flat_map(|folder| files(folder, "md", folder != root))
        .collect();
    let decisions = decisions(root);
    let broken = documents.iter().flat_map(|file| broken(root, file, &decisions));
    let configurations = files(&root.join("examples"), "toml", true);
    let wide = documents.iter().chain(&configurations).flat_map(|file| wide(root, file));
    broken.chain(stale_rows(root)).chain(wide).collect()
}

/// Files of a directory with an extension, in order of their paths.
fn files(folder: &Path, extension: &str, recursive: bool) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if recursive && path.is_dir() {
            found.extend(files(&path, extension, true));
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found
}

/// Numbers of the existing decisions.
fn decisions(root: &Path) -> Vec<String> {
    let pages = files(&root.join("docs/decisions"), "md", false);
    let names = pages.iter().filter_map(|page| page.file_name()?.to_str());
    names.filter_map(|name| name.split_once('-')).map(|(number, _)| number.to_owned()).collect()
}

/// Name of a file in an error.
fn name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// Links, paths and decision numbers of a document whose target does not exist.
fn broken(root: &Path, file: &Path, decisions: &[String]) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let folder = file.parent().unwrap_or(root);
    let links = links(&text).into_iter().filter(|link| !holds(folder, file, link));
    let paths = paths(&text).into_iter().filter(|path| !root.join(path).exists());
    let numbers = if file.starts_with(root.join("docs")) { numbers(&text) } else { Vec::new() };
    let numbers = numbers.into_iter().filter(|number| !decisions.contains(number));
    let numbers = numbers.map(|number| format!("no decision {number}"));
    let name = name(root, file);
    links.chain(paths).chain(numbers).map(|target| format!("{name}: {target}")).collect()
}

/// Lines of text that exceed [`COLUMNS`]: in a document outside of tables and code blocks, in a configuration file with
/// a comment.
fn wide(root: &Path, file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let name = name(root, file);
    let document = file.extension().is_some_and(|extension| extension == "md");
    let mut code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        code ^= document && line.trim_start().starts_with("```");
        let checked = if document { !code && !line.starts_with('|') } else { line.contains('#') };
        let columns = line.chars().count();
        if checked && columns > COLUMNS && name != SUMMARY {
            found.push(format!("{name}:{}: {columns} columns, at most {COLUMNS}", index + 1));
        }
    }
    found
}

/// Decision numbers of a document: words of four digits below 0200. Higher ones are file modes.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_number = |word: &&str| {
        word.len() == 4
            && word.starts_with(['0'])
            && word < &"0200"
            && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    words.filter(is_number).map(str::to_owned).collect()
}

/// Rows of the index of decisions whose status differs from that of their page.
fn stale_rows(root: &Path) -> Vec<String> {
    let folder = root.join("docs/decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let rows =
        index.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](")?.1.split_once(") | "));
    let mut found = Vec::new();
    for (page, cells) in rows {
        let text = fs::read_to_string(folder.join(page)).unwrap_or_default();
        let paragraph = text.split_once("\nStatus: ").and_then(|(_, rest)| rest.split("\n\n").next());
        let of_page = status(paragraph.unwrap_or_default());
        let of_row = status(cells.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default());
        if of_row != of_page {
            found.push(format!("docs/decisions/README.md: {page} has {of_row:?}, its page {of_page:?}"));
        }
    }
    found
}

/// First word of a status, and the decisions that it names in order of their numbers.
fn status(text: &str) -> Vec<String> {
    let mut named = numbers(text);
    named.sort();
    named.dedup();
    let link = |number: String| {
        if text.contains(&format!("[{number}](")) { number } else { format!("{number} without a link") }
    };
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    [word.to_owned()].into_iter().chain(named.into_iter().map(link)).collect()
}

/// Link targets of a document, without web addresses.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// Paths of this repository in backticks.
fn paths(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |quote: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_/.-".contains(c);
        FOLDERS.iter().any(|folder| quote.starts_with(folder)) && quote.chars().all(plain)
    };
    quoted.filter(is_path).filter(|path| !FOREIGN.contains(path)).map(str::to_owned).collect()
}

fn holds(folder: &Path, file: &Path, link: &str) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { file.to_owned() } else { folder.join(path) };
    target.exists() && (heading.is_empty() || has_heading(&target, heading))
}

fn has_heading(file: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == wanted)
}

/// Link anchor of a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with these files.
    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn documents_have_no_flaws() {
        assert_eq!(flaws(&command::root()), Vec::<String>::new());
    }

    #[test]
    fn summary_and_index_have_every_page() {
        let docs = command::root().join("docs");
        let lists = [("SUMMARY.md", docs.clone()), ("decisions/README.md", docs.join("decisions"))];
        for (list, folder) in lists {
            let text = fs::read_to_string(docs.join(list)).unwrap();
            let pages = files(&folder, "md", true);
            let missing = pages.iter().filter_map(|page| page.strip_prefix(&folder).ok()?.to_str());
            let missing: Vec<_> = missing
                .filter(|page| !["SUMMARY.md", "README.md"].contains(page))
                .filter(|page| !text.contains(&format!("({page})")))
                .collect();
            assert_eq!(missing, Vec::<&str>::new(), "{list}");
        }
    }

    /// rustdoc reads a whole crate to find its examples, so crates without any are not given to it.
    #[test]
    fn crates_with_examples_in_their_documentation_test_them() {
        let has_example = |source: &PathBuf| {
            let text = fs::read_to_string(source).unwrap();
            text.lines().any(|line| line.trim_start().starts_with("//") && line.ends_with(" ```"))
        };
        let root = command::root();
        for manifest in FOLDERS.iter().flat_map(|folder| files(&root.join(folder), "toml", true)) {
            let text = fs::read_to_string(&manifest).unwrap();
            if manifest.ends_with("Cargo.toml") && text.contains("\ndoctest = false\n") {
                let sources = files(&manifest.with_file_name("src"), "rs", true);
                assert_eq!(sources.iter().find(|source| has_example(source)), None);
            }
        }
    }

    #[test]
    fn broken_links_and_paths_are_found() {
        let text = "# Title\n[a](docs/b.md) [c](#title) [d](#other) [e](https://x.y/z) `tools/none.rs` `port::none`\n";
        let folder = repository(&[("A.md", text), ("docs/c.md", "[up](../A.md#title) [gone](../B.md)")]);
        assert_eq!(
            flaws(folder.path()),
            ["A.md: docs/b.md", "A.md: #other", "A.md: tools/none.rs", "docs/c.md: ../B.md"]
        );
    }

    #[test]
    fn broken_links_of_examples_and_with_spaces_are_found() {
        let folder = repository(&[("examples/x/a.md", "[b](c.md)"), ("A.md", "[a](no file.md) [b](a b.md)")]);
        fs::write(folder.path().join("a b.md"), "").unwrap();
        assert_eq!(flaws(folder.path()), ["A.md: no file.md", "examples/x/a.md: c.md"]);
    }

    #[test]
    fn unknown_decision_numbers_below_docs_are_found() {
        let text = "0001, 0002 ([a](decisions/0001-a.md)), 0x0003, 10004, 0600, 0005s";
        let folder =
            repository(&[("docs/decisions/0001-a.md", "# 0001: A"), ("docs/b.md", text), ("A.md", "0003")]);
        assert_eq!(flaws(folder.path()), ["docs/b.md: no decision 0002"]);
    }

    #[test]
    fn rows_of_decisions_that_differ_from_their_page_are_found() {
        let index =
            "| [0001](0001-a.md) | A | accepted; extended by 0002 |\n| [0002](0002-b.md) | B | accepted |\n";
        let page = "# 0001: A\n\nStatus: accepted; extended by\n[0002](0002-b.md)\n\n0003\n";
        let folder = repository(&[
            ("docs/decisions/README.md", index),
            ("docs/decisions/0001-a.md", page),
            ("docs/decisions/0002-b.md", "# 0002: B\n\nStatus: accepted\n"),
        ]);
        let row = r#"0001-a.md has ["accepted", "0002 without a link"], its page ["accepted", "0002"]"#;
        assert_eq!(stale_rows(folder.path()), [format!("docs/decisions/README.md: {row}")]);
    }

    #[test]
    fn lines_beyond_the_limit_are_found_outside_of_tables_and_code() {
        let (limit, long) = ("\u{e4}".repeat(COLUMNS), "b".repeat(COLUMNS + 1));
        let text = format!("{limit}\n{long}\n|{long}|\n```sh\n{long}\n```\n{long}\n");
        let folder = repository(&[("A.md", &text), (SUMMARY, &long)]);
        assert_eq!(flaws(folder.path()), [2, 7].map(|line| format!("A.md:{line}: 121 columns, at most 120")));
    }

    #[test]
    fn long_comments_of_configuration_files_are_found() {
        let text = format!("# {0}\nkey = \"{0}\"\n", "c".repeat(COLUMNS));
        let folder = repository(&[("examples/a.toml", &text), ("b.toml", &text)]);
        assert_eq!(flaws(folder.path()), ["examples/a.toml:1: 122 columns, at most 120"]);
    }
}
