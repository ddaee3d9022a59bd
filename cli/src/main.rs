//! The `linerate` binary: arguments in, one verb done, an exit code out.
//!
//! `config` turns a file into a topology, `run` turns a topology into a running plant with a control API (`api`),
//! and every other verb asks that API. No packet passes through this crate.

#![forbid(unsafe_code)]

mod api;
mod args;
mod bench;
mod config;
mod control;
mod data_plane;
mod demo;
mod error;
mod guest;
mod host;
mod kinds;
mod lab;
mod manual;
mod model;
mod placement;
mod run;
mod section;
mod security;
mod show;
mod snippet;
mod switch;
mod top;
mod topology;
mod traffic;
mod value;
mod verbs;
mod wrappers;
mod written;

use api::client::Client;
use args::{BridgesCommand, CheckArgs, Cli, Command, Output};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Err(error) = dispatch(&cli) else { return ExitCode::SUCCESS };
    let (code, text) = error::verdict(&error);
    if let Some(text) = text {
        eprintln!("{text}");
    }
    ExitCode::from(code)
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    // In a file a path has to be absolute; on the command line the working directory is what its user means.
    let control = cli.control.control.as_ref();
    let control = control.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let control = control.as_deref();
    let client = || Client::new(control);
    match &cli.command {
        Command::Run(args) => run::run(args, control),
        Command::Check(args) => check(args, control),
        Command::Snippet(args) => show::line(&snippet::run(args, control)?),
        Command::Status(args) => verbs::status(&client(), args.output),
        Command::Top(args) => top::run(args, &client()),
        Command::Ports(command) => verbs::ports(&client(), command),
        Command::Bridges(BridgesCommand::Show(args)) => verbs::bridges(&client(), args.output),
        Command::Fdb(command) => verbs::fdb(&client(), command),
        Command::Workers(command) => verbs::workers(&client(), command),
        Command::Placement(command) => verbs::placement(&client(), command),
        Command::Rebalance(args) => verbs::rebalance(&client(), args),
        Command::Stop => verbs::stop(&client()),
        Command::Demo(args) => demo::run(args),
        Command::Guest(args) => guest::run(args),
        Command::Gen(args) => traffic::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Supervise(args) => bench::supervise::run(args),
        Command::Lab(command) => lab::run(command),
        Command::Completions { shell } => show::raw(&manual::completions(*shell)),
        Command::Man { dir: None } => show::raw(&manual::page()?),
        Command::Man { dir: Some(dir) } => Ok(manual::pages(dir)?),
    }
}

/// `linerate check`: the topology, or every error.
fn check(args: &CheckArgs, control: Option<&Path>) -> anyhow::Result<()> {
    match (config::read(&args.config, &host::Host::here(), control), args.show.output) {
        (Ok(topology), output) => show::print(&topology, output, |topology| format!("ok\n{topology}")),
        (Err(errors), Output::Table) => Err(errors.into()),
        (Err(errors), Output::Json) => {
            show::line(&serde_json::to_string_pretty(&errors)?)?;
            Err(errors.into())
        }
    }
}
