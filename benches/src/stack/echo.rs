//! Echo between two stacks on one thread over a vhost-user socket: the server's cost by number of connections and their
//! state, by size of message, and with and without checksums by software.

use anyhow::{Result, bail};
use counted::{answers, pair};
use host::Buffer;
use host::{App, Host};
use port::virtio_user;
use serve::Echo;
use serve::load::{EchoLoad, Load, LoadOptions};
use stack::{Endpoint, Event, Stack, Time};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 7);
const LIMIT: Duration = Duration::from_mins(5);

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of connections, each with one request on its way.
    pub connections: u32,
    /// Bytes of a request and of a reply.
    pub bytes: u32,
    /// Whether the port has offloads, so that the stack computes no checksum of payload.
    pub offloads: bool,
    /// Cache lines that the server writes for each request, of its own for each connection.
    pub lines: usize,
    /// Requests after the warm-up.
    pub requests: u64,
}

/// Bytes of a cache line, in words.
type Line = [u64; 8];

/// An echo server with more state.
struct Wide {
    echo: Echo,
    /// Lines of each connection.
    each: usize,
    lines: Vec<Line>,
}

impl App for Wide {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        if let Event::Data { connection, .. } = &event {
            // The lower half is the index among the connections.
            let first = connection.to_bits() as u32 as usize * self.each;
            let own = self.lines.iter_mut().skip(first).take(self.each);
            own.for_each(|line| line[0] = line[0].wrapping_add(1));
        }
        self.echo.event(stack, event, now);
    }
}

/// Nanoseconds per request in the server, after two requests of each connection.
///
/// # Errors
/// If a host or a port cannot be created, or if there are too few replies within five minutes.
pub fn measure(plan: Plan) -> Result<f64> {
    let options = virtio_user::Options { offloads: plan.offloads, ..pair::options() };
    let (mut hosts, sources) = pair::many(options, plan.connections)?;
    let tcp = stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() };
    hosts[0].stack().listen(SERVER, tcp)?;
    let options = LoadOptions {
        sources,
        timeout: LIMIT,
        ..LoadOptions::closed(SERVER, plan.connections, Duration::from_hours(1))
    };
    let (workload, now) = (EchoLoad::new(plan.bytes, false), hosts[1].now());
    let mut load = Load::new(workload, options, Arc::default(), hosts[1].stack(), now)?;
    let lines = vec![Line::default(); plan.lines * plan.connections as usize];
    let mut echo = Wide { echo: Echo::default(), each: plan.lines, lines };
    let begin = Instant::now();
    run(&mut hosts, &mut echo, &mut load, 2 * u64::from(plan.connections), begin)?;
    let before = load.answered();
    let served = run(&mut hosts, &mut echo, &mut load, before + plan.requests, begin)?;
    Ok(served.as_nanos() as f64 / (load.answered() - before) as f64)
}

/// Runs until the client has this many replies. Returns the time in the server.
fn run(
    hosts: &mut [Host],
    echo: &mut Wide,
    load: &mut Load<EchoLoad>,
    until: u64,
    begin: Instant,
) -> Result<Duration> {
    let mut served = Duration::ZERO;
    let [server, client] = hosts else { bail!("two hosts are needed") };
    answers::until((server, client), load, until, (begin, LIMIT), |server| {
        let start = Instant::now();
        while server.poll(echo) {}
        served += start.elapsed();
    })?;
    Ok(served)
}
