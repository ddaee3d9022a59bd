//! The fuzz targets, which are no members of the workspace: cargo-fuzz and a nightly toolchain run them, any toolchain
//! checks them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::command::{self, cargo, cargo_of};
use crate::steps::Outcome;

const FOLDER: &str = "fuzz";
const CHECK: Duration = Duration::from_mins(30);
/// Includes the build, which the first target makes for all.
const RUN: Duration = Duration::from_mins(20);
/// Duration of a target beyond the replay of its corpus.
const SECONDS: u32 = 3;

/// Checks that every target compiles.
pub(crate) fn check() -> Result<Outcome> {
    let mut command = cargo(&["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    command.arg(command::target());
    command::run(&command, CHECK).map(|()| Outcome::Passed)
}

/// Runs every target on its corpus and then on new inputs for some seconds. New inputs stay out of the corpus.
pub(crate) fn run() -> Result<Outcome> {
    let remedy = "rustup toolchain install nightly && cargo install cargo-fuzz --locked";
    let probe = &mut cargo_of("nightly", &["fuzz", "--version"]);
    if let Some(missing) = command::missing("cargo-fuzz", probe, remedy) {
        return Ok(missing);
    }
    targets()?.iter().try_for_each(|target| run_one(target))?;
    Ok(Outcome::Passed)
}

fn run_one(target: &str) -> Result<()> {
    let found = tempfile::tempdir().context("cannot create a temporary directory for new inputs")?;
    let mut command = cargo_of("nightly", &["fuzz", "run", "--fuzz-dir", FOLDER, "--target-dir"]);
    command.arg(command::target().join("fuzz")).arg(target);
    // libFuzzer adds new inputs to the first directory.
    command.arg(found.path()).arg(command::root().join(FOLDER).join("corpus").join(target));
    command.args(["--", &format!("-max_total_time={SECONDS}"), "-print_final_stats=0", "-verbosity=0"]);
    command::run(&command, RUN)
}

/// Names of the targets, in order.
fn targets() -> Result<Vec<String>> {
    let folder = command::root().join(FOLDER).join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let stem = |entry: fs::DirEntry| Some(entry.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.flatten().filter_map(stem).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus() {
        let names = targets().unwrap();
        assert!(names.len() >= 15, "{names:?}");
        for name in names {
            assert!(command::root().join(FOLDER).join("corpus").join(&name).is_dir(), "{name}");
        }
    }

    #[test]
    fn the_manifest_has_every_target() {
        let arguments =
            ["metadata", "--no-deps", "--format-version", "1", "--manifest-path", "fuzz/Cargo.toml"];
        let text = command::output(&mut cargo(&arguments)).unwrap();
        let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
        let built = metadata["packages"][0]["targets"].as_array().unwrap();
        for name in targets().unwrap() {
            assert!(built.iter().any(|target| target["name"] == name.as_str()), "{name}");
        }
    }
}
