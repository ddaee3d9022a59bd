//! Short connections that several clients of the service accept, by its accept policy.

use anyhow::{Context, Result, bail};
use counted::pair;
use host::Host;
use serve::load::{EchoLoad, Load, LoadOptions};
use service::net::TcpListener;
use service::{Connector, Limits, ServiceOptions, SlowPath};
use stack::Endpoint;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use service::AcceptPolicy;

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 7);
/// Connections at the same time.
const CONNECTIONS: u32 = 32;
/// The same beside a slow client: more than the part of a queue above which others steal from it, and fewer than fill
/// it, because then connections would be refused.
const WAITING: u32 = BACKLOG / 16 * 15;
const BACKLOG: u32 = 128;
const MESSAGE: usize = 64;
const LIMIT: Duration = Duration::from_mins(1);

/// Connections per second of this many accepting threads, and the largest part of them that one thread accepted. Each
/// connection carries one request and its reply. The first thread sleeps for `slow` before it answers.
///
/// # Errors
/// If a thread cannot listen, or if there are too few replies within a minute.
pub fn measure(policy: AcceptPolicy, workers: usize, slow: Duration, requests: u64) -> Result<(f64, f64)> {
    let (mut server, client) = pair::ends()?;
    let limits = Limits { backlog: BACKLOG, ..Limits::default() };
    let options = ServiceOptions { accept: policy, limits, ..ServiceOptions::default() };
    let connections = if slow.is_zero() { CONNECTIONS } else { WAITING };
    let (slow_path, mut services) = SlowPath::new(options, 1)?;
    let mut service = services.pop().context("a worker")?;
    let (connector, ready, stop) = (slow_path.connector(), AtomicUsize::new(0), AtomicBool::new(false));
    let slow_path = slow_path.start()?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&mut service, &stop));
        let (connector, ready) = (&connector, &ready);
        let delays = std::iter::once(slow).chain(std::iter::repeat(Duration::ZERO)).take(workers);
        let threads: Vec<_> =
            delays.map(|delay| scope.spawn(move || serve(connector, delay, ready))).collect();
        let rate = wait(ready, workers).and_then(|()| load(client, connections, requests));
        // The end of the service ends the threads.
        stop.store(true, Ordering::Relaxed);
        let is_served = serving.join().is_ok();
        slow_path.finish();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a panic")));
        let counts = counts.collect::<Result<Vec<u64>>>()?;
        if !is_served {
            bail!("the service panicked");
        }
        let (most, all) = (counts.iter().max().copied().unwrap_or_default(), counts.iter().sum::<u64>());
        Ok((rate?, most as f64 / all.max(1) as f64))
    })
}

/// Accepts and answers until the service ends. Returns the number of connections.
fn serve(connector: &Connector, delay: Duration, ready: &AtomicUsize) -> Result<u64> {
    let client = connector.connect()?;
    let local = SocketAddr::new(SERVER.address.ip(), SERVER.port);
    let listener = TcpListener::bind_shared(&client, local)?;
    ready.fetch_add(1, Ordering::Relaxed);
    let (mut accepted, mut message) = (0, [0; MESSAGE]);
    while let Ok((mut stream, _)) = listener.accept() {
        accepted += 1;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        // A connection that the client resets at its end is not answered.
        let _ = stream.read_exact(&mut message).and_then(|()| stream.write_all(&message));
    }
    Ok(accepted)
}

/// Waits until this many threads are ready.
pub(super) fn wait(ready: &AtomicUsize, workers: usize) -> Result<()> {
    let begin = Instant::now();
    while ready.load(Ordering::Relaxed) < workers {
        if begin.elapsed() > LIMIT {
            bail!("the service has no clients after {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Replies per second after a tenth of the requests, with a connection for each.
fn load(mut client: Host, connections: u32, requests: u64) -> Result<f64> {
    let tcp =
        stack::tcp::Options { no_delay: true, time_wait: Duration::ZERO, ..stack::tcp::Options::default() };
    let options = LoadOptions {
        requests_per_connection: Some(1),
        tcp,
        ..LoadOptions::closed(SERVER, connections, Duration::from_hours(1))
    };
    let (workload, now) = (EchoLoad::new(MESSAGE as u32, false), client.now());
    let mut load = Load::new(workload, options, Arc::default(), client.stack(), now)?;
    replies(&mut client, &mut load, requests)
}

/// Replies per second after a tenth of the requests.
pub(super) fn replies(client: &mut Host, load: &mut Load<EchoLoad>, requests: u64) -> Result<f64> {
    let begin = Instant::now();
    let mut until = |count: u64| -> Result<Instant> {
        while load.answered() < count {
            client.poll(load);
            if begin.elapsed() > LIMIT {
                bail!("only {} replies in {LIMIT:?}", load.answered());
            }
        }
        Ok(Instant::now())
    };
    let start = until(requests / 10)?;
    let end = until(requests / 10 + requests)?;
    Ok(requests as f64 / (end - start).as_secs_f64())
}
