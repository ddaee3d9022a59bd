//! `linerate load`: a TCP client that loads a server, over a port of any kind with its own TCP/IP stack on one thread,
//! or with several on workers.
//!
//! `shown` displays the progress of a run, `report` prints its results, and `page` draws them.

mod page;
mod report;
mod shown;
#[cfg(test)]
mod tests;

use crate::args::end::SteeringRule;
use crate::args::load::{ClientArgs, EchoArgs, HttpArgs, KvArgs, LoadCommand};
use crate::commands::end::{self, still_there, texts};
use crate::commands::workers::Hosts;
use console::Diagnostic;
use console::written::{Format, OutFiles};
use host::Report as HostReport;
pub(crate) use report::Report;
use serve::load::{
    EchoLoad, HttpLoad, KvLoad, KvOptions, Load, LoadError, LoadOptions, Mode, Results, Spacing, Team,
    Workload,
};
use shown::Shown;
use stack::tcp::Options;
use stack::{Address, Cidr};
use std::sync::Arc;

/// Role of the port, in errors and as its default name.
const ROLE: &str = "client";
/// Ports of a source address.
const PORTS: u32 = 64_512;
/// Ports of a source address that are used if workers divide them, by the hash of their flows: the shares differ.
const DIVIDED_PORTS: u32 = PORTS / 8 * 7;

/// Runs a client.
pub(crate) fn run(command: &LoadCommand) -> anyhow::Result<()> {
    match command {
        LoadCommand::Echo(EchoArgs { client, size, no_check }) => {
            let text = format!("echo, {size} bytes");
            drive(client, |_| Ok(EchoLoad::new(*size, !no_check)), text)
        }
        LoadCommand::Http(HttpArgs { client, paths, host }) => {
            let host = host.clone().unwrap_or_else(|| client.to.to_string());
            let remedy = "give paths such as --path /index.html, and a host name such as --host example.org";
            let load = |_| {
                HttpLoad::new(&host, paths).map_err(|error| Diagnostic::bad("the request", error, remedy))
            };
            drive(client, load, format!("http, GET {}", paths.join(", ")))
        }
        LoadCommand::Kv(args) => {
            let KvArgs { client, keys, distribution, size, gets, no_fill, seed } = args;
            let load = |worker: usize| {
                Ok(KvLoad::new(KvOptions {
                    keys: *keys,
                    distribution: *distribution,
                    value_size: *size,
                    gets: gets / 100.0,
                    // The rounds of all workers begin after it.
                    fill: !no_fill && worker == 0,
                    seed: seed.wrapping_add(worker as u64),
                }))
            };
            drive(client, load, format!("kv, {gets} % get, {keys} keys, values of {size} bytes"))
        }
    }
}

/// Runs the workload of each worker, and prints and writes the results.
fn drive<W: Workload + Send>(
    args: &ClientArgs,
    workload: impl Fn(usize) -> Result<W, Diagnostic>,
    text: String,
) -> anyhow::Result<()> {
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json, Format::Html, Format::Svg])?;
    let count = args.workers.count();
    let workloads = (0..count).map(workload).collect::<Result<Vec<_>, _>>()?;
    let mut own = args.end.clone();
    let sources = sources(args)?;
    validate(args)?;
    own.addresses.extend(sources.iter().filter(|source| !args.end.addresses.contains(source)));
    let stop = console::stop_on_signals()?;
    let limit = end::with_margin(args.connections.div_ceil(count as u32));
    let mut hosts =
        Hosts::open(&own, &args.workers, ROLE, |options| options.stack.limits.connections = limit)?;
    let name = hosts.name();
    if !hosts.connect(&stop) {
        return Ok(hosts.close().iter().try_for_each(|report| still_there(&name, report))?);
    }
    let (team, sums) = (Team::new(count, stop.clone()), Arc::default());
    let mut clients = Vec::with_capacity(count);
    for (worker, (workload, host)) in workloads.into_iter().zip(hosts.hosts()).enumerate() {
        let (options, now) = (share(&options(args, &sources), worker, count), host.now());
        let load = Load::of_team(workload, options, team.clone(), host.stack(), now);
        clients.push(Shown::new(load.map_err(|error| failed(&error))?, args, worker, &sums));
    }
    console::note(&format!("{name} loads {} from {}", args.to, texts(&own.addresses)));
    let reports = hosts.run(&mut clients, &stop)?;
    report(args, text, &outputs, clients, &reports)
}

/// Joins the results of the workers, and prints and writes them.
fn report<W: Workload>(
    args: &ClientArgs,
    text: String,
    outputs: &OutFiles,
    clients: Vec<Shown<W>>,
    reports: &[HostReport],
) -> anyhow::Result<()> {
    let (mut results, mut error, mut host) = (None::<Results>, None, HostReport::default());
    for client in clients {
        let (load, now) = client.end();
        let own = load.results(now);
        error = error.or_else(|| load.error().cloned());
        match &mut results {
            Some(results) => results.join(&own),
            None => results = Some(own),
        }
    }
    for of_worker in reports {
        host.add(of_worker);
    }
    let results = results.unwrap_or_default();
    let ended = ended(&results, error.as_ref());
    // Without a round there is nothing to show but the error.
    if !results.rounds.is_empty() || ended.is_none() {
        let report = Report::new(args, text, results, ended.as_ref(), &host);
        console::print(&report, args.result.show.output, Report::text)?;
        outputs.json(&report)?;
        outputs.write(Format::Html, || page::page(&report))?;
        outputs.figures(|| page::figures(&report))?;
    }
    ended.map_or(Ok(()), |error| Err(error.into()))
}

