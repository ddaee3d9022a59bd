//! The switch under test.

use crate::args::bench_options::{BenchOptions, Own};

/// Kinds of switch under test.
#[derive(Clone, Copy)]
pub(super) enum Switch<'a> {
    /// This program, in a separate process.
    Ours,
    /// A switch that is already running.
    Running,
    /// This program, in the generator's thread.
    Inline,
    /// A command that starts another switch.
    Command(&'a str),
}

impl<'a> Switch<'a> {
    /// The switch selected by the options.
    pub(super) fn of(options: &'a BenchOptions) -> Self {
        match (&options.switch_command, options.switch.unwrap_or_default()) {
            (Some(command), _) => Self::Command(command),
            (None, Own::Linerate) => Self::Ours,
            (None, Own::Running) => Self::Running,
            (None, Own::Inline) => Self::Inline,
        }
    }
}
