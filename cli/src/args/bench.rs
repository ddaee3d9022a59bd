//! The benchmark's part of the command line.

use super::bench_options::BenchOptions;
use clap::{Args, Subcommand};
use console::Output;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    #[command(flatten)]
    pub(crate) bench: RunArgs,
}

/// What else there is.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Set two results side by side: the ratio of each figure, and whether it is more than chance
    Compare(CompareArgs),
}

/// Arguments of `bench` itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// File with the flags below as keys, `[[port]]`, `[[switch-port]]` and a `[stream]`; flags go before it
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: BenchOptions,
    /// Append each trial to this file as it ends, one line of JSON each
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Go on with the trials that `--keep` has
    #[arg(long, requires = "keep")]
    pub(crate) resume: bool,
    /// Write one page with figures that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `bench compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// What `linerate bench -o json` printed, or `--keep` kept
    #[arg(value_name = "A.json")]
    pub(crate) a: PathBuf,
    /// The same of another switch, or of the same with something changed
    #[arg(value_name = "B.json")]
    pub(crate) b: PathBuf,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `supervise`.
#[derive(Args, Debug)]
pub(crate) struct SuperviseArgs {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
