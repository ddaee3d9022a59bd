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
mod guest;
mod host;
mod kinds;
mod laboratory;
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

use api::client::Client;
use args::{BridgesCommand, CheckArgs, Cli, Command};
use clap::{CommandFactory, Parser};
use console::Output;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Err(error) = dispatch(&cli) else { return ExitCode::SUCCESS };
    let (code, text) = verdict(&error);
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
        Command::Snippet(args) => console::line(&snippet::run(args, control)?),
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
        Command::Lab { arguments } => laboratory::run(arguments),
        Command::Completions { shell } => {
            console::raw(&console::manual::completions(&mut Cli::command(), *shell))
        }
        Command::Man { dir } => console::manual::man(Cli::command(), dir.as_deref()),
    }
}

/// The exit code of an error, and its text.
fn verdict(error: &anyhow::Error) -> (u8, Option<String>) {
    match error.downcast_ref::<config::ConfigErrors>() {
        Some(errors) => (console::BAD_INPUT, Some(errors.to_string())),
        None => console::verdict("linerate", error),
    }
}

/// `linerate check`: the topology, or every error.
fn check(args: &CheckArgs, control: Option<&Path>) -> anyhow::Result<()> {
    match (config::read(&args.config, &host::Host::here(), control), args.show.output) {
        (Ok(topology), output) => console::print(&topology, output, |topology| format!("ok\n{topology}")),
        (Err(errors), Output::Table) => Err(errors.into()),
        (Err(errors), Output::Json) => {
            console::line(&serde_json::to_string_pretty(&errors)?)?;
            Err(errors.into())
        }
    }
}
