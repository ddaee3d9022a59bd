//! The benchmark's part of the command line.

use super::bench_options::BenchOptions;
use clap::{Args, Subcommand};
use console::{CheckpointArgs, ResultArgs, ShowArgs};
use std::ffi::OsString;
use std::path::PathBuf;

/// Help of `--out`.
const OUT: &str = "Write the result to this file when the run ends: FILE.json, for `bench compare`; or FILE.html, a page \
    with figures. May be repeated";

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
#[command(mut_arg("out", |arg| arg.help(OUT)))]
pub(crate) struct RunArgs {
    /// Configuration file: the flags below as keys with `_` in place of `-`, and `[[port]]`, `[[switch_port]]`
    /// and `[stream]` sections. A flag overrides the file
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: BenchOptions,
    #[command(flatten)]
    pub(crate) keep: CheckpointArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Arguments of `bench compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Baseline result: a file of `linerate bench --out FILE.json` or `--keep`
    #[arg(value_name = "A.json")]
    pub(crate) a: PathBuf,
    /// Result to compare with the baseline, in either format
    #[arg(value_name = "B.json")]
    pub(crate) b: PathBuf,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `supervise`.
#[derive(Args, Debug)]
pub(crate) struct SuperviseArgs {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
