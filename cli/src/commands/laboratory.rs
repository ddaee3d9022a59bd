//! `linerate lab`: executes `linerate-lab` from the directory of this program.

use console::Diagnostic;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PROGRAM: &str = "linerate-lab";

/// Replaces this process; returns only on failure.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    let error = Command::new(&program).args(arguments).exec();
    let remedy =
        "build it with `cargo build --release --package linerate-lab`, or install it beside `linerate`";
    Err(Diagnostic::failed(program.display(), error, remedy).into())
}
