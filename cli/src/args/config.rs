//! Arguments of `linerate apply` and `linerate config`.

use super::parse::key_and_value;
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

/// Changes of keys of an object's section.
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    /// Key of the section with its new value; a value that is not valid TOML is a string
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value, required_unless_present = "unset")]
    pub(crate) set: Vec<(String, String)>,
    /// Key that has its default again. May be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) unset: Vec<String>,
}

/// Whether a change survives a restart.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SaveArgs {
    /// Also write the change, and earlier ones, to the configuration file of the switch
    #[arg(long)]
    pub(crate) save: bool,
}
