//! Responses of the HTTP server between two stacks over a vhost-user socket, by the way in which bodies are kept.
//!
//! `http [BYTES] [CONNECTIONS] [REQUESTS] [ROUNDS]` serves a file of BYTES with stored sums, with sums computed for each
//! packet, and copied for each response, alternating for ROUNDS, and prints nanoseconds per request of the server's rounds:
//! the median and the range. The port has no offloads, so that checksums are computed in software. With `summed`, `plain` or
//! `copied` as fifth argument only this way is run.

use anyhow::{Result, bail};
use benches::pair;
use host::Host;
use port::virtio_user;
use serve::http::{Bodies, Http, HttpOptions};
use serve::load::{HttpLoad, Load, LoadOptions};
use stack::Endpoint;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORT: u16 = 80;
const HOST: &str = "10.100.0.1";
const PATH: &str = "/file";
/// Ways in which bodies are kept.
const BODIES: [(&str, Bodies); 3] =
    [("summed", Bodies::Summed), ("plain", Bodies::Plain), ("copied", Bodies::Copied)];

type Client = Load<HttpLoad>;

/// A server and a client at the ends of one socket.
struct Pair {
    hosts: Vec<Host>,
    http: Http,
    connections: u32,
}

/// The server's rounds until it has answered all requests that arrived.
#[inline(never)]
fn serve_part(server: &mut Host, app: &mut Http) {
    while server.poll(app) {}
}

impl Pair {
    fn new(folder: &Path, bodies: Bodies, connections: u32) -> Result<Self> {
        let mut hosts = pair::with(virtio_user::Options { offloads: false, ..pair::options() })?;
        let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
        hosts[0].stack().listen(Endpoint::new(pair::SERVER, PORT), tcp)?;
        let http = Http::new(HttpOptions { bodies, ..HttpOptions::new(folder) })?;
        Ok(Self { hosts, http, connections })
    }

    fn load(&mut self) -> Result<Client> {
        let server = Endpoint::new(pair::SERVER, PORT);
        let options = LoadOptions::closed(server, self.connections, Duration::from_hours(1));
        let workload = HttpLoad::new(HOST, &[PATH.to_owned()])?;
        let now = self.hosts[1].now();
        Ok(Load::new(workload, options, Arc::default(), self.hosts[1].stack(), now)?)
    }

    /// Runs until the client has this many replies. Returns the time in the server.
    fn run(&mut self, load: &mut Client, until: u64) -> Result<Duration> {
        let (begin, mut served) = (Instant::now(), Duration::ZERO);
        let [server, client] = self.hosts.as_mut_slice() else { bail!("two hosts are needed") };
        while load.answered() < until {
            while client.poll(load) {}
            let start = Instant::now();
            serve_part(server, &mut self.http);
            served += start.elapsed();
            if begin.elapsed() > Duration::from_mins(2) {
                bail!("only {} replies in 120 s", load.answered());
            }
        }
        Ok(served)
    }

    /// Nanoseconds per request in the server.
    fn measure(&mut self, load: &mut Client, count: u64) -> Result<f64> {
        let before = load.answered();
        let warm = before + 20 * u64::from(self.connections);
        self.run(load, warm)?;
        let start = load.answered();
        let served = self.run(load, start + count)?;
        Ok(served.as_nanos() as f64 / (load.answered() - start) as f64)
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
        let mut pair = Pair::new(folder.path(), *bodies, connections)?;
        let load = pair.load()?;
        ways.push((name, pair, load, Vec::new()));
    }
    for _ in 0..rounds {
        for (_, pair, load, times) in &mut ways {
            times.push(pair.measure(load, count)?);
        }
    }
    for (name, _, load, times) in &mut ways {
        times.sort_by(f64::total_cmp);
        let (median, last) = (times[times.len() / 2], times.len() - 1);
        let range = format!("{:.0} to {:.0}", times[0], times[last]);
        println!("{name:<7} {median:>7.0} ns/request ({range}), {} requests", load.answered());
    }
    Ok(())
}
