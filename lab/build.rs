//! Says which laboratory this is: the commit of its sources, if there is a repository, and a fingerprint of them.
//!
//! It runs when the sources of this crate change and at no other commit, so the commit is one that these sources are of,
//! and `-changed` says that they are of none.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

#[path = "src/cache/fingerprint.rs"]
mod fingerprint;

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in ["src", "profiles"] {
        println!("cargo::rerun-if-changed={folder}");
        collect(&root.join(folder), &mut files)?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LINERATE_COMMIT");
    files.sort();
    let mut hash = fingerprint::START;
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy();
        hash = fingerprint::fingerprint(fingerprint::fingerprint(hash, name.as_bytes()), &fs::read(file)?);
    }
    println!("cargo::rustc-env=LINERATE_LAB_SOURCES={hash:016x}");
    println!("cargo::rustc-env=LINERATE_LAB_COMMIT={}", commit(&root));
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// As whoever builds says (`LINERATE_COMMIT`), or as the repository says, or `unknown`.
fn commit(root: &Path) -> String {
    if let Ok(said) = env::var("LINERATE_COMMIT") {
        return said;
    }
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    match git(&["status", "--porcelain", "--", "src", "profiles"]) {
        Some(changed) if changed.is_empty() => commit,
        _ => format!("{commit}-changed"),
    }
}
