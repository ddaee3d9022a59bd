//! `linerate serve sockets`: the sockets of a stack for other processes, on one thread or on several workers.

use crate::args::serve::{Accept, SocketsArgs};
use crate::commands::cpu;
use crate::commands::end::{still_there, texts};
use crate::commands::workers::Hosts;
use console::Diagnostic;
use host::Report;
use serde::Serialize;
use service::{AcceptPolicy, Service, ServiceOptions, SlowPath, Statistics};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Instant;

/// Role of the port, in errors and as its default name.
const ROLE: &str = "sockets";

/// Result of a run.
#[derive(Debug, Serialize)]
struct Summary {
    seconds: f64,
    clients: u64,
    /// Connections opened by clients, and accepted by them.
    connected: u64,
    accepted: u64,
    /// Connections that ended otherwise than by both sides closing.
    aborted: u64,
    datagrams_dropped: u64,
    /// Clients that left, by reason.
    left: BTreeMap<String, u64>,
    /// Counters of the stacks that are not zero.
    counters: BTreeMap<&'static str, u64>,
    /// Connections of each worker, if there are several.
    workers: Vec<WorkerSummary>,
}

/// Connections of one worker.
#[derive(Debug, Serialize)]
struct WorkerSummary {
    connected: u64,
    accepted: u64,
}

/// Runs the service until a signal, and prints the summary.
pub(crate) fn run(args: &SocketsArgs) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    // Before a worker is pinned.
    let affinity = rustix::thread::sched_getaffinity(None)?;
    args.workers.only_unified()?;
    let mut hosts = Hosts::open(&args.end, &args.workers, ROLE, |_| ())?;
    let accept = match args.accept {
        Accept::Locked => AcceptPolicy::Locked,
        Accept::RoundRobin => AcceptPolicy::RoundRobin,
        Accept::Own => AcceptPolicy::OwnWithStealing,
    };
    let options = ServiceOptions { accept, on_client: console::note, ..ServiceOptions::default() };
    let (mut slow_path, mut services) = SlowPath::new(options, args.workers.count())?;
    listen(&mut slow_path, &args.listen)?;
    let name = hosts.name();
    let reports = if hosts.connect(&stop) {
        let began = Instant::now();
        let slow_path = cpu::with_affinity(&affinity, || slow_path.start())?;
        console::note(&greeting(&name, args));
        let reports = hosts.run_unified(&mut services, &stop);
        let seconds = began.elapsed().as_secs_f64();
        let summary = Summary::new(seconds, slow_path.finish(), &services, &reports);
        console::print(&summary, args.output, Summary::text)?;
        reports
    } else {
        hosts.close()
    };
    // Removed only at the end, so that a path always leads to this service.
    std::fs::remove_file(&args.listen)?;
    Ok(reports.iter().try_for_each(|report| still_there(&name, report))?)
}

fn greeting(name: &str, args: &SocketsArgs) -> String {
    let workers = match args.workers.count() {
        1 => String::new(),
        count => format!(" with {count} workers"),
    };
    let addresses = texts(&args.end.addresses);
    format!("{name} serves sockets at {} for {addresses}{workers}", args.listen.display())
}

/// Creates the Unix socket. One that no process listens on any more is replaced.
fn listen(slow_path: &mut SlowPath, path: &Path) -> anyhow::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let place = format!("--listen {}", path.display());
    slow_path.listen(path).map_err(|error| {
        Diagnostic::bad(place, format!("cannot create the socket: {error}"), "choose another path").into()
    })
}

impl Summary {
    fn new(seconds: f64, mut total: Statistics, services: &[Service], reports: &[Report]) -> Self {
        let mut report = Report::default();
        for of_worker in reports {
            report.add(of_worker);
        }
        let each = || services.iter().map(Service::statistics);
        for of_worker in each() {
            total.add(of_worker);
        }
        let Statistics { clients, connected, accepted, aborted, datagrams_dropped, left } = total;
        let workers = each().map(|Statistics { connected, accepted, .. }| WorkerSummary {
            connected: *connected,
            accepted: *accepted,
        });
        let named = report.counters.named().chain(report.spread.named());
        Self {
            seconds,
            clients,
            connected,
            accepted,
            aborted,
            datagrams_dropped,
            left: left.iter().map(|(fault, count)| (fault.to_string(), *count)).collect(),
            counters: named.filter(|(_, value)| *value > 0).collect(),
            workers: workers.filter(|_| services.len() > 1).collect(),
        }
    }

    fn text(&self) -> String {
        let Self { seconds, clients, connected, accepted, aborted, .. } = self;
        let mut text = format!(
            "{clients} clients in {seconds:.1} s; {connected} connections opened, {accepted} accepted, {aborted} aborted\n"
        );
        let left = self.left.iter().map(|(reason, count)| (reason.as_str(), count));
        for (name, value) in left.chain(self.counters.iter().map(|(name, value)| (*name, value))) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<28} {value:>14}");
        }
        for (index, WorkerSummary { connected, accepted }) in self.workers.iter().enumerate() {
            let _ = writeln!(text, "worker {index}: {connected} connections opened, {accepted} accepted");
        }
        text
    }
}
