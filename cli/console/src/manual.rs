//! Shell completions and man pages, from the definition of a command line.

use crate::{Diagnostic, written};
use clap::Command;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};
pub use clap_mangen::roff;
use std::io;
use std::path::Path;

/// Environment variable that names the shell in a request for completions.
pub const COMPLETE_VARIABLE: &str = "LINERATE_COMPLETE";

/// Prints the script for `shell`, which runs the program to complete its arguments.
pub fn completions(program: &str, shell: Shell) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    if let Some(completer) = shells.completer(&shell.to_string()) {
        completer.write_registration(COMPLETE_VARIABLE, program, program, program, &mut script)?;
    }
    crate::raw(&script)
}

/// Answers a request of the script of [`completions`] and exits; returns if there is none. Must be called before
/// anything is printed.
pub fn complete(command: impl Fn() -> Command) {
    CompleteEnv::with_factory(command).var(COMPLETE_VARIABLE).complete();
}

/// Prints the man page of the program, or writes one page per subcommand into `dir`.
pub fn man(command: Command, dir: Option<&Path>) -> anyhow::Result<()> {
    match dir {
        None => crate::raw(&page(command)?),
        Some(dir) => Ok(pages(command, dir)?),
    }
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

fn pages(command: Command, dir: &Path) -> Result<(), Diagnostic> {
    written::create(dir).map_err(Diagnostic::as_bad_input)?;
    clap_mangen::generate_to(command, dir).map_err(|e| {
        Diagnostic::failed(format!("--out {}", dir.display()), e, "name a path that you may write to")
    })
}
