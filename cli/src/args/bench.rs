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

/// Subcommands of `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare two results: ratio and significance of each difference
    Compare(CompareArgs),
}

/// Arguments of `bench` itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// Configuration file: the flags below as keys, `[[port]]`, `[[switch-port]]` and `[stream]` sections. A
    /// flag overrides the file
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: BenchOptions,
    /// Append each trial to this file when it ends, as one line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    /// Resume from the trials in the file of `--keep`
    #[arg(long, requires = "keep")]
    pub(crate) resume: bool,
    /// Write the result with figures as one self-contained HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `bench compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Baseline result: output of `linerate bench -o json`, or a file written by `--keep`
    #[arg(value_name = "A.json")]
    pub(crate) a: PathBuf,
    /// Result to compare with the baseline, in either format
    #[arg(value_name = "B.json")]
    pub(crate) b: PathBuf,
    /// Output format
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
