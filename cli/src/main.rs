//! The `linerate` binary: parses arguments, executes one command and returns an exit code.
//!
//! Dependencies between modules: `settings` (converts a file to a topology) <- `dataplane` (converts a topology to a
//! running switch) <- `api` (servers and client of the control APIs) <- `commands` <- `reference` (generates pages from
//! all definitions). Below `settings`: `host` (properties of this machine), `remedy` (errors of libraries as
//! diagnostics), `socket_file` (files of listening sockets) and `grant` (the exchange by which a process asks another
//! one's switch for a port), `tls` (files for TLS), `takeover` (the exchange by which a process takes over the ports of
//! another one), and `web` (files and sessions of the web page). `args` defines the command line and depends on
//! `settings` and `log` only. `cli/tests/integration/layers.rs` has the permitted directions. This crate does not
//! process packets.

#![forbid(unsafe_code)]

mod api;
mod args;
mod causes;
mod commands;
mod dataplane;
mod event_log;
mod grant;
mod host;
mod log;
mod reference;
mod remedy;
mod settings;
mod socket_file;
mod takeover;
mod tls;
mod web;

use api::client::Client;
use api::endpoint::{Credentials, SCHEME};
use args::{Cli, Command};
use commands::{
    bench, bonds, bridges, capture, check, completion, config, connections, demo, doctor, events, extcap,
    generate, guest, import, laboratory, load, mirrors, multicast, ports, queues, run, serve, snippet, stack,
    top, trace, tunnels, upgrade, verbs,
};
use log::LogFormat;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing::Level;

fn main() -> ExitCode {
    console::manual::complete(completion::command);
    let cli = args::parse();
    cli.quiet.apply();
    let Err(error) = dispatch(&cli) else { return ExitCode::SUCCESS };
    let (code, text) = console::verdict("linerate", &error);
    if let Some(text) = text {
        eprintln!("{text}");
    }
    ExitCode::from(code)
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    // A path in a file must be absolute; a path on the command line may be relative to the working directory.
    let control = cli.control.control.as_ref();
    let is_address = |path: &PathBuf| path.to_str().is_some_and(|text| text.starts_with(SCHEME));
    let control = control.map(|path| match std::path::absolute(path) {
        Ok(absolute) if !is_address(path) => absolute,
        _ => path.clone(),
    });
    let control = control.as_deref();
    if cli.verbose && !matches!(cli.command, Command::Run(_)) {
        log::start(LogFormat::Text, Level::DEBUG, None)?;
    }
    let files = &cli.control.credentials;
    let client = || {
        Client::new(control).with(Credentials {
            ca: files.ca.clone(),
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            token_file: files.token_file.clone(),
        })
    };
    match &cli.command {
        Command::Run(args) => run::run(args, cli.verbose, control),
        Command::Check(args) => check::run(args, control),
        Command::Apply(args) => config::apply(args, &client()),
        Command::Upgrade(args) => upgrade::run(args, &client()),
        Command::Config(command) => config::run(&client(), command),
        Command::Import(command) => import::run(command),
        Command::Snippet(args) => console::line(&snippet::run(args, control, &client())?),
        Command::Status(args) => verbs::status(&client(), args.output),
        Command::Doctor(args) => doctor::run(args, &client()),
        Command::Top(args) => top::run(args, &client()),
        Command::Ports(command) => ports::run(&client(), command),
        Command::Events(args) => events::run(args, &client()),
        Command::Capture(args) => capture::run(args, &client()),
        Command::Extcap(args) => extcap::run(args, &client()),
        Command::Bridges(command) => bridges::run(&client(), command),
        Command::Bonds(command) => bonds::run(&client(), command),
        Command::Neighbors(command) => verbs::neighbors(&client(), command),
        Command::Offload(command) => verbs::kernel_fast_path(&client(), command),
        Command::Fdb(command) => verbs::fdb(&client(), command),
        Command::Flows(command) => verbs::flows(&client(), command),
        Command::Ct(command) => connections::run(&client(), command),
        Command::Mirrors(command) => mirrors::run(&client(), command),
        Command::Queues(command) => queues::run(&client(), command),
        Command::Export(command) => verbs::export(&client(), command),
        Command::Multicast(command) => multicast::run(&client(), command),
        Command::Tunnels(command) => tunnels::run(&client(), command),
        Command::Trace(args) => trace::run(args, &client()),
        Command::Workers(command) => verbs::workers(&client(), command),
        Command::Placement(command) => verbs::placement(&client(), command),
        Command::Rebalance(args) => verbs::rebalance(&client(), args),
        Command::Stop => verbs::stop(&client()),
        Command::Demo(args) => demo::run(args),
        Command::Guest(args) => guest::run(args),
        Command::Gen(args) => generate::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Load(args) => load::run(args),
        Command::Stack(command) => stack::run(command, control),
        Command::Bench(args) => bench::run(args),
        Command::Supervise(args) => bench::supervise::run(args),
        Command::Lab { arguments } => laboratory::run(arguments),
        Command::Completions { shell } => console::manual::completions("linerate", *shell),
        Command::Man { out } => reference::manual::write(args::command(), out.as_deref()),
        Command::Reference { dir } => reference::write(dir),
    }
}
