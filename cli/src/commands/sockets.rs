//! `linerate serve sockets`: the sockets of a stack for other processes, on one thread or on several workers.

use crate::api::control::{self, SocketClaim};
use crate::args::serve::{Accept, AccessArgs, SocketsArgs};
use crate::commands::counters::{NonZero, line};
use crate::commands::cpu;
use crate::commands::end::{still_there, texts};
use crate::commands::workers::Hosts;
use crate::settings::access::Access;
use console::Diagnostic;
use host::{Activity, Report};
use serde::Serialize;
use service::{AcceptPolicy, Service, ServiceOptions, SlowPath, Statistics};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// Role of the port, in errors and as its default name.
const ROLE: &str = "sockets";

/// Result of `linerate serve sockets`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SocketsSummary)]
pub(crate) struct Summary {
    /// Duration of the run in seconds.
    seconds: f64,
    /// Clients that came.
    clients: u64,
    /// Connections opened by clients.
    connected: u64,
    /// Connections accepted by clients.
    accepted: u64,
    /// Connections that ended otherwise than by both sides closing.
    aborted: u64,
    /// Datagrams dropped because a client did not take them.
    datagrams_dropped: u64,
    /// Clients that left, by reason.
    left: BTreeMap<String, u64>,
    /// Counters of stack, loop and shared port that are not zero.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    counters: NonZero,
    /// Connections of each worker; empty with one worker.
    workers: Vec<WorkerSummary>,
}

/// Connections of one worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SocketsWorker)]
pub(crate) struct WorkerSummary {
    /// Connections opened by clients.
    connected: u64,
    /// Connections accepted by clients.
    accepted: u64,
}

/// Runs the service until a signal, and prints the summary.
pub(crate) fn run(args: &SocketsArgs) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    // Before a worker is pinned.
    let affinity = rustix::thread::sched_getaffinity(None)?;
    args.workers.only_unified()?;
    let mut hosts = Hosts::open(&args.end, &args.workers, ROLE, |_| ())?;
    // Dropped after the hosts, which `run` and `close` consume, so that the path leads to this service while it runs.
    let (_claim, listener) = listen(args)?;
    let (slow_path, mut services) = create(args, listener, hosts.activity())?;
    let name = hosts.name();
    let reports = if hosts.connect(&stop) {
        let began = Instant::now();
        let slow_path = cpu::with_affinity(&affinity, || slow_path.start());
        let slow_path = slow_path.map_err(|error| failed(error, "end processes that are not needed"))?;
        console::note(&greeting(&name, args));
        let reports = hosts.run_unified(&mut services, &stop);
        let seconds = began.elapsed().as_secs_f64();
        let summary = Summary::new(seconds, slow_path.finish(), &services, &reports);
        console::print(&summary, args.show.output, Summary::text)?;
        reports
    } else {
        hosts.close()
    };
    Ok(reports.iter().try_for_each(|report| still_there(&name, report))?)
}

/// Creates the Unix socket, with the access of the command line.
fn listen(args: &SocketsArgs) -> Result<(SocketClaim, UnixListener), Diagnostic> {
    let AccessArgs { mode, owner, group } = args.access.clone();
    let (claim, listener) = control::claim(&args.listen, control::LISTEN)?;
    let place = format!("--listen {}", args.listen.display());
    let remedy = "run the service as root or as a member of the group, or leave --owner and --group out";
    Access::new(mode, owner, group).apply(&args.listen, place, remedy)?;
    Ok((claim, listener))
}

/// Creates the service, with a part for each worker.
fn create(
    args: &SocketsArgs,
    listener: UnixListener,
    activity: Option<Arc<Activity>>,
) -> Result<(SlowPath, Vec<Service>), Diagnostic> {
    let accept = match args.accept {
        Accept::Locked => AcceptPolicy::Locked,
        Accept::RoundRobin => AcceptPolicy::RoundRobin,
        Accept::Own => AcceptPolicy::OwnWithStealing,
    };
    let options = ServiceOptions { accept, on_client: console::note, activity, ..ServiceOptions::default() };
    let created = SlowPath::new(options, args.workers.count()).and_then(|(mut slow_path, services)| {
        slow_path.listen(listener)?;
        Ok((slow_path, services))
    });
    created.map_err(|error| failed(error, "use fewer --workers, or raise the limit of open files"))
}

fn failed(error: io::Error, remedy: &str) -> Diagnostic {
    Diagnostic::failed("linerate serve sockets", error, remedy)
}

fn greeting(name: &str, args: &SocketsArgs) -> String {
    let (addresses, workers) = (texts(&args.end.addresses), args.workers.text());
    format!("{name} serves sockets at {} for {addresses}{workers}", args.listen.display())
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
        Self {
            seconds,
            clients,
            connected,
            accepted,
            aborted,
            datagrams_dropped,
            left: left.iter().map(|(fault, count)| (fault.to_string(), *count)).collect(),
            counters: NonZero::of(report.named()),
            workers: workers.filter(|_| services.len() > 1).collect(),
        }
    }

    fn text(&self) -> String {
        let Self { seconds, clients, connected, accepted, aborted, .. } = self;
        let mut text = format!(
            "{clients} clients in {seconds:.1} s; {connected} connections opened, {accepted} accepted, {aborted} aborted\n"
        );
        self.left.iter().for_each(|(reason, count)| line(&mut text, reason, *count, ""));
        self.counters.write(&mut text);
        for (index, WorkerSummary { connected, accepted }) in self.workers.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "worker {index}: {connected} connections opened, {accepted} accepted");
        }
        text
    }
}
