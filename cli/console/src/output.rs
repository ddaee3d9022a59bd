//! `-o`: the form of a result.

use clap::{Args, ValueEnum};

/// How to print a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// `-o`, for commands without other arguments.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShowArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
