//! `cargo xtask package --check`: the same commit, packaged in another directory, has the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::build::git;
use crate::command;
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_hours(3);

/// Returns an error if the sources differ from the commit, which the clone has.
pub(super) fn requires_no_changes() -> Result<()> {
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        bail!("files differ from the commit, so a clone has other sources; commit or stash:\n{changed}");
    }
    Ok(())
}

/// Packages a clone and compares the sums. The clone stays for inspection if they differ.
pub(super) fn compare(kind: &str) -> Result<Outcome> {
    let clone = super::folder().join("clone/in-a-directory-with-another-name");
    if clone.exists() {
        fs::remove_dir_all(&clone).with_context(|| format!("cannot remove {}", clone.display()))?;
    }
    let mut copy = Command::new("git");
    copy.args(["clone", "--quiet", "--no-checkout"]).arg(command::root()).arg(&clone);
    command::run(&copy, LIMIT)?;
    let mut checkout = Command::new("git");
    checkout.arg("-C").arg(&clone).args([
        "checkout",
        "--quiet",
        "--detach",
        git(&["rev-parse", "HEAD"])?.trim(),
    ]);
    command::run(&checkout, LIMIT)?;
    let mut package = Command::new("cargo");
    package.args(["xtask", "package", kind]).current_dir(&clone).env_remove("CARGO_TARGET_DIR");
    command::run(&package, LIMIT)?;
    let results = clone.join("target/package");
    let sums = read(&results)?;
    if sums.is_empty() {
        bail!("the clone has no results: every kind was skipped");
    }
    let differing = differing(&sums, &read(&super::folder())?);
    if !differing.is_empty() {
        bail!("results differ from those in {}:\n{}", results.display(), differing.join("\n"));
    }
    fs::remove_dir_all(&clone).with_context(|| format!("cannot remove {}", clone.display()))?;
    Ok(Outcome::Passed)
}

fn read(folder: &Path) -> Result<String> {
    let path = folder.join(super::SUMS);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Lines of sums that only one of both has, except of files that were made here before and not by this run.
pub(super) fn differing(clone: &str, here: &str) -> Vec<String> {
    let name = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let made: BTreeSet<String> = clone.lines().map(name).collect();
    let lines: BTreeSet<&str> = here.lines().filter(|line| made.contains(&name(line))).collect();
    let of_clone: BTreeSet<&str> = clone.lines().collect();
    lines.symmetric_difference(&of_clone).map(|&line| line.to_owned()).collect()
}
