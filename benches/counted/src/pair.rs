//! Two hosts with a TCP/IP stack, connected by a vhost-user socket: a server at a device and a client at its driver.

use anyhow::{Context, Result};
use engine::{LocalPort, Polling};
use host::{Host, Options};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr};
use std::time::Instant;
use wire::MacAddress;

/// Address of the server.
pub const SERVER: Address = address(1);
/// Calls of each host's control until they are connected.
const CONTROLS: usize = 2000;

/// Connections of a source address.
const PORTS: u32 = 64_512;
/// Connections that the hosts have by default.
pub const CONNECTIONS: u32 = 49_152;

const fn address(last: u8) -> Address {
    Address::v4([10, 100, 0, last])
}

/// A host with these addresses, for this number of connections and the ones that replace them.
pub fn host(addresses: &[Address], connections: u32, control: Box<dyn port::PortControl>) -> Result<Host> {
    let mut options = Options { polling: Polling::Busy, ..Options::new()? };
    options.stack.limits.connections = connections + connections / 4 + 4096;
    let mut host = Host::new(options)?;
    let last = addresses.first().map_or(0, |address| address.octets()[15]);
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let interface =
        host.add_port(LocalPort::new("port", control), InterfaceConfig { mac, mtu: 1500, vlan: None });
    let now = host.now();
    for address in addresses {
        let address = Cidr::new(*address, 24).context("a prefix of 24 bits")?;
        host.stack().add_address(interface, address, now);
    }
    Ok(host)
}

/// Server and client, connected.
///
/// # Errors
/// If a host, its port or the folder of the socket cannot be created.
pub fn connected(ring: RingKind) -> Result<Vec<Host>> {
    with(virtio_user::Options { ring, ..options() })
}

/// As [`connected`], over a split ring: server and client.
pub fn ends() -> Result<(Host, Host)> {
    let mut hosts = connected(RingKind::Split)?;
    let client = hosts.pop();
    hosts.pop().zip(client).context("two hosts are needed")
}

/// Settings of the driver.
pub fn options() -> virtio_user::Options {
    virtio_user::Options { mergeable: false, queue_size: 256, ..Default::default() }
}

/// As [`connected`], with these settings of the driver.
///
/// # Errors
/// As [`connected`].
pub fn with(options: virtio_user::Options) -> Result<Vec<Host>> {
    many(options, CONNECTIONS).map(|(hosts, _)| hosts)
}

/// As [`with`], for this number of connections at the same time. Returns the client's addresses too, which must all be
/// used as sources: each has 64,512 ports.
///
/// # Errors
/// As [`connected`].
pub fn many(options: virtio_user::Options, connections: u32) -> Result<(Vec<Host>, Vec<Address>)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s");
    let back = VhostUser::listen(&path, vhost_user::Options::default())?;
    let front = VirtioUser::connect(&path, options, Instant::now())?;
    let count = u8::try_from(connections.div_ceil(PORTS)).context("too many connections")?;
    let sources: Vec<_> = (2..=count.saturating_add(1)).map(address).collect();
    let server = host(&[SERVER], connections, Box::new(back))?;
    let mut hosts = vec![server, host(&sources, connections, Box::new(front))?];
    settle(&mut hosts.iter_mut().collect::<Vec<_>>());
    Ok((hosts, sources))
}

/// Runs the control of connected hosts as often as they need to carry packets.
pub fn settle(hosts: &mut [&mut Host]) {
    for _ in 0..CONTROLS {
        for host in &mut *hosts {
            host.control(host.now());
        }
    }
}
