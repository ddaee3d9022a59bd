//! Code that the examples share; they are the files in the root directory of this crate.
#![forbid(unsafe_code)]

use engine::LocalPort;
use host::{Host, Options};
use port::tap::{self, Tap};
use stack::Cidr;
use stack::ip::InterfaceConfig;
use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use wire::MacAddress;

/// A host with an address on `web0` of a network namespace, which must be set up there.
///
/// # Errors
/// If the interface cannot be created.
pub fn tap_host(netns: &str, address: Cidr) -> Result<Host, Box<dyn Error>> {
    let mut host = Host::new(Options::new()?)?;
    let options = tap::Options { netns: Some(netns.to_owned()), ..tap::Options::new("web0") };
    let port = LocalPort::new("web", Box::new(Tap::open(options, Instant::now())?));
    let mac = MacAddress::new([2, 0, 0, 0, 0, 1]);
    let interface = host.add_port(port, InterfaceConfig { mac, mtu: 1500, vlan: None });
    let now = host.now();
    host.stack().add_address(interface, address, now);
    host.connect(&AtomicBool::new(false));
    Ok(host)
}
