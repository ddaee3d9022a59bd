//! An end of the network: a port of the command line with a TCP/IP stack on this thread.

use crate::api::stack::StackControl;
use crate::args::end::{EndArgs, Wait};
use crate::commands::cpu;
use crate::commands::generate::input::{keys, validated_ends};
use crate::commands::generate::peer;
use crate::dataplane::open;
use crate::settings::kinds::PortKind;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use engine::{LocalPort, Polling};
use host::{Host, Options, Report};
use port::PortControl;
use stack::ip::{InterfaceConfig, InterfaceId, Route};
use stack::{Address, Cidr, Identifier};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use wire::VlanId;

/// A host with its port, which may not carry packets yet.
pub(crate) struct End {
    pub(crate) host: Host,
    /// Name of the port.
    pub(crate) name: String,
    _control: Option<StackControl>,
}

impl End {
    /// Validates the arguments, pins the thread, and opens the port. `role` is the name of the port in errors, and its
    /// default name. `adjust` changes the default settings of the host.
    pub(crate) fn open(
        args: &EndArgs,
        role: &str,
        adjust: impl FnOnce(&mut Options),
    ) -> anyhow::Result<Self> {
        let port = port(args, role)?;
        routable(args)?;
        let affinity = rustix::thread::sched_getaffinity(None)?;
        cpu::pin(args.cpu)?;
        let mut options = options(args)?;
        adjust(&mut options);
        let memory = |error| Diagnostic::failed(format!("port {}", port.name), error, "free memory");
        let mut host = Host::new(options).map_err(memory)?;
        let local = LocalPort::new(&port.name, open_port(args, &port)?);
        let interface = host.add_port(local, interface(args));
        configure(&mut host, interface, args);
        let control = cpu::with_affinity(&affinity, || {
            StackControl::open(args.control.as_deref(), std::slice::from_mut(&mut host))
        })?;
        Ok(Self { host, name: port.name, _control: control })
    }

    /// Waits for the port. Returns `false` if a signal came first, or the port has ended.
    pub(crate) fn connect(&mut self, stop: &AtomicBool) -> bool {
        note_wait(&self.host);
        self.host.connect(stop)
    }
}

/// Limit of a stack's connections for a program that has at most `connections`: some end while others begin.
pub(crate) fn with_margin(connections: u32) -> u32 {
    connections.saturating_add(connections / 8).saturating_add(4096)
}

/// Returns an error if the port of a program has ended for good.
pub(crate) fn still_there(name: &str, report: &Report) -> Result<(), Diagnostic> {
    let Some(state) = &report.ended else { return Ok(()) };
    let remedy = "ask the operator of the switch; with --wait the program asks again";
    Err(Diagnostic::failed(format!("port {name}"), state, remedy))
}

/// Opens the port of the command line. With `--wait`, a port that a switch grants is asked for until it is granted, and
/// again after its end.
pub(crate) fn open_port(args: &EndArgs, port: &PortSettings) -> Result<Box<dyn PortControl>, Diagnostic> {
    match port.kind {
        PortKind::Grant(_) if args.wait => Ok(open::repeated(port)),
        _ => open::open(port),
    }
}

/// Settings of a host.
pub(crate) fn options(args: &EndArgs) -> std::io::Result<Options> {
    let mut options = Options::new()?;
    options.polling = match args.polling {
        Wait::Adaptive => Polling::Adaptive,
        Wait::Busy => Polling::Busy,
    };
    options.on_port = console::note;
    options.stack.tcp = args.tcp.options();
    Ok(options)
}

/// The port of the command line, validated. Checks that a socket to which it connects exists, unless `--wait` is given.
pub(crate) fn port(args: &EndArgs, role: &str) -> anyhow::Result<PortSettings> {
    let ports = validated_ends(vec![keys(&args.port)?], &[role])?;
    if let Some((reason, remedy)) = ports.first().and_then(|port| port.kind.one_way(&[&port.name])) {
        return Err(Diagnostic::bad(format!("--port {}", args.port), reason, remedy).into());
    }
    if !args.wait {
        peer::validate(&ports)?;
    }
    let port = ports.into_iter().next();
    Ok(port.ok_or_else(|| Diagnostic::bad("--port", "no port is given", "add --port kind=...,..."))?)
}

/// Checks that each router is in the network of an address, and has the IP version of its network. Link-local routers
/// are on every link.
pub(crate) fn routable(args: &EndArgs) -> Result<(), Diagnostic> {
    let is_mixed = |(network, router): &&(Cidr, IpAddr)| network.address.is_v4() != router.is_ipv4();
    if let Some((network, router)) = args.routes.iter().find(is_mixed) {
        let reason = "network and router are of different IP versions";
        let remedy = "name a router of the network's version";
        return Err(Diagnostic::bad(format!("--route {network}={router}"), reason, remedy));
    }
    let gateways = args.gateways.iter().map(|gateway| (*gateway, format!("--gateway {gateway}")));
    let routes = args.routes.iter().map(|(network, router)| (*router, format!("--route {network}={router}")));
    let is_outside = |(router, _): &(IpAddr, String)| {
        !is_link_local(*router) && !args.addresses.iter().any(|own| own.contains((*router).into()))
    };
    let Some((_, place)) = gateways.chain(routes).find(is_outside) else { return Ok(()) };
    let reason = "the router is not in the network of an address";
    let remedy = match texts(&args.addresses) {
        none if none.is_empty() => {
            "leave it out, because the router is obtained with the addresses".to_owned()
        }
        addresses => format!("choose an address within {addresses}"),
    };
    Err(Diagnostic::bad(place, reason, remedy))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

pub(crate) fn texts(addresses: &[Cidr]) -> String {
    addresses.iter().map(Cidr::to_string).collect::<Vec<_>>().join(", ")
}

/// The interface of a stack on the port.
pub(crate) fn interface(args: &EndArgs) -> InterfaceConfig {
    let mac = args.mac.unwrap_or_else(host::random_mac);
    InterfaceConfig { mac, mtu: args.mtu, vlan: args.vlan.and_then(VlanId::new) }
}

/// Reports that a port is not ready.
pub(crate) fn note_wait(host: &Host) {
    if let Some((name, state)) = host.not_ready() {
        console::note(&format!("waiting for port {name}: {state}"));
    }
}

/// Adds addresses and routes, and starts to obtain others.
pub(crate) fn configure(host: &mut Host, interface: InterfaceId, args: &EndArgs) {
    let (now, stack) = (host.now(), host.stack());
    for address in &args.addresses {
        stack.add_address(interface, *address, now);
    }
    if args.dhcp {
        stack.start_dhcp(interface, now);
    }
    if args.slaac {
        stack.start_slaac(interface, Identifier::Eui64, now);
    }
    for gateway in args.gateways.iter().copied().map(Address::from) {
        let network = Cidr { address: any(gateway.is_v4()), prefix: 0 };
        stack.add_route(Route { network, interface, via: Some(gateway) });
    }
    for &(network, router) in &args.routes {
        stack.add_route(Route { network, interface, via: Some(router.into()) });
    }
    for &(address, mac) in &args.neighbours {
        stack.add_neighbour(interface, address.into(), mac, now);
    }
}

/// The unspecified address of an IP version.
pub(crate) fn any(is_v4: bool) -> Address {
    if is_v4 { Address::v4([0; 4]) } else { Address::UNSPECIFIED }
}
