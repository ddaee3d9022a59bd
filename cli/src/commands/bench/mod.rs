//! `linerate bench`: RFC 2544 against a switch, ours or another, and two results side by side.
//!
//! `args` are the flags, `options` those that may stand in a file as well; `setup` makes ports, switch and guest of
//! them (`parts`, `opposite`), and judges everything (`validate`) before anything is started. `run` does one trial after another (`trial`); which one is
//! decided in the laboratory's room (`rfc2544`). `child` starts what runs beside this process and ends it, `supervise`
//! is the process in between; `within` is what runs in the generator's own thread. `keep` is the file of trials, `report` prints, `compare` compares.

mod checkpoint;
mod child;
mod command;
mod compare;
mod folder;
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

/// Does what was asked for.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(BenchCommand::Compare(args)) => compare::run(args),
        None => run::run(&args.bench),
    }
}
