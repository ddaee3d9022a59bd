//! The commands of the documents are valid: each `linerate` command in a block of shell is parsed, without running it.

use super::{command, read};
use std::fs;
use std::path::{Path, PathBuf};

/// Tokens that end a command.
const ENDS: [&str; 6] = ["|", "||", "&&", "&", ";", "#"];

fn documents(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let documents = |path: PathBuf| match path.is_dir() {
        // Decisions are of their time.
        true if path.ends_with("decisions") => Vec::new(),
        true => documents(&path),
        false if path.extension().is_some_and(|kind| kind == "md") => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(documents).collect()
}

/// Lines of the shell blocks, with continued ones joined.
fn lines(text: &str) -> Vec<String> {
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let joined = blocks.map(|(block, _)| block.replace("\\\n", " "));
    joined.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The `linerate` commands of a line, with the name of the program first.
fn commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("not a line of shell: {line}"));
    let parts = words.split(|word| ENDS.contains(&word.as_str()));
    let command = |part: &[String]| {
        let start = part.iter().position(|word| matches!(word.as_str(), "linerate" | "linerate-new"))?;
        let is_prefix = |word: &String| word.contains('=') || ["sudo", "exec"].contains(&word.as_str());
        let command = part[start..].iter().take_while(|word| !word.starts_with(['<', '>'])).cloned();
        part[..start].iter().all(is_prefix).then(|| command.collect())
    };
    parts.filter_map(command).collect()
}

#[test]
fn commands_of_the_documents_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    let pages = documents(&root.join("docs")).into_iter().chain([root.join("README.md")]);
    for path in pages {
        for words in lines(&fs::read_to_string(&path).unwrap()).iter().flat_map(|line| commands(line)) {
            let parsed = command().try_get_matches_from(&words).and_then(|matches| read(&matches));
            if let Err(error) = parsed {
                panic!("{}: {}\n{error}", path.display(), words.join(" "));
            }
            seen += 1;
        }
    }
    assert!(seen >= 60, "only {seen} commands were found");
}

#[test]
fn commands_are_found_in_lines_of_shell() {
    let found = |line: &str| commands(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(found("linerate top  # live"), ["linerate top"]);
    assert_eq!(
        found("X=1 linerate fdb show | sort > f && sudo linerate stop"),
        ["linerate fdb show", "linerate stop"]
    );
    assert_eq!(found("apt-get install linerate"), [""; 0]);
}
