//! `linerate serve`: a TCP server on a port of any kind, with its own TCP/IP stack on one thread.

use crate::args::serve::{Program, ServeArgs, Wait};
use crate::commands::cpu;
use crate::commands::generate::input::{keys, validated_ends};
use crate::commands::generate::peer;
use crate::dataplane::open;
use crate::settings::topology::PortSettings;
use console::{Diagnostic, units};
use engine::{LocalPort, Polling};
use host::{Host, Options, Report};
use serde::Serialize;
use serve::{Discard, Echo, Served, Source};
use stack::ip::{InterfaceConfig, InterfaceId, Route};
use stack::{Address, Cidr, Endpoint, UdpOptions};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use wire::MacAddress;

/// Role of the port, in errors and as its default name.
const END: &str = "server";

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

/// Runs the server.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let port = port(args)?;
    routable(args)?;
    cpu::pin(args.cpu)?;
    let stop = console::stop_on_signals()?;
    let mut options = Options::new()?;
    options.stack.tcp.no_delay = true;
    options.polling = match args.polling {
        Wait::Adaptive => Polling::Adaptive,
        Wait::Busy => Polling::Busy,
    };
    options.on_port = console::note;
    let mut host = Host::new(options).map_err(|error| failed(&error, "free memory"))?;
    let local = LocalPort::new(&port.name, open::open(&port)?);
    let mac = args.mac.unwrap_or_else(random_mac);
    let interface = host.add_port(local, InterfaceConfig { mac, mtu: args.mtu, vlan: None });
    configure(&mut host, interface, args)?;
    if !connect(&mut host, &stop) {
        host.close();
        return Ok(());
    }
    console::note(&format!("{} serves port {} at {}", port.name, tcp_port(args), texts(&args.addresses)));
    let began = Instant::now();
    let served = serve(args.program, &mut host, &stop);
    let seconds = began.elapsed().as_secs_f64();
    let summary = Summary::new(seconds, served, &host.close());
    console::print(&summary, args.output, Summary::text)
}

/// The port of the command line, validated. Checks that a socket to which it connects exists, unless `--wait` is given.
fn port(args: &ServeArgs) -> anyhow::Result<PortSettings> {
    let ports = validated_ends(vec![keys(&args.port)?], &[END])?;
    if let Some((reason, remedy)) = ports.first().and_then(|port| port.kind.one_way(&[&port.name])) {
        return Err(Diagnostic::bad(format!("--port {}", args.port), reason, remedy).into());
    }
    if !args.wait {
        peer::validate(&ports)?;
    }
    let port = ports.into_iter().next();
    Ok(port.ok_or_else(|| Diagnostic::bad("--port", "no port is given", "add --port kind=...,..."))?)
}

/// Checks that each gateway is in the network of an address.
fn routable(args: &ServeArgs) -> Result<(), Diagnostic> {
    let is_outside = |gateway: &&IpAddr| !args.addresses.iter().any(|own| own.contains((**gateway).into()));
    let Some(gateway) = args.gateways.iter().find(is_outside) else { return Ok(()) };
    let reason = "the gateway is not in the network of an address";
    let remedy = format!("choose an address within {}", texts(&args.addresses));
    Err(Diagnostic::bad(format!("--gateway {gateway}"), reason, remedy))
}

fn texts(addresses: &[Cidr]) -> String {
    addresses.iter().map(Cidr::to_string).collect::<Vec<_>>().join(", ")
}

fn tcp_port(args: &ServeArgs) -> u16 {
    args.tcp_port.unwrap_or_else(|| args.program.tcp_port())
}

/// A locally administered unicast address.
fn random_mac() -> MacAddress {
    let [_, _, mut octets @ ..] = RandomState::new().hash_one(END).to_ne_bytes();
    octets[0] = 2;
    MacAddress::new(octets)
}

fn failed(error: &dyn std::fmt::Display, remedy: &str) -> Diagnostic {
    Diagnostic::failed("linerate serve", error, remedy)
}

/// Adds addresses, routes and listeners.
fn configure(host: &mut Host, interface: InterfaceId, args: &ServeArgs) -> Result<(), Diagnostic> {
    let (now, stack) = (host.now(), host.stack());
    let any = |is_v4: bool| if is_v4 { Address::v4([0; 4]) } else { Address::UNSPECIFIED };
    for address in &args.addresses {
        stack.add_address(interface, *address, now);
    }
    for gateway in args.gateways.iter().copied().map(Address::from) {
        let network = Cidr { address: any(gateway.is_v4()), prefix: 0 };
        stack.add_route(Route { network, interface, via: Some(gateway) });
    }
    let options = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
    for is_v4 in [true, false] {
        if args.addresses.iter().any(|own| own.address.is_v4() == is_v4) {
            let local = Endpoint::new(any(is_v4), tcp_port(args));
            stack.listen(local, options).map_err(|error| failed(&error, "choose another --tcp-port"))?;
            if args.program == Program::Echo {
                let bound = stack.udp_bind(local, UdpOptions::default());
                bound.map_err(|error| failed(&error, "choose another --tcp-port"))?;
            }
        }
    }
    Ok(())
}

/// Waits for the port. Returns `false` if a signal came first.
fn connect(host: &mut Host, stop: &AtomicBool) -> bool {
    if let Some((name, state)) = host.not_ready() {
        console::note(&format!("waiting for port {name}: {state}"));
    }
    host.connect(stop)
}

fn serve(program: Program, host: &mut Host, stop: &AtomicBool) -> Served {
    match program {
        Program::Echo => {
            let mut echo = Echo::default();
            host.run(&mut echo, stop);
            echo.served()
        }
        Program::Discard => {
            let mut discard = Discard::default();
            host.run(&mut discard, stop);
            discard.served()
        }
        Program::Source => {
            let mut source = Source::default();
            host.run(&mut source, stop);
            source.served()
        }
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