/// Checks what workers need: connections for each, and replies that reach the worker of their connection.
fn validate(args: &ClientArgs) -> Result<(), Diagnostic> {
    let count = args.workers.count();
    args.workers.only_fixed("the connections are divided among all workers")?;
    if args.connections < count as u32 {
        let (place, reason) = (format!("--workers {count}"), "each worker needs a connection");
        return Err(Diagnostic::bad(place, reason, format!("write --connections {count} or more")));
    }
    if count > 1 && args.workers.steering == SteeringRule::Arrival {
        let reason = "the worker at which replies to a port arrive is not known before the port is chosen";
        return Err(Diagnostic::bad("--steering arrival", reason, "leave --steering out"));
    }
    Ok(())
}

/// The part of a worker: its share of the connections and rates.
fn share(all: &LoadOptions, worker: usize, count: usize) -> LoadOptions {
    let (worker, count) = (worker as u32, count as u32);
    let part = f64::from(count).recip();
    let mode = match all.mode {
        Mode::Open { rate, spacing: Spacing::Poisson(seed) } => {
            let spacing = Spacing::Poisson(seed.wrapping_add(worker.into()));
            Mode::Open { rate: rate * part, spacing }
        }
        Mode::Open { rate, spacing } => Mode::Open { rate: rate * part, spacing },
        closed @ Mode::Closed { .. } => closed,
    };
    LoadOptions {
        connections: all.connections / count + u32::from(worker < all.connections % count),
        mode,
        handshakes: (all.handshakes / count).max(1),
        connect_rate: all.connect_rate.map(|rate| rate * part),
        ..all.clone()
    }
}

fn options(args: &ClientArgs, sources: &[Cidr]) -> LoadOptions {
    let mode = match args.pace.rate {
        Some(rate) => Mode::Open { rate, spacing: args.pace.spacing },
        None => Mode::Closed { think: args.pace.think.0 },
    };
    LoadOptions {
        sources: sources.iter().map(|source| source.address).collect(),
        depth: args.pace.depth,
        mode,
        requests_per_connection: args.pace.requests_per_connection,
        connect_rate: args.pace.connect_rate,
        warm_up: args.run.warm_up.0,
        rounds: args.run.rounds,
        timeout: args.run.timeout.0,
        tcp: Options { no_delay: true, ..args.end.tcp.options() },
        ..LoadOptions::closed(args.to.into(), args.connections, args.run.duration.0)
    }
}

/// The source addresses: the first one of the server's IP version, preferably of its network, and those that follow.
fn sources(args: &ClientArgs) -> Result<Vec<Cidr>, Diagnostic> {
    let server = Address::from(args.to.ip());
    let mut own = args.end.addresses.iter().filter(|own| own.address.is_v4() == server.is_v4());
    let first = own.clone().find(|own| own.contains(server)).or_else(|| own.next());
    let Some(first) = first else {
        let reason = "no --address has the IP version of the server";
        return Err(Diagnostic::bad(format!("--to {}", args.to), reason, "add an --address of its version"));
    };
    let place = || format!("--sources {}", args.sources);
    let ports = if args.workers.count() > 1 { DIVIDED_PORTS } else { PORTS };
    let needed = args.connections.div_ceil(ports);
    if needed > u32::from(args.sources) {
        let reason = format!("{} connections need {needed} source addresses", args.connections);
        return Err(Diagnostic::bad(place(), reason, format!("write --sources {needed}")));
    }
    let word = u128::from_be_bytes(*first.address.octets());
    let sources: Vec<Cidr> = (0..args.sources)
        .map(|n| Cidr {
            address: Address::v6(word.wrapping_add(n.into()).to_be_bytes()),
            prefix: first.prefix,
        })
        .collect();
    let wrong = |own: &&Cidr| !first.contains(own.address) || own.address == server;
    match sources.iter().find(wrong) {
        None => Ok(sources),
        Some(wrong) => {
            let reason = format!("{} is not in {first}, or is the server", wrong.address);
            Err(Diagnostic::bad(place(), reason, "choose an --address with enough free addresses behind it"))
        }
    }
}

/// Error of a run.
fn failed(error: &LoadError) -> Diagnostic {
    let remedy = match error {
        LoadError::TooLong { .. } => {
            return Diagnostic::bad("the requests", error, "choose a smaller --depth or --size");
        }
        LoadError::Connect(_) => "start the server, and check address and port of --to",
        LoadError::NoAnswer(_) => {
            "check --to, --address and --gateway, and that the server's host is on the link"
        }
        LoadError::NoReply(_) => "check the server, or give it more time with --timeout",
        LoadError::NoRoute => "add a --gateway, or an --address in the network of the server",
        LoadError::PortLost { .. } => "see the messages of the other end of the port, and run it again",
    };
    Diagnostic::failed("linerate load", error, remedy)
}

/// Error of a run that has results: it ended early, or requests failed.
fn ended(results: &Results, error: Option<&LoadError>) -> Option<Diagnostic> {
    if let Some(error) = error {
        return Some(failed(error));
    }
    let of_load = |reason: String, remedy: &str| Some(Diagnostic::failed("linerate load", reason, remedy));
    if !results.is_complete {
        return Some(Diagnostic::interrupted("linerate load"));
    }
    let requests = &results.requests;
    let reasons = requests.failed.iter().map(|(reason, count)| format!("{count} {reason}"));
    // A wrong reply of the warm-up is a failure too.
    let reasons: Vec<_> =
        reasons.chain(results.wrong_reply.iter().map(|wrong| format!("first {wrong}"))).collect();
    if !reasons.is_empty() {
        return of_load(
            format!("requests failed: {}", reasons.join(", ")),
            "see the server's log, and lower the load",
        );
    }
    if requests.error_replies > 0 {
        let reason = format!("{} of {} replies report an error", requests.error_replies, requests.answered);
        return of_load(reason, "check the request, and see the server's log");
    }
    None
}
