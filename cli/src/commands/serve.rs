//! `linerate serve`: a TCP server on a port of any kind, with its own TCP/IP stack on one thread.

use crate::args::end::EndArgs;
use crate::args::serve::{ServeCommand, ServerArgs};
use crate::commands::end::{End, any, texts};
use crate::commands::workers::WorkerSet;
use console::{Diagnostic, units};
use host::{App, Host, Remote, Report};
use serde::Serialize;
use serve::{Discard, Echo, Served, Server, Source};
use stack::Endpoint;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// Role of the port, in errors and as its default name.
const ROLE: &str = "server";

/// Result of a run.
#[derive(Debug, Serialize)]
struct Summary {
    seconds: f64,
    /// Connections accepted, and those that ended otherwise than by both sides closing.
    connections: u64,
    aborted: u64,
    datagrams: u64,
    /// Payload bytes received and sent.
    bytes_received: u64,
    bytes_sent: u64,
    /// Rounds with work and without, and sleeps.
    busy_rounds: u64,
    idle_rounds: u64,
    sleeps: u64,
    /// Frames that the port accepted and lost.
    dropped_by_port: u64,
    faults: u64,
    /// Counters of the stack that are not zero.
    counters: BTreeMap<&'static str, u64>,
}

/// Runs a server.
pub(crate) fn run(command: &ServeCommand) -> anyhow::Result<()> {
    match command {
        ServeCommand::Echo(args) => serve_any::<Echo>(args),
        ServeCommand::Discard(args) => serve_any::<Discard>(args),
        ServeCommand::Source(args) => serve_any::<Source>(args),
    }
}

/// Runs a server in the thread model and on the workers of the command line.
fn serve_any<S: Server + App<Remote> + Default + Send>(args: &ServerArgs) -> anyhow::Result<()> {
    if args.workers.is_single() {
        return serve(args, S::default());
    }
    let stop = console::stop_on_signals()?;
    let mut set =
        WorkerSet::open(&args.end, &args.workers, ROLE, |options| options.stack.tcp.no_delay = true)?;
    let tcp_port = args.tcp_port.unwrap_or(S::TCP_PORT);
    let mut servers: Vec<S> = (0..args.workers.count()).map(|_| S::default()).collect();
    for (host, server) in set.workers.hosts().iter_mut().zip(&mut servers) {
        listen(host, server, &args.end, tcp_port)?;
    }
    if !set.connect(&stop) {
        set.workers.close();
        return Ok(());
    }
    let (addresses, count) = (texts(&args.end.addresses), servers.len());
    console::note(&format!("{} serves port {tcp_port} at {addresses} with {count} workers", set.name));
    let began = Instant::now();
    let reports = set.run(&mut servers, &stop)?;
    let counted: Vec<_> = servers.iter().map(Server::served).zip(reports).collect();
    let summary = WorkersSummary::new(began.elapsed().as_secs_f64(), &counted);
    console::print(&summary, args.output, WorkersSummary::text)
}

/// Runs `server` until a signal, and prints the summary.
fn serve<S: Server>(args: &ServerArgs, mut server: S) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    let mut end = End::open(&args.end, ROLE, |options| options.stack.tcp.no_delay = true)?;
    let tcp_port = args.tcp_port.unwrap_or(S::TCP_PORT);
    listen(&mut end.host, &mut server, &args.end, tcp_port)?;
    if !end.connect(&stop) {
        end.host.close();
        return Ok(());
    }
    let addresses = texts(&args.end.addresses);
    console::note(&format!("{} serves port {tcp_port} at {addresses}", end.name));
    let began = Instant::now();
    end.host.run(&mut server, &stop);
    let summary = Summary::new(began.elapsed().as_secs_f64(), server.served(), &end.host.close());
    console::print(&summary, args.output, Summary::text)
}

/// Listens at all addresses of each IP version that the host has.
fn listen<S: Server>(host: &mut Host, server: &mut S, end: &EndArgs, port: u16) -> Result<(), Diagnostic> {
    for is_v4 in [true, false] {
        if end.addresses.iter().any(|own| own.address.is_v4() == is_v4) {
            let listening = server.listen(host.stack(), Endpoint::new(any(is_v4), port));
            listening
                .map_err(|error| Diagnostic::failed("linerate serve", error, "choose another --tcp-port"))?;
        }
    }
    Ok(())
}

/// Result of a run with several workers.
#[derive(Debug, Serialize)]
struct WorkersSummary {
    #[serde(flatten)]
    total: Summary,
    workers: Vec<Summary>,
}

impl WorkersSummary {
    fn new(seconds: f64, counted: &[(Served, Report)]) -> Self {
        let (mut served, mut report) = (Served::default(), Report::default());
        for (of_worker, its_report) in counted {
            served.add(of_worker);
            report.add(its_report);
        }
        let total = Summary::new(seconds, served, &report);
        let workers = counted.iter().map(|(served, report)| Summary::new(seconds, *served, report));
        Self { total, workers: workers.collect() }
    }

    fn text(&self) -> String {
        let mut text = self.total.text();
        for (index, worker) in self.workers.iter().enumerate() {
            let [received, sent] = [worker.bytes_received, worker.bytes_sent].map(units::bytes);
            let connections = worker.connections;
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "worker {index}: {connections} connections, received {received}, sent {sent}");
        }
        text
    }
}

impl Summary {
    fn new(seconds: f64, served: Served, report: &Report) -> Self {
        let Served { connections, aborted, datagrams, received, sent } = served;
        let (busy_rounds, idle_rounds, sleeps) = report.rounds;
        Self {
            seconds,
            connections,
            aborted,
            datagrams,
            bytes_received: received,
            bytes_sent: sent,
            busy_rounds,
            idle_rounds,
            sleeps,
            dropped_by_port: report.dropped,
            faults: report.faults,
            counters: report
                .counters
                .named()
                .chain(report.spread.named())
                .filter(|(_, value)| *value > 0)
                .collect(),
        }
    }

    fn text(&self) -> String {
        let Self { seconds, connections, aborted, datagrams, bytes_received, bytes_sent, .. } = self;
        let [received, sent] = [*bytes_received, *bytes_sent].map(units::bytes);
        let mut text = format!(
            "{connections} connections in {seconds:.1} s, {aborted} aborted; {datagrams} datagrams; received {received}, \
             sent {sent}\n"
        );
        for (name, value) in &self.counters {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<28} {value:>14}");
        }
        text
    }
}
