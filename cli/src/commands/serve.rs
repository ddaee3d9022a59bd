//! `linerate serve`: a TCP server on a port of any kind, with its own TCP/IP stack on one thread, or with several on
//! workers.

use crate::args::end::EndArgs;
use crate::args::serve::{FileMode, Forwarding, HttpArgs, KvArgs, ProxyArgs, ServeCommand, ServerArgs};
use crate::commands::counters::NonZero;
use crate::commands::end::{self, any, still_there, texts};
use crate::commands::sockets;
use crate::commands::workers::Hosts;
use anyhow::Context;
use console::{Diagnostic, units};
use files::Submission;
use host::{Host, Options, Report};
use serde::Serialize;
use serve::http::{Http, HttpError, HttpOptions, RECEIVE_BUFFER};
use serve::{Discard, Echo, Forward, Kv, KvLinks, KvOptions, Proxy, ProxyOptions, Served, Server, Source};
use stack::{Address, Endpoint};
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// Role of the port, in errors and as its default name.
const ROLE: &str = "server";
/// Default limit of connections of a worker, of servers that hold much memory for each.
const CONNECTIONS: u32 = 1024;

/// Time without requests after which a kernel thread for files sleeps.
const SQPOLL_IDLE: Duration = Duration::from_millis(10);

/// Result of `linerate serve`, except of `sockets`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServeSummary)]
pub(crate) struct Summary {
    /// Duration of the run in seconds.
    seconds: f64,
    /// Connections accepted.
    connections: u64,
    /// Connections that ended otherwise than by both sides closing.
    aborted: u64,
    /// Datagrams received.
    datagrams: u64,
    /// Payload bytes received.
    bytes_received: u64,
    /// Payload bytes sent.
    bytes_sent: u64,
    /// Counters of stack, loop, shared port and server that are not zero.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    counters: NonZero,
    /// The same fields of each worker; absent with one worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    workers: Vec<Summary>,
}

/// Runs a server.
pub(crate) fn run(command: &ServeCommand) -> anyhow::Result<()> {
    match command {
        ServeCommand::Echo(args) => serve::<Echo>(args),
        ServeCommand::Discard(args) => serve::<Discard>(args),
        ServeCommand::Source(args) => serve::<Source>(args),
        ServeCommand::Http(args) => http(args),
        ServeCommand::Kv(args) => kv(args),
        ServeCommand::Proxy(args) => proxy(args),
        ServeCommand::Sockets(args) => sockets::run(args),
    }
}

/// Runs the HTTP server.
fn http(args: &HttpArgs) -> anyhow::Result<()> {
    let mut options = HttpOptions::new(&args.directory);
    options.files = match args.files {
        FileMode::Direct => files::Mode::Direct,
        FileMode::Cached => files::Mode::Cached,
        FileMode::Copy => files::Mode::Copy,
    };
    options.submission = submission(args)?;
    options.limits.connections = args.server.max_connections.unwrap_or(options.limits.connections);
    (options.memory.small, options.memory.cache) = (args.small as u64, args.cache as u64);
    options.memory.blocks = args.blocks / options.memory.block;
    let connections = options.limits.connections;
    let adjust = |options: &mut Options| {
        options.stack.limits.receive_buffer = RECEIVE_BUFFER;
        hold(options, connections);
    };
    // Before the port is opened, so that an invalid directory has no effect.
    let server = || Http::new(options.clone()).map_err(refused);
    let servers = (0..args.server.workers.count()).map(|_| server()).collect::<Result<Vec<_>, _>>()?;
    if let Some(error) = servers.iter().find_map(Http::refused) {
        console::note(&format!(
            "--sqpoll: the kernel refuses a thread: {error}; requests for files need system calls"
        ));
    }
    let mut servers = servers.into_iter();
    serve_with(&args.server, adjust, |_| servers.next().context("each worker has a server"))
}

/// How requests for files reach the kernel.
fn submission(args: &HttpArgs) -> Result<Submission, Diagnostic> {
    match (args.sqpoll, args.files) {
        (false, _) => Ok(Submission::Calls),
        (true, FileMode::Copy) => {
            let reason = "--files copy has no ring";
            Err(Diagnostic::bad("--sqpoll", reason, "use --files direct or cached, or leave it out"))
        }
        (true, _) => Ok(Submission::Thread { idle: SQPOLL_IDLE, cpu: None }),
    }
}

