//! Fingerprint of what a package is compiled from: its sources, those of its dependencies in this workspace, the
//! versions of the others, the profiles, and the compiler. Counts of a fingerprint are valid as long as it is the same.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{self, cargo};

/// The fingerprint of the package called `name` and of other files.
pub(crate) fn of(name: &str, others: &[PathBuf]) -> Result<String> {
    let root = command::root();
    let mut files = [others, &[root.join("Cargo.toml"), root.join("Cargo.lock")]].concat();
    for folder in members(&tree(name)?, &root) {
        files.push(folder.join("Cargo.toml"));
        list(&folder.join("src"), &mut files)?;
    }
    let mut hasher = DefaultHasher::new();
    command::output(Command::new("rustc").arg("--version"))?.hash(&mut hasher);
    for file in files {
        file.strip_prefix(&root).unwrap_or(&file).hash(&mut hasher);
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        text.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// The package called `name` and its dependencies, each in a line with its folder.
fn tree(name: &str) -> Result<String> {
    let words = ["tree", "--package", name, "--edges", "normal,build", "--prefix", "none"];
    command::output(&mut cargo(&words))
}

/// Folders of the packages of this workspace in the output of `cargo tree`, sorted.
fn members(tree: &str, root: &Path) -> Vec<PathBuf> {
    let folder = |line: &str| PathBuf::from(line.split(['(', ')']).nth(1).unwrap_or_default());
    let mut folders: Vec<_> = tree.lines().map(folder).filter(|folder| folder.starts_with(root)).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Adds the files below `folder`, sorted.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_workspace_are_members_once() {
        let tree = "linerate-ring v0.1.0 (/r/dataplane/ring)\nlibc v0.2.1\nlinerate-mem v0.1.0 (/r/dataplane/mem)\n\
                    linerate-ring v0.1.0 (/r/dataplane/ring) (*)\nserde_derive v1.0.0 (proc-macro)\n";
        let found = members(tree, Path::new("/r"));
        assert_eq!(found, [Path::new("/r/dataplane/mem"), Path::new("/r/dataplane/ring")]);
    }

    #[test]
    fn the_counted_program_has_the_sources_of_the_data_path() {
        let root = command::root();
        let found = members(&tree("linerate-counted").unwrap(), &root);
        for folder in [
            "dataplane/ring",
            "dataplane/port",
            "dataplane/engine",
            "net/flow",
            "stack/proto",
            "benches/counted",
        ] {
            assert!(found.contains(&root.join(folder)), "{folder}: {found:?}");
        }
    }
}
