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

/// `-o`, for commands without other arguments.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShowArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
