//! Software bills of materials in `CycloneDX`: the crates that are compiled into each program and library, with
//! versions, licences and checksums.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::build;
use crate::command::{self, cargo};
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(5);
/// Programs and libraries of packages, with the folders of their crates.
pub(super) const PROGRAMS: [(&str, &str); 4] = [
    ("linerate", "cli"),
    ("linerate-lab", "lab/cli"),
    ("liblinerate", "stack/ffi"),
    ("liblinerate_preload", "stack/preload"),
];
/// Name of the files that cargo-cyclonedx writes.
const WRITTEN: &str = "package.cdx";

/// Makes the files of all programs and libraries.
pub(super) fn make() -> Result<Outcome> {
    let probe = &mut cargo(&["cyclonedx", "--version"]);
    let remedy = "cargo install cargo-cyclonedx --locked";
    if let Some(missing) = command::missing("cargo-cyclonedx", probe, remedy) {
        return Ok(missing);
    }
    super::remove_old(".cdx.json")?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", &target];
    let mut command = build::subcommand(&words)?;
    let written = command::run(command.args(["--override-filename", WRITTEN]), LIMIT);
    let kept = written.and_then(|()| PROGRAMS.iter().try_for_each(|(program, folder)| keep(program, folder)));
    remove_written()?;
    kept.map(|()| Outcome::Passed)
}

/// Copies the file of a program to the results.
fn keep(program: &str, folder: &str) -> Result<()> {
    let path = written(folder);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let to = super::folder().join(format!("{program}-{}.cdx.json", super::VERSION));
    fs::write(&to, moved(&text, &command::root().display().to_string()))
        .with_context(|| format!("cannot write {}", to.display()))
}

/// Removes what cargo-cyclonedx writes beside the manifest of every member of the workspace.
fn remove_written() -> Result<()> {
    for path in members()?.iter().map(|folder| written(folder)).filter(|path| path.exists()) {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

fn written(folder: &str) -> PathBuf {
    command::root().join(folder).join(format!("{WRITTEN}.json"))
}

/// Folders of the members of the workspace.
pub(super) fn members() -> Result<Vec<String>> {
    let path = command::root().join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = text.parse().with_context(|| format!("{} is not valid", path.display()))?;
    let members = manifest["workspace"]["members"].as_array().context("the workspace has no members")?;
    Ok(members.iter().filter_map(|member| Some(member.as_str()?.to_owned())).collect())
}

/// The text with the directory of packages and images instead of `root`.
pub(super) fn moved(text: &str, root: &str) -> String {
    text.replace(root, build::SOURCES)
}
