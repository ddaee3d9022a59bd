//! Checks before the tests: formatting, lints and documentation.

use std::process::Command;
use std::time::Duration;

use crate::command::{cargo, run};
use crate::steps::{Outcome, Step};

const LIMIT: Duration = Duration::from_mins(25);

/// The steps, in order.
pub(crate) fn all() -> Vec<Step> {
    let step = |name, command: fn() -> Command| {
        Step::new(name, move || run(&command(), LIMIT).map(|()| Outcome::Passed))
    };
    vec![step("format", format), step("lints", lints), step("documentation", documentation)]
}

fn format() -> Command {
    cargo(&["fmt", "--all", "--check"])
}

fn lints() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn documentation() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}
