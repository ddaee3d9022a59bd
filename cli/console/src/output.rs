//! `-o`: the format of a result.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Table
    #[default]
    Table,
    /// JSON
    Json,
}

/// `-q`, for all commands of a program.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct QuietArgs {
    /// Print only warnings and errors to standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl QuietArgs {
    /// Applies the option to this process.
    pub fn apply(self) {
        crate::QUIET.store(self.quiet, std::sync::atomic::Ordering::Relaxed);
    }
}

/// `-o`. A command changes its help by `mut_arg`.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShowArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// `--out` and `-o`: files and format of the result of a measurement.
#[derive(Args, Clone, Debug)]
pub struct ResultArgs {
    /// Write the result to this file when the run ends; its ending selects the format. May be repeated
    #[arg(long, value_name = "FILE")]
    pub out: Vec<PathBuf>,
    /// `-o`.
    #[command(flatten)]
    pub show: ShowArgs,
}
