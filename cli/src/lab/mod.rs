//! `linerate lab`: experiments of the cache laboratory by name, run as one job, and turned into a report.
//!
//! What an experiment is, how it runs and what its results mean is the laboratory's own (`lab::cache`, `lab::report`);
//! here are only arguments, files, progress and text.

pub(crate) mod args;
mod comparison;
mod copies;
mod list;
mod paths;
mod profile;
pub(crate) mod progress;
mod report;
mod run;
mod trial;
mod usage;

use args::LabCommand;

/// Does what was asked for.
pub(crate) fn run(command: &LabCommand) -> anyhow::Result<()> {
    match command {
        LabCommand::List(args) => list::run(args.output),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Copies(args) => copies::run(args),
        LabCommand::Paths(args) => paths::run(args),
        LabCommand::Usage(args) => usage::run(args),
        LabCommand::Calibrate(args) => trial::calibrate(args),
        LabCommand::Report(args) => report::run(args),
    }
}
