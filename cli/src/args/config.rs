//! Arguments of `linerate apply` and `linerate config`.

use clap::{Args, Subcommand};
use console::ShowArgs;
use std::path::PathBuf;

/// Commands on the configuration of a running switch.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the running configuration as a file: the text of the file with the changes since
    Show(ShowArgs),
    /// Write the running configuration to the file of the switch
    ///
    /// Comments, order and unchanged values are kept. Flows that were added to a running switch are not part of the
    /// configuration.
    Save(ShowArgs),
}

/// Arguments of `apply`.
#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print what would change, and change nothing
    #[arg(long)]
    pub(crate) diff: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Whether a change survives a restart.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SaveArgs {
    /// Also write the change, and earlier ones, to the configuration file of the switch
    #[arg(long)]
    pub(crate) save: bool,
}
