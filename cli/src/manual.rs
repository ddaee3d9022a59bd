//! Completions and man pages, made from the definitions in `args`.

use crate::args::Cli;
use crate::error::CliError;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io;
use std::path::Path;

/// The completion script for `shell`.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut script);
    script
}

/// The man page of the program itself.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    Ok(page)
}

/// Writes one page per verb into `dir`.
pub(crate) fn pages(dir: &Path) -> Result<(), CliError> {
    if !dir.is_dir() {
        let remedy = format!("mkdir -p {}", dir.display());
        return Err(CliError::bad(dir.display(), "this directory does not exist", remedy));
    }
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|e| CliError::failed(dir.display(), e, "choose a directory that you may write to"))
}