/// The reason why the HTTP server did not start.
fn refused(error: HttpError) -> Diagnostic {
    match error {
        HttpError::Directory { ref directory, error } => {
            Diagnostic::bad(directory.display().to_string(), error, "choose a directory that can be read")
        }
        HttpError::Files(_) => Diagnostic::failed("linerate serve http", error, "use --files copy"),
    }
}

/// Runs a store.
fn kv(args: &KvArgs) -> anyhow::Result<()> {
    args.server.workers.only_fixed("the keys of a store are divided among all workers")?;
    let workers = args.server.workers.count();
    let memory = args.memory / workers;
    if memory < serve::KV_MIN_MEMORY {
        let (each, least) = (serve::KV_MIN_MEMORY >> 20, (serve::KV_MIN_MEMORY * workers) >> 20);
        let what = format!("--memory of {} bytes", args.memory);
        let reason = format!("each of {workers} workers needs at least {each}MiB");
        return Err(Diagnostic::bad(
            what,
            reason,
            format!("write {least}MiB or more, or use fewer --workers"),
        )
        .into());
    }
    let links = KvLinks::connect(workers);
    let links =
        links.map_err(|error| Diagnostic::failed("linerate serve kv", error, "use fewer --workers"))?;
    let (mut links, connections) = (links.into_iter(), args.server.max_connections.unwrap_or(CONNECTIONS));
    let adjust = |options: &mut Options| {
        let limits = &mut options.stack.limits;
        (limits.send_buffer, limits.receive_buffer) = (serve::KV_SEND_BUFFER, serve::KV_RECEIVE_BUFFER);
        hold(options, connections);
    };
    serve_with(&args.server, adjust, |host| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = since_1970.saturating_sub(Duration::from_nanos(host.now().0));
        let options = KvOptions { memory, connections: connections.into(), epoch };
        Ok(Kv::sharded(options, links.next().context("each worker has links")?))
    })
}

/// Runs a proxy.
fn proxy(args: &ProxyArgs) -> anyhow::Result<()> {
    has_route(&args.server.end, args.to.ip().into())?;
    let connections = args.server.max_connections.unwrap_or(CONNECTIONS);
    let adjust = |options: &mut Options| {
        let limits = &mut options.stack.limits;
        (limits.send_buffer, limits.receive_buffer) = (serve::PROXY_BUFFER, serve::PROXY_BUFFER);
        // Each has another one to the server.
        hold(options, connections.saturating_mul(2));
    };
    serve_with(&args.server, adjust, |host| {
        let forward = match args.forward {
            Forwarding::Reference => Forward::Reference,
            Forwarding::Copy => Forward::Copy,
        };
        Ok(Proxy::new(ProxyOptions {
            to: Endpoint::new(args.to.ip().into(), args.to.port()),
            tcp: host.stack().config().tcp,
            connections,
            idle: args.idle.map(|idle| idle.0),
            forward,
        }))
    })
}

/// Raises the stack's limit of connections so that a server can reset those above its own.
fn hold(options: &mut Options, connections: u32) {
    let limit = &mut options.stack.limits.connections;
    *limit = (*limit).max(end::with_margin(connections));
}

/// Checks that an address or a router of the host leads to `to`.
fn has_route(end: &EndArgs, to: Address) -> Result<(), Diagnostic> {
    let mut networks = end.addresses.iter().chain(end.routes.iter().map(|(network, _)| network));
    if networks.any(|network| network.contains(to))
        || end.gateways.iter().any(|gateway| gateway.is_ipv4() == to.is_v4())
    {
        return Ok(());
    }
    let remedy = format!("choose an address within {}, or add a --gateway", texts(&end.addresses));
    Err(Diagnostic::bad(format!("--to {to}"), "the address is not in the network of an address", remedy))
}

/// Runs a server without settings of its own.
fn serve<S: Server + Default + Send>(args: &ServerArgs) -> anyhow::Result<()> {
    let adjust = |options: &mut Options| {
        let limit = &mut options.stack.limits.connections;
        *limit = args.max_connections.unwrap_or(*limit);
    };
    serve_with(args, adjust, |_| Ok(S::default()))
}

