//! Document checks: every link target (file or heading) and every repository path in backticks exists. `cargo xtask
//! docs` checks them and builds the book in `target/book` if mdBook is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command;
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(2);
/// Top-level directories whose paths in backticks are checked.
const FOLDERS: [&str; 11] = [
    "benches/",
    "cli/",
    "dataplane/",
    "docs/",
    "examples/",
    "fuzz/",
    "lab/",
    "net/",
    "tests/",
    "tools/",
    "xtask/",
];
/// Paths of other projects that start with the same directory names.
const FOREIGN: [&str; 1] = ["net/vhost-user.c"];

/// Checks the links, then builds the book if mdBook is installed.
pub(crate) fn run() -> Result<Outcome> {
    let broken = broken(&command::root());
    if !broken.is_empty() {
        bail!("broken links:\n{}", broken.join("\n"));
    }
    if !command::succeeds(Command::new("mdbook").arg("--version")) {
        let remedy = "cargo install mdbook --locked";
        return Ok(Outcome::Skipped(format!("mdBook is not installed; install it: {remedy}")));
    }
    let mut build = Command::new("mdbook");
    build.arg("build").arg("docs").current_dir(command::root());
    command::run(&build, LIMIT).map(|()| Outcome::Passed)
}

/// Each broken link or path, as `FILE: TARGET`.
fn broken(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    collect(root, &mut files);
    collect(&root.join("docs"), &mut files);
    files.sort();
    files.dedup();
    files.iter().flat_map(|file| broken_in(root, file)).collect()
}

/// The Markdown files of a directory, recursively for `docs`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        } else if path.is_dir() && path.components().any(|part| part.as_os_str() == "docs") {
            collect(&path, files);
        }
    }
}

fn broken_in(root: &Path, file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let folder = file.parent().unwrap_or(root);
    let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let links = links(&text).into_iter().filter(|link| !holds(folder, file, link));
    let paths = paths(&text).into_iter().filter(|path| !root.join(path).exists());
    links.chain(paths).map(|target| format!("{name}: {target}")).collect()
}

/// Link targets of a document, without web addresses.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://") && !target.contains(' ')).collect()
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

    #[test]
    fn all_document_links_resolve() {
        assert_eq!(broken(&command::root()), Vec::<String>::new());
    }

    #[test]
    fn broken_links_and_paths_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        let text = "# Title\n[a](docs/b.md) [c](#title) [d](#other) [e](https://x.y/z) `tools/none.rs` `port::none`\n";
        fs::write(folder.path().join("A.md"), text).unwrap();
        fs::write(folder.path().join("docs/c.md"), "[up](../A.md#title) [gone](../B.md)").unwrap();
        assert_eq!(
            broken(folder.path()),
            ["A.md: docs/b.md", "A.md: #other", "A.md: tools/none.rs", "docs/c.md: ../B.md"]
        );
    }
}
