//! Cost of a proxy by size of message, by reference and by copy, between three stacks on one thread.
//!
//! `proxy [CONNECTIONS] [MILLISECONDS]` has clients and an echo server at both sides of a proxy, each over a vhost-user
//! socket. It prints nanoseconds of the proxy's rounds per forwarded message, for messages of 64 bytes to 64 KiB. The
//! modes alternate, and the least of several runs is printed, because other load only adds time.

use anyhow::{Context, Result, bail};
use engine::LocalPort;
use host::{Host, Options};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::load::{EchoLoad, Load, LoadOptions};
use serve::{Echo, Forward, Proxy, ProxyOptions};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::MacAddress;

const PORT: u16 = 7;
/// Sizes of messages in bytes.
const SIZES: [u32; 11] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Runs of each size and mode.
const RUNS: usize = 5;
/// Messages of each connection before the measurement.
const WARM_UP: u64 = 50;

/// The hosts of one measurement.
struct Rig {
    client: Host,
    proxy: Host,
    server: Host,
}

const fn address(network: u8, last: u8) -> Address {
    Address::v4([10, 100, network, last])
}

fn add(host: &mut Host, network: u8, last: u8, control: Box<dyn port::PortControl>) -> Result<()> {
    let mac = MacAddress::new([2, 0, 0, 0, network, last]);
    let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new("port", control), config);
    let now = host.now();
    let own = Cidr::new(address(network, last), 24).context("a prefix of 24 bits")?;
    host.stack().add_address(interface, own, now);
    Ok(())
}

impl Rig {
    fn new(folder: &Path) -> Result<Self> {
        let host = || -> Result<Host> {
            let options = Options { polling: engine::Polling::Busy, ..Options::new()? };
            Ok(Host::new(options)?)
        };
        let mut rig = Self { client: host()?, proxy: host()?, server: host()? };
        let guest = virtio_user::Options { queue_size: 256, ..Default::default() };
        for (network, peer) in [(1, &mut rig.client), (2, &mut rig.server)] {
            let path = folder.join(format!("s{network}"));
            add(
                &mut rig.proxy,
                network,
                2,
                Box::new(VhostUser::listen(&path, vhost_user::Options::default())?),
            )?;
            add(peer, network, 1, Box::new(VirtioUser::connect(&path, guest, Instant::now())?))?;
        }
        for _ in 0..2000 {
            for host in [&mut rig.client, &mut rig.proxy, &mut rig.server] {
                host.control(host.now());
            }
        }
        Ok(rig)
    }

    /// Nanoseconds of the proxy per forwarded message.
    fn measure(&mut self, size: u32, connections: u32, forward: Forward, time: Duration) -> Result<f64> {
        let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
        let server = Endpoint::new(address(2, 1), PORT);
        let options = ProxyOptions { to: server, tcp, connections, idle: None, forward };
        let (mut proxy, mut echo) = (Proxy::new(options), Echo::default());
        let local = Endpoint::new(address(1, 2), PORT);
        let listeners = [self.server.stack().listen(server, tcp)?, self.proxy.stack().listen(local, tcp)?];
        let options = LoadOptions::closed(local, connections, Duration::from_hours(1));
        let (workload, now) = (EchoLoad::new(size, false), self.client.now());
        let mut load = Load::new(workload, options, Arc::default(), self.client.stack(), now)?;
        let (mut begin, mut spent, mut before, mut is_warm) = (Instant::now(), Duration::ZERO, 0, false);
        let limit = Instant::now() + Duration::from_secs(30);
        while !is_warm || begin.elapsed() < time {
            while self.client.poll(&mut load) {}
            let start = Instant::now();
            while self.proxy.poll(&mut proxy) {}
            spent += start.elapsed();
            while self.server.poll(&mut echo) {}
            if !is_warm && load.answered() >= WARM_UP * u64::from(connections) {
                (begin, spent, before, is_warm) = (Instant::now(), Duration::ZERO, load.answered(), true);
            }
            if Instant::now() > limit {
                bail!("only {} replies of {size} bytes in 30 s", load.answered());
            }
        }
        let messages = 2 * (load.answered() - before);
        self.server.stack().unlisten(listeners[0]);
        self.proxy.stack().unlisten(listeners[1]);
        self.end(&mut proxy, &mut load, &mut echo);
        Ok(spent.as_nanos() as f64 / messages as f64)
    }

    /// Ends all connections.
    fn end(&mut self, proxy: &mut Proxy, load: &mut Load<EchoLoad>, echo: &mut Echo) {
        let open: Vec<_> = self.client.stack().connections().map(|info| info.connection).collect();
        for id in open {
            self.client.stack().abort(id);
        }
        for _ in 0..100 {
            self.client.poll(load);
            self.proxy.poll(proxy);
            self.server.poll(echo);
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (connections, time) = (number(0, 8)?, Duration::from_millis(number(1, 200)?.into()));
    let folder = tempfile::tempdir()?;
    let mut rig = Rig::new(folder.path())?;
    println!("{:>8} {:>14} {:>14}", "bytes", "reference ns", "copy ns");
    for size in SIZES {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..RUNS {
            for (least, forward) in least.iter_mut().zip([Forward::Reference, Forward::Copy]) {
                *least = least.min(rig.measure(size, connections, forward, time)?);
            }
        }
        println!("{size:>8} {:>14.1} {:>14.1}", least[0], least[1]);
    }
    Ok(())
}
