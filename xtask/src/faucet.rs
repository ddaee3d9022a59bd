//! Faucet, an OpenFlow controller of its own making, for an end-to-end test. Debian does not package it, so it is
//! installed by pip into a directory in `target`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::command;
use crate::packages::{self, PYTHON};
use crate::steps::Outcome;

const RELEASE: &str = "faucet==1.10.12";
const LIMIT: Duration = Duration::from_mins(10);

/// Directory with its programs.
pub(crate) fn programs() -> PathBuf {
    command::target().join("faucet/bin")
}

/// Installs it if it is missing.
pub(crate) fn ensure() -> Result<Outcome> {
    let programs = programs();
    if programs.join("faucet").is_file() {
        println!("{} is there", programs.display());
        return Ok(Outcome::Passed);
    }
    packages::ensure(PYTHON)?;
    let mut create = Command::new("/usr/bin/python3");
    create.args(["-m", "venv", "--clear"]).arg(command::target().join("faucet"));
    command::run(&create, LIMIT)?;
    let mut install = Command::new(programs.join("pip"));
    command::run(install.args(["install", "--quiet", RELEASE]), LIMIT)?;
    Ok(Outcome::Passed)
}