/// Runs the servers that `make` returns, on hosts with settings that `adjust` changes, until a signal, and prints the
/// summary.
fn serve_with<S: Server + Send>(
    args: &ServerArgs,
    adjust: impl FnOnce(&mut Options),
    make: impl FnMut(&mut Host) -> anyhow::Result<S>,
) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    let mut hosts = Hosts::open(&args.end, &args.workers, ROLE, |options| adjust(without_delay(options)))?;
    let mut servers = hosts.hosts().iter_mut().map(make).collect::<anyhow::Result<Vec<S>>>()?;
    let (name, tcp_port) = (hosts.name(), args.tcp_port.unwrap_or(S::TCP_PORT));
    for (host, server) in hosts.hosts().iter_mut().zip(&mut servers) {
        listen(host, server, &args.end, tcp_port)?;
    }
    let reports = if hosts.connect(&stop) {
        let (place, workers) = (place(&args.end), args.workers.text());
        console::note(&format!("{name} serves port {tcp_port}{place}{workers}"));
        let began = Instant::now();
        let reports = hosts.run(&mut servers, &stop)?;
        let mut summary = Summary::of_workers(began.elapsed().as_secs_f64(), &servers, &reports);
        if args.workers.is_single() {
            summary.workers.clear();
        }
        console::print(&summary, args.show.output, Summary::text)?;
        reports
    } else {
        hosts.close()
    };
    Ok(reports.iter().try_for_each(|report| still_there(&name, report))?)
}

/// Switches Nagle's algorithm off, because servers write whole replies.
fn without_delay(options: &mut Options) -> &mut Options {
    options.stack.tcp.no_delay = true;
    options
}

/// The addresses of a server, for a sentence.
fn place(end: &EndArgs) -> String {
    match texts(&end.addresses) {
        none if none.is_empty() => String::new(),
        addresses => format!(" at {addresses}"),
    }
}

/// Listens at all addresses of each IP version that the host has or may obtain.
fn listen<S: Server>(host: &mut Host, server: &mut S, end: &EndArgs, port: u16) -> Result<(), Diagnostic> {
    for is_v4 in [true, false] {
        if end.uses(is_v4) {
            let listening = server.listen(host.stack(), Endpoint::new(any(is_v4), port));
            listening
                .map_err(|error| Diagnostic::failed("linerate serve", error, "choose another --tcp-port"))?;
        }
    }
    Ok(())
}

impl Summary {
    /// The sums of all workers.
    fn of_workers<S: Server>(seconds: f64, servers: &[S], reports: &[Report]) -> Self {
        let (mut served, mut report) = (Served::default(), Report::default());
        for (server, of_worker) in servers.iter().zip(reports) {
            served.add(&server.served());
            report.add(of_worker);
        }
        let counters = report.named().chain(servers.iter().flat_map(Server::named));
        let workers = servers.iter().zip(reports).map(|(server, report)| Self::of(seconds, server, report));
        Self { workers: workers.collect(), ..Self::new(seconds, served, counters) }
    }

    fn of<S: Server>(seconds: f64, server: &S, report: &Report) -> Self {
        Self::new(seconds, server.served(), report.named().chain(server.named()))
    }

    fn new(seconds: f64, served: Served, counters: impl Iterator<Item = (&'static str, u64)>) -> Self {
        let Served { connections, aborted, datagrams, received: bytes_received, sent: bytes_sent } = served;
        let (counters, workers) = (NonZero::of(counters), Vec::new());
        Self { seconds, connections, aborted, datagrams, bytes_received, bytes_sent, counters, workers }
    }

    fn text(&self) -> String {
        let Self { seconds, connections, aborted, datagrams, .. } = self;
        let [received, sent] = self.bytes();
        let mut text = format!(
            "{connections} connections in {seconds:.1} s, {aborted} aborted; {datagrams} datagrams; received {received}, \
             sent {sent}\n"
        );
        self.counters.write(&mut text);
        for (index, worker) in self.workers.iter().enumerate() {
            let ([received, sent], connections) = (worker.bytes(), worker.connections);
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "worker {index}: {connections} connections, received {received}, sent {sent}");
        }
        text
    }

    /// Bytes received and sent, as text.
    fn bytes(&self) -> [String; 2] {
        [self.bytes_received, self.bytes_sent].map(units::bytes)
    }
}
