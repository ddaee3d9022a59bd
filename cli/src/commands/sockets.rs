//! `linerate serve sockets`: the sockets of a stack for other processes.

use crate::args::serve::{Accept, SocketsArgs};
use crate::commands::end::{End, still_there, texts};
use console::Diagnostic;
use serde::Serialize;
use service::{AcceptPolicy, Service, ServiceOptions, Statistics};
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
    /// Counters of the stack that are not zero.
    counters: BTreeMap<&'static str, u64>,
}

/// Runs the service until a signal, and prints the summary.
pub(crate) fn run(args: &SocketsArgs) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    let mut end = End::open(&args.end, ROLE, |_| ())?;
    let accept = match args.accept {
        Accept::Locked => AcceptPolicy::Locked,
        Accept::RoundRobin => AcceptPolicy::RoundRobin,
        Accept::Own => AcceptPolicy::OwnWithStealing,
    };
    let options = ServiceOptions { accept, on_client: console::note, ..ServiceOptions::default() };
    let mut service = Service::new(options)?;
    listen(&mut service, &args.listen)?;
    let addresses = texts(&args.end.addresses);
    let report = if end.connect(&stop) {
        let began = Instant::now();
        console::note(&format!("{} serves sockets at {} for {addresses}", end.name, args.listen.display()));
        end.host.run(&mut service, &stop);
        let report = end.host.close();
        let counters = report.counters.named().filter(|(_, value)| *value > 0).collect();
        let summary = Summary::new(began.elapsed().as_secs_f64(), service.statistics(), counters);
        console::print(&summary, args.output, Summary::text)?;
        report
    } else {
        end.host.close()
    };
    // Removed only at the end, so that a path always leads to this service.
    std::fs::remove_file(&args.listen)?;
    Ok(still_there(&end.name, &report)?)
}

/// Creates the Unix socket. One that no process listens on any more is replaced.
fn listen(service: &mut Service, path: &Path) -> anyhow::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let place = format!("--listen {}", path.display());
    service.listen(path).map_err(|error| {
        Diagnostic::bad(place, format!("cannot create the socket: {error}"), "choose another path").into()
    })
}

impl Summary {
    fn new(seconds: f64, statistics: &Statistics, counters: BTreeMap<&'static str, u64>) -> Self {
        let Statistics { clients, connected, accepted, aborted, datagrams_dropped, left } = statistics;
        Self {
            seconds,
            clients: *clients,
            connected: *connected,
            accepted: *accepted,
            aborted: *aborted,
            datagrams_dropped: *datagrams_dropped,
            left: left.iter().map(|(fault, count)| (fault.to_string(), *count)).collect(),
            counters,
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
        text
    }
}
