//! `linerate lab`: runs `linerate-lab`, which lies beside this program, in its place.

use console::Diagnostic;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PROGRAM: &str = "linerate-lab";

/// Replaces this process; returns only if that failed.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    let error = Command::new(&program).args(arguments).exec();
    let remedy =
        "build it with `cargo build --release --package linerate-lab`, or install it beside `linerate`";
    Err(Diagnostic::failed(program.display(), error, remedy).into())
}
