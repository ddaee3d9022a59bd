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

const fn address(last: u8) -> Address {
    Address::v4([10, 100, 0, last])
}

fn host(last: u8, control: Box<dyn port::PortControl>) -> Result<Host> {
    let options = Options { polling: Polling::Busy, ..Options::new()? };
    let mut host = Host::new(options)?;
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let interface =
        host.add_port(LocalPort::new("port", control), InterfaceConfig { mac, mtu: 1500, vlan: None });
    let now = host.now();
    let address = Cidr::new(address(last), 24).context("a prefix of 24 bits")?;
    host.stack().add_address(interface, address, now);
    Ok(host)
}

/// Server and client, connected.
///
/// # Errors
/// If a host, its port or the folder of the socket cannot be created.
pub fn connected(ring: RingKind) -> Result<Vec<Host>> {
    with(virtio_user::Options { ring, ..options() })
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
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s");
    let back = VhostUser::listen(&path, vhost_user::Options::default())?;
    let front = VirtioUser::connect(&path, options, Instant::now())?;
    let mut hosts = vec![host(1, Box::new(back))?, host(2, Box::new(front))?];
    for _ in 0..CONTROLS {
        for host in &mut hosts {
            host.control(host.now());
        }
    }
    Ok(hosts)
}
