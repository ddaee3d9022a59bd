//! Echo between two stacks over a vhost-user socket, on one thread, for instruction counts and a first look at cost.
//!
//! `echo [RING] [CONNECTIONS] [BYTES] [REQUESTS]` prints nanoseconds per request of the server's rounds. `cargo xtask
//! callgrind` counts the instructions of [`serve_part`], which are those of the server alone.

use anyhow::{Context, Result, bail};
use engine::LocalPort;
use host::apps::{Echo, RequestOptions, Requests};
use host::{Host, Options};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::time::{Duration, Instant};
use wire::MacAddress;

const PORT: u16 = 7;

fn host(last: u8, control: Box<dyn port::PortControl>) -> Result<Host> {
    let mut host = Host::new(Options::new()?)?;
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let interface =
        host.add_port(LocalPort::new("port", control), InterfaceConfig { mac, mtu: 1500, vlan: None });
    let now = host.now();
    let address = Cidr::new(address(last), 24).context("a prefix of 24 bits")?;
    host.stack().add_address(interface, address, now);
    Ok(host)
}

const fn address(last: u8) -> Address {
    Address::v4([10, 100, 0, last])
}

/// The server's rounds until it has answered all requests that arrived.
#[inline(never)]
fn serve_part(server: &mut Host, app: &mut Echo) {
    while server.poll(app) {}
}

/// Runs until the client has this many replies. Returns the time in the server.
fn run(hosts: &mut [Host; 2], echo: &mut Echo, requests: &mut Requests, until: u64) -> Result<Duration> {
    let ([server, client], begin, mut served) = (hosts, Instant::now(), Duration::ZERO);
    while requests.replies() < until {
        while client.poll(requests) {}
        let start = Instant::now();
        serve_part(server, echo);
        served += start.elapsed();
        if begin.elapsed() > Duration::from_secs(60) {
            bail!("only {} replies in 60 s", requests.replies());
        }
    }
    Ok(served)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let ring = match arguments.first().map_or("split", String::as_str) {
        "split" => RingKind::Split,
        "split-in-order" => RingKind::SplitInOrder,
        "packed" => RingKind::Packed,
        "packed-in-order" => RingKind::PackedInOrder,
        other => {
            bail!("invalid value {other} for RING: expected split, split-in-order, packed or packed-in-order")
        }
    };
    let (connections, bytes, count) = (number(1, 16)?, number(2, 64)?, number(3, 200_000)?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("s");
    let back = VhostUser::listen(&path, vhost_user::Options::default())?;
    let options = virtio_user::Options { ring, mergeable: false, ..Default::default() };
    let front = VirtioUser::connect(&path, options, Instant::now())?;
    let mut hosts = [host(1, Box::new(back))?, host(2, Box::new(front))?];
    for _ in 0..2000 {
        hosts.iter_mut().for_each(|host| host.control(host.now()));
    }
    let server = Endpoint::new(address(1), PORT);
    hosts[0].stack().listen(server, stack::tcp::Options::default())?;
    let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
    let request = vec![7; usize::try_from(bytes)?];
    let options = RequestOptions {
        server,
        connections: u32::try_from(connections)?,
        request,
        reply: bytes as u32,
        tcp,
    };
    let (now, mut echo) = (hosts[1].now(), Echo::default());
    let mut requests = Requests::open(hosts[1].stack(), options, now)?;
    run(&mut hosts, &mut echo, &mut requests, 100 * connections)?;
    let (before, served) = (requests.replies(), run(&mut hosts, &mut echo, &mut requests, count)?);
    let done = requests.replies() - before;
    println!("{:.1} ns/request in the server ({done} requests)", served.as_nanos() as f64 / done as f64);
    Ok(())
}
