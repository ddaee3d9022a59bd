//! `-o`: the format of a result.

use clap::{Args, ValueEnum};

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

/// `-o`, for commands without other arguments.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShowArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
