//! Dependencies: licences, sources and duplicates by `deny.toml`, and known vulnerabilities where the database of
//! advisories can be fetched, or was.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::command::{self, cargo};
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(5);

/// Runs cargo-deny if it is installed.
pub(crate) fn run() -> Result<Outcome> {
    let probe = &mut cargo(&["deny", "--version"]);
    if let Some(missing) = command::missing("cargo-deny", probe, "cargo install cargo-deny --locked") {
        return Ok(missing);
    }
    command::run(&cargo(&["deny", "check", "licenses", "bans", "sources"]), LIMIT)?;
    if !command::succeeds(&mut cargo(&["deny", "fetch", "db"])) && !has_advisories() {
        let reason = "advisories: cargo-deny cannot fetch their database; licences and sources passed";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    command::run(&cargo(&["deny", "--offline", "check", "advisories"]), LIMIT).map(|()| Outcome::Passed)
}

/// Whether a database was fetched before, to where cargo-deny keeps it by default.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let databases = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    databases.is_some_and(|found| found.flatten().any(|entry| entry.path().is_dir()))
}
