//! `linerate stack`: connections, counters and captures of a running program with a TCP/IP stack.

mod capture;
mod tables;

use crate::api::client::{Client, query};
use crate::api::stack::model::{ConnectionsReport, CountersReport};
use crate::args::stack::{ConnectionsArgs, CountersArgs, StackCommand};
use console::Diagnostic;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Runs a command for the program whose control socket is `socket`.
pub(crate) fn run(command: &StackCommand, socket: Option<&Path>) -> anyhow::Result<()> {
    let client = client(socket)?;
    match command {
        StackCommand::Show(args) => show(&client, args),
        StackCommand::Counters(args) => counters(&client, args),
        StackCommand::Capture(args) => capture::run(&client, args),
    }
}

fn client(socket: Option<&Path>) -> Result<Client, Diagnostic> {
    let remedy = "start the program with --control PATH, and name the same path here";
    let missing = || Diagnostic::bad("--control", "no control socket is given", remedy);
    socket.map(Client::of_stack).ok_or_else(missing)
}

fn show(client: &Client, args: &ConnectionsArgs) -> anyhow::Result<()> {
    let given = [
        ("limit", Some(args.limit.to_string())),
        ("port", args.port.map(|port| port.to_string())),
        ("remote", args.remote.map(|end| end.to_string())),
    ];
    let report: ConnectionsReport = client.get(&format!("/v1/stack/connections?{}", query(given)))?;
    if let Some(remote) = args.remote.filter(|_| report.connections.is_empty()) {
        return Err(capture::unknown(remote).into());
    }
    console::print(&report, args.show.output, tables::connections)
}

/// Counters, with their differences over an interval.
#[derive(Debug, Serialize)]
struct Counted {
    #[serde(flatten)]
    report: CountersReport,
    #[serde(flatten)]
    interval: Option<Interval>,
}

/// Differences of counters.
#[derive(Debug, Serialize)]
struct Interval {
    seconds: f64,
    deltas: BTreeMap<String, u64>,
}

fn counters(client: &Client, args: &CountersArgs) -> anyhow::Result<()> {
    let read = || client.get::<CountersReport>("/v1/stack/counters");
    let (first, began) = (read()?, Instant::now());
    let Some(interval) = args.interval else {
        return console::print(
            &Counted { report: first, interval: None },
            args.show.output,
            tables::counters,
        );
    };
    // After a signal, the differences are those over the time until it.
    let stop = console::stop_on_signals()?;
    console::sleep(interval.0, &stop);
    let (report, seconds) = (read()?, began.elapsed().as_secs_f64());
    let before = |name: &String| first.counters.get(name).copied().unwrap_or(0);
    let delta = |(name, value): (&String, &u64)| (name.clone(), value.saturating_sub(before(name)));
    let deltas = report.counters.iter().map(delta).collect();
    console::print(
        &Counted { report, interval: Some(Interval { seconds, deltas }) },
        args.show.output,
        tables::counters,
    )
}
