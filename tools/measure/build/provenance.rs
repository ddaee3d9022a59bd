// Shared by the build scripts of crates that record the fingerprint of their sources in results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

#[path = "../src/fingerprint.rs"]
#[allow(unreachable_pub, reason = "the library that has this file exports it")]
mod fingerprint;

/// Sets `LINERATE_BUILD_SOURCES` to a fingerprint of the files below `folders`, except those for which `is_left_out`
/// returns true, and `LINERATE_BUILD_COMMIT` to the commit. Folders are relative to the crate. Cargo reruns a build
/// script only if one of these files changes, so the commit contains them; it ends in `-changed` if none does.
pub(crate) fn emit(folders: &[&str], is_left_out: impl Fn(&Path) -> bool) -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in folders {
        println!("cargo::rerun-if-changed={folder}");
        collect(&root.join(folder), &mut files)?;
    }
    files.retain(|file| !is_left_out(file));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LINERATE_COMMIT");
    files.sort();
    let mut hash = fingerprint::START;
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy();
        hash = fingerprint::fingerprint(fingerprint::fingerprint(hash, name.as_bytes()), &fs::read(file)?);
    }
    println!("cargo::rustc-env=LINERATE_BUILD_SOURCES={hash:016x}");
    println!("cargo::rustc-env=LINERATE_BUILD_COMMIT={}", commit(&root, folders));
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

/// The value of `LINERATE_COMMIT`, or the commit of the repository, or `unknown`.
fn commit(root: &Path, folders: &[&str]) -> String {
    if let Ok(stated) = env::var("LINERATE_COMMIT") {
        return stated;
    }
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    match git(&[&["status", "--porcelain", "--"], folders].concat()) {
        Some(changed) if changed.is_empty() => commit,
        _ => format!("{commit}-changed"),
    }
}
