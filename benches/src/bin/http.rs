//! Responses of the HTTP server between two stacks over a vhost-user socket, by the way in which bodies are kept.
//!
//! `http [BYTES] [CONNECTIONS] [REQUESTS] [ROUNDS]` serves a file of BYTES with stored sums, with sums computed for each
//! packet, and copied for each response, alternating for ROUNDS, and prints nanoseconds per request of the server's rounds:
//! the median and the range. The port has no offloads, so that checksums are computed in software. With `summed`, `plain` or
//! `copied` as fifth argument only this way is run.

use anyhow::{Context, Result, bail};
use engine::LocalPort;
use host::{Host, Options};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::http::{Bodies, Http, HttpOptions};
use serve::{RequestOptions, Requests};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::MacAddress;

const PORT: u16 = 80;
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: 10.100.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
/// Ways in which bodies are kept.
const BODIES: [(&str, Bodies); 3] =
    [("summed", Bodies::Summed), ("plain", Bodies::Plain), ("copied", Bodies::Copied)];

fn host(last: u8, control: Box<dyn port::PortControl>) -> Result<Host> {
    let options = Options { polling: engine::Polling::Busy, ..Options::new()? };
    let mut host = Host::new(options)?;
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

/// A server and a client at the ends of one socket.
struct Pair {
    hosts: [Host; 2],
    http: Http,
    connections: u32,
}

/// The server's rounds until it has answered all requests that arrived.
#[inline(never)]
fn serve_part(server: &mut Host, app: &mut Http) {
    while server.poll(app) {}
}

impl Pair {
    fn new(folder: &Path, name: &str, bodies: Bodies, connections: u32) -> Result<Self> {
        let path = folder.join(name);
        let back = VhostUser::listen(&path, vhost_user::Options::default())?;
        let options =
            virtio_user::Options { mergeable: false, queue_size: 256, offloads: false, ..Default::default() };
        let front = VirtioUser::connect(&path, options, Instant::now())?;
        let mut hosts = [host(1, Box::new(back))?, host(2, Box::new(front))?];
        for _ in 0..2000 {
            for host in &mut hosts {
                host.control(host.now());
            }
        }
        let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
        hosts[0].stack().listen(Endpoint::new(address(1), PORT), tcp)?;
        let http = Http::new(HttpOptions { bodies, ..HttpOptions::new(folder) })?;
        Ok(Self { hosts, http, connections })
    }

    fn requests(&mut self, connections: u32, reply: u32) -> Result<Requests> {
        let options = RequestOptions {
            server: Endpoint::new(address(1), PORT),
            connections,
            request: REQUEST.to_vec(),
            reply,
            tcp: stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() },
            samples: 0,
        };
        let now = self.hosts[1].now();
        Ok(Requests::open(self.hosts[1].stack(), options, now)?)
    }

    /// Bytes of a response: those of the first one, after which the client sends no request.
    fn response(&mut self) -> Result<u32> {
        let (mut probe, begin, mut received) = (self.requests(1, u32::MAX)?, Instant::now(), 0);
        let mut since = Instant::now();
        while received == 0 || since.elapsed() < Duration::from_millis(50) {
            let [server, client] = &mut self.hosts;
            client.poll(&mut probe);
            server.poll(&mut self.http);
            if std::mem::replace(&mut received, probe.served().received) != received {
                since = Instant::now();
            }
            if begin.elapsed() > Duration::from_secs(10) {
                bail!("no response");
            }
        }
        Ok(u32::try_from(received)?)
    }

    /// Runs until the client has this many replies. Returns the time in the server.
    fn run(&mut self, requests: &mut Requests, until: u64) -> Result<Duration> {
        let (begin, mut served) = (Instant::now(), Duration::ZERO);
        let [server, client] = &mut self.hosts;
        while requests.replies() < until {
            while client.poll(requests) {}
            let start = Instant::now();
            serve_part(server, &mut self.http);
            served += start.elapsed();
            if begin.elapsed() > Duration::from_mins(2) {
                bail!("only {} replies in 120 s", requests.replies());
            }
        }
        Ok(served)
    }

    /// Nanoseconds per request in the server.
    fn measure(&mut self, requests: &mut Requests, count: u64) -> Result<f64> {
        let before = requests.replies();
        let warm = before + 20 * u64::from(self.connections);
        self.run(requests, warm)?;
        let start = requests.replies();
        let served = self.run(requests, start + count)?;
        Ok(served.as_nanos() as f64 / (requests.replies() - start) as f64)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (bytes, connections) = (number(0, 1024)?, u32::try_from(number(1, 16)?)?);
    let (count, rounds) = (number(2, 20_000)?, number(3, 9)?);
    let folder = tempfile::tempdir()?;
    let content: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    std::fs::write(folder.path().join("file"), content)?;
    let only = arguments.get(4);
    let mut ways = Vec::new();
    for (name, bodies) in BODIES.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        let mut pair = Pair::new(folder.path(), name, *bodies, connections)?;
        let reply = pair.response()?;
        let requests = pair.requests(connections, reply)?;
        ways.push((name, pair, requests, Vec::new()));
    }
    for _ in 0..rounds {
        for (_, pair, requests, times) in &mut ways {
            times.push(pair.measure(requests, count)?);
        }
    }
    for (name, _, requests, times) in &mut ways {
        times.sort_by(f64::total_cmp);
        let (median, last) = (times[times.len() / 2], times.len() - 1);
        let range = format!("{:.0} to {:.0}", times[0], times[last]);
        println!("{name:<7} {median:>7.0} ns/request ({range}), {} requests", requests.replies());
    }
    Ok(())
}
