//! `linerate serve`: a TCP server on a port of any kind, with its own TCP/IP stack on one thread.

use crate::args::end::EndArgs;
use crate::args::serve::{FileMode, Forwarding, HttpArgs, KvArgs, ProxyArgs, ServeCommand, ServerArgs};
use crate::commands::end::{End, any, texts};
use crate::commands::sockets;
use console::{Diagnostic, units};
use host::{Host, Options, Report};
use serde::Serialize;
use serve::http::{Http, HttpError, HttpOptions, RECEIVE_BUFFER};
use serve::{Discard, Echo, Forward, Kv, KvOptions, Proxy, ProxyOptions, Served, Server, Source};
use stack::{Address, Endpoint};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    /// Counters of the server and the stack that are not zero.
    counters: BTreeMap<&'static str, u64>,
}

/// Runs a server.
pub(crate) fn run(command: &ServeCommand) -> anyhow::Result<()> {
    match command {
        ServeCommand::Echo(args) => serve(args, Echo::default()),
        ServeCommand::Discard(args) => serve(args, Discard::default()),
        ServeCommand::Source(args) => serve(args, Source::default()),
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
    options.limits.connections = args.max_connections;
    options.memory.small = args.small << 10;
    options.memory.cache = args.cache << 20;
    options.memory.blocks = (args.blocks << 20) as usize / options.memory.block;
    let server = Http::new(options).map_err(|error| match error {
        HttpError::Directory { ref directory, error } => {
            Diagnostic::bad(directory.display().to_string(), error, "choose a directory that can be read")
        }
        HttpError::Files(_) => Diagnostic::failed("linerate serve http", error, "use --files copy"),
    })?;
    let adjust = |options: &mut Options| options.stack.limits.receive_buffer = RECEIVE_BUFFER;
    serve_with(&args.server, adjust, |_| server)
}

/// Runs a store.
fn kv(args: &KvArgs) -> anyhow::Result<()> {
    let adjust = |options: &mut Options| {
        let limits = &mut options.stack.limits;
        (limits.send_buffer, limits.receive_buffer) = (serve::KV_SEND_BUFFER, serve::KV_RECEIVE_BUFFER);
    };
    serve_with(&args.server, adjust, |host| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = since_1970.saturating_sub(Duration::from_nanos(host.now().0));
        Kv::new(KvOptions { memory: args.memory, connections: args.connections.into(), epoch })
    })
}

/// Runs a proxy.
fn proxy(args: &ProxyArgs) -> anyhow::Result<()> {
    has_route(&args.server.end, args.to.ip().into())?;
    let adjust = |options: &mut Options| {
        let limits = &mut options.stack.limits;
        (limits.send_buffer, limits.receive_buffer) = (serve::PROXY_BUFFER, serve::PROXY_BUFFER);
    };
    serve_with(&args.server, adjust, |host| {
        let forward = match args.forward {
            Forwarding::Reference => Forward::Reference,
            Forwarding::Copy => Forward::Copy,
        };
        Proxy::new(ProxyOptions {
            to: Endpoint::new(args.to.ip().into(), args.to.port()),
            tcp: host.stack().config().tcp,
            connections: args.connections,
            idle: args.idle.map(|idle| idle.0),
            forward,
        })
    })
}

/// Checks that an address or a gateway of the host leads to `to`.
fn has_route(end: &EndArgs, to: Address) -> Result<(), Diagnostic> {
    let is_near = end.addresses.iter().any(|own| own.contains(to));
    if is_near || end.gateways.iter().any(|gateway| gateway.is_ipv4() == to.is_v4()) {
        return Ok(());
    }
    let remedy = format!("choose an address within {}, or add a --gateway", texts(&end.addresses));
    Err(Diagnostic::bad(format!("--to {to}"), "the address is not in the network of an address", remedy))
}

/// Runs `server` until a signal, and prints the summary.
fn serve<S: Server>(args: &ServerArgs, server: S) -> anyhow::Result<()> {
    serve_with(args, |_| (), |_| server)
}

/// Runs the server that `make` returns, on a host with settings that `adjust` changes.
fn serve_with<S: Server>(
    args: &ServerArgs,
    adjust: impl FnOnce(&mut Options),
    make: impl FnOnce(&mut Host) -> S,
) -> anyhow::Result<()> {
    let stop = console::stop_on_signals()?;
    let mut end = End::open(&args.end, ROLE, |options| {
        options.stack.tcp.no_delay = true;
        adjust(options);
    })?;
    let mut server = make(&mut end.host);
    let tcp_port = args.tcp_port.unwrap_or(S::TCP_PORT);
    listen(&mut end.host, &mut server, &args.end, tcp_port)?;
    if !end.connect(&stop) {
        end.host.close();
        return Ok(());
    }
    let at = match texts(&args.end.addresses) {
        none if none.is_empty() => String::new(),
        addresses => format!(" at {addresses}"),
    };
    console::note(&format!("{} serves port {tcp_port}{at}", end.name));
    let began = Instant::now();
    end.host.run(&mut server, &stop);
    let mut summary = Summary::new(began.elapsed().as_secs_f64(), server.served(), &end.host.close());
    summary.counters.extend(server.named().into_iter().filter(|(_, value)| *value > 0));
    console::print(&summary, args.output, Summary::text)
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
            counters: report.counters.named().filter(|(_, value)| *value > 0).collect(),
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
