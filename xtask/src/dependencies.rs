//! Dependencies: licences, sources and duplicates by `deny.toml`, and known vulnerabilities where the database of
//! advisories can be fetched.

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
    if !command::succeeds(&mut cargo(&["deny", "fetch", "db"])) {
        let reason = "advisories: cargo-deny cannot fetch their database; licences and sources passed";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    command::run(&cargo(&["deny", "check", "advisories"]), LIMIT).map(|()| Outcome::Passed)
}
