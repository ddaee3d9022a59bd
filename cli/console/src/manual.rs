//! Shell completions and man pages, generated from the definition of a command line.

use crate::Diagnostic;
use clap::Command;
use clap_complete::Shell;
pub use clap_mangen::roff;
use std::io;
use std::path::Path;

/// Generates the completion script for `shell`.
pub fn completions(command: &mut Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, command, name, &mut script);
    script
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
    if !dir.is_dir() {
        let remedy = format!("mkdir -p {}", dir.display());
        return Err(Diagnostic::bad(dir.display(), "this directory does not exist", remedy));
    }
    clap_mangen::generate_to(command, dir)
        .map_err(|e| Diagnostic::failed(dir.display(), e, "choose a directory that you may write to"))
}
