//! Checks beside the tests: formatting, lints and documentation.

use std::process::Command;
use std::time::Duration;

use crate::command::{cargo, run};
use crate::steps::{Outcome, Step};

const LIMIT: Duration = Duration::from_mins(25);

/// Checks before the tests, in order.
pub(crate) fn all() -> Vec<Step> {
    vec![step("format", format), step("lints", lints), documentation()]
}

/// Checks that the documentation of all crates builds without warnings.
pub(crate) fn documentation() -> Step {
    step("documentation", documents)
}

fn step(name: &'static str, command: fn() -> Command) -> Step {
    Step::new(name, move || run(&command(), LIMIT).map(|()| Outcome::Passed))
}

fn format() -> Command {
    cargo(&["fmt", "--all", "--check"])
}

fn lints() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn documents() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}
