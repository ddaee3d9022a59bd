//! Cost of a proxy by size of message, by reference and by copy, between three stacks on one thread.

use anyhow::{Context, Result, bail};
use engine::LocalPort;
use host::{Host, Options};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::load::{EchoLoad, Load, LoadOptions};
use serve::{Echo, Proxy, ProxyOptions};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::MacAddress;

pub use serve::Forward;

const PORT: u16 = 7;
/// Messages of each connection before the measurement.
const WARM_UP: u64 = 50;

/// A proxy between clients and an echo server, which are connected.
pub struct Rig {
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
    /// Hosts with sockets in `folder`.
    ///
    /// # Errors
    /// If a host, a port or a socket cannot be created.
    pub fn new(folder: &Path) -> Result<Self> {
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
    ///
    /// # Errors
    /// If messages are not returned within 30 s.
    pub fn measure(&mut self, size: u32, connections: u32, forward: Forward, time: Duration) -> Result<f64> {
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
