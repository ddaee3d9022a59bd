//! Two hosts at the ends of one wire.

use engine::LocalPort;
use host::{Host, Options};
use port::patch::{Exchange, Patch};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use port::{PortControl, memif};
use stack::ip::InterfaceConfig;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::MacAddress;

/// Time after which a test fails that waits.
pub(crate) const LIMIT: Option<Duration> = Some(Duration::from_mins(1));
pub(crate) const PORT: u16 = 7;

/// Link between the hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wire {
    Patch,
    VhostUser,
}

fn host(last: u8, control: Box<dyn PortControl>) -> Host {
    let mut host = Host::new(Options::new().unwrap()).unwrap();
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new("port", control), config);
    let now = host.now();
    for address in [format!("10.9.0.{last}/24"), format!("fd09::{last}/64")] {
        host.stack().add_address(interface, address.parse().unwrap(), now);
    }
    host
}

/// Address of the first host, the server.
pub(crate) fn server() -> SocketAddr {
    format!("10.9.0.1:{PORT}").parse().unwrap()
}

/// Server and client, connected when both are polled.
pub(crate) fn pair(wire: Wire) -> (Host, Host, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let [first, second]: [Box<dyn PortControl>; 2] = match wire {
        Wire::Patch => {
            let exchange = Exchange::default();
            let patch = |name, peer| Patch::new(name, peer, memif::Options::default(), &exchange).unwrap();
            [Box::new(patch("a", "b")), Box::new(patch("b", "a"))]
        }
        Wire::VhostUser => {
            let path = folder.path().join("s");
            let back = VhostUser::listen(&path, vhost_user::Options::default()).unwrap();
            let options = virtio_user::Options::default();
            [Box::new(back), Box::new(VirtioUser::connect(&path, options, Instant::now()).unwrap())]
        }
    };
    (host(1, first), host(2, second), folder)
}

/// Waits until the ports of a host carry packets.
pub(crate) fn connected(mut host: Host) -> Host {
    assert!(host.connect(&AtomicBool::new(false)));
    host
}

/// Byte of a stream at a position.
pub(crate) fn byte(at: usize) -> u8 {
    let word = (at as u64 / 8).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.to_ne_bytes()[at % 8]
}

/// The first bytes of a stream.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(byte).collect()
}
