//! The `linerate-lab` binary: runs experiments of the cache laboratory by name, and creates reports.
//!
//! Experiments are defined in `studies` and `report`; this program handles arguments, files, progress and text.

#![forbid(unsafe_code)]

mod args;
mod comparison;
mod copies;
mod list;
mod paths;
mod profile;
mod reference;
mod report;
mod run;
mod stack;
mod trial;
mod usage;

use args::{Cli, LabCommand};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

fn main() -> ExitCode {
    console::manual::complete(Cli::command);
    let cli = Cli::try_parse().unwrap_or_else(|error| console::refuse("linerate-lab", error));
    cli.quiet.apply();
    let Err(error) = dispatch(&cli.command) else { return ExitCode::SUCCESS };
    let (code, text) = console::verdict("linerate-lab", &error);
    if let Some(text) = text {
        eprintln!("{text}");
    }
    ExitCode::from(code)
}

fn dispatch(command: &LabCommand) -> anyhow::Result<()> {
    match command {
        LabCommand::List(args) => list::run(args.output),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Copies(args) => copies::run(args),
        LabCommand::Paths(args) => paths::run(args),
        LabCommand::Usage(args) => usage::run(args),
        LabCommand::Stack(args) => stack::run(args),
        LabCommand::Calibrate(args) => trial::calibrate(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Completions { shell } => console::manual::completions("linerate-lab", *shell),
        LabCommand::Man { out } => console::manual::man(Cli::command(), out.as_deref()),
        LabCommand::Reference { dir } => reference::write(dir),
    }
}
