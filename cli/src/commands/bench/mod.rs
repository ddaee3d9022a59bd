//! `linerate bench`: RFC 2544 tests of a switch, ours or another, and comparison of two results.
//!
//! `args` defines the flags, `options` those that may also be in a file. `setup` builds ports, switch and guest from
//! them (`parts`, `opposite`, `workers`), and validates everything (`validate`) before anything is started. `run`
//! executes one trial after another (`trial`); the crate `rfc2544` selects them. `child` starts and stops child
//! processes, `supervise` ends them with their parent, and `within` has the parts that run in the generator's thread.
//! `report` prints results, and `compare` compares them.

pub(in crate::commands) mod child;
mod command;
mod compare;
pub(in crate::commands) mod folder;
mod opposite;
mod parts;
mod report;
mod run;
mod setup;
mod subject;
pub(crate) mod supervise;
#[cfg(test)]
mod tests;
mod trial;
mod validate;
mod within;
mod workers;

use crate::args::bench::{BenchArgs, BenchCommand};

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(BenchCommand::Compare(args)) => compare::run(args),
        None => run::run(&args.bench),
    }
}
