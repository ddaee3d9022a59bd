//! Responses of the HTTP server between two stacks over a vhost-user socket, by the way in which bodies are kept.

use anyhow::{Result, bail};
use counted::pair;
use host::Host;
use port::virtio_user;
use serve::http::{Http, HttpOptions};
use serve::load::{HttpLoad, Load, LoadOptions};
use stack::Endpoint;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use serve::http::Bodies;

const PORT: u16 = 80;
const HOST: &str = "10.100.0.1";
const PATH: &str = "/file";
const LIMIT: Duration = Duration::from_mins(2);
/// Name of the file in the folder of [`Pair::new`].
pub const FILE: &str = "file";

/// Requests of the file in a closed loop.
pub type Client = Load<HttpLoad>;

/// A server and a client at the ends of one socket.
pub struct Pair {
    hosts: Vec<Host>,
    http: Http,
    connections: u32,
}

/// The server's rounds until it has answered all requests that arrived, or its ring is full.
#[inline(never)]
fn serve_part(server: &mut Host, app: &mut Http) {
    while server.poll(app) {}
}

impl Pair {
    /// A server of the folder, whose port has no offloads, so that checksums are computed in software.
    ///
    /// # Errors
    /// If a host, its port or the folder cannot be used.
    pub fn new(folder: &Path, bodies: Bodies, connections: u32) -> Result<Self> {
        Self::with(HttpOptions { bodies, ..HttpOptions::new(folder) }, connections)
    }

    /// As [`Pair::new`], with other settings of the server.
    ///
    /// # Errors
    /// As [`Pair::new`].
    pub fn with(options: HttpOptions, connections: u32) -> Result<Self> {
        let mut hosts = pair::with(virtio_user::Options { offloads: false, ..pair::options() })?;
        let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
        hosts[0].stack().listen(Endpoint::new(pair::SERVER, PORT), tcp)?;
        let http = Http::new(options)?;
        Ok(Self { hosts, http, connections })
    }

    /// The client's requests.
    ///
    /// # Errors
    /// If a connection cannot be opened.
    pub fn load(&mut self) -> Result<Client> {
        let server = Endpoint::new(pair::SERVER, PORT);
        let options = LoadOptions {
            timeout: LIMIT,
            ..LoadOptions::closed(server, self.connections, Duration::from_hours(1))
        };
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
            if begin.elapsed() > LIMIT {
                bail!("only {} replies in {LIMIT:?}", load.answered());
            }
        }
        Ok(served)
    }

    /// Time until the client has its first reply.
    ///
    /// # Errors
    /// If there is none within two minutes.
    pub fn first(&mut self, load: &mut Client) -> Result<Duration> {
        let begin = Instant::now();
        let [server, client] = self.hosts.as_mut_slice() else { bail!("two hosts are needed") };
        while load.answered() == 0 {
            // Once each: a server whose ring is full has work until the client has emptied it.
            client.poll(load);
            server.poll(&mut self.http);
            if begin.elapsed() > LIMIT {
                bail!("no reply in {LIMIT:?}");
            }
        }
        Ok(begin.elapsed())
    }

    /// Nanoseconds per request in the server.
    ///
    /// # Errors
    /// If there are too few replies within two minutes.
    pub fn measure(&mut self, load: &mut Client, count: u64) -> Result<f64> {
        let before = load.answered();
        let warm = before + 20 * u64::from(self.connections);
        self.run(load, warm)?;
        let start = load.answered();
        let served = self.run(load, start + count)?;
        Ok(served.as_nanos() as f64 / (load.answered() - start) as f64)
    }
}
