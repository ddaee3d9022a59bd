//! `cargo xtask bench scale`: builds the switch and the program that measures it, and runs the program.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::command::{self, cargo};

const BUILD: Duration = Duration::from_mins(30);
const MEASURE: Duration = Duration::from_mins(10);

/// Arguments of the program.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Arguments of the program: see `cargo xtask bench scale -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs the program, which prints the results.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let packages = ["build", "--release", "--package", "linerate", "--package", "linerate-benches"];
    command::run(&cargo(&packages), BUILD)?;
    let mut program = std::process::Command::new(command::target().join("release/scale"));
    program.args(&arguments.arguments).env("LINERATE_BIN", command::target().join("release/linerate"));
    command::run(&program, MEASURE)
}
