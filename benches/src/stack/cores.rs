//! Stacks on several threads, over a vhost-user socket: thread models of one worker, and ports that keep a connection
//! on its worker.

use anyhow::{Context, Result, bail};
use host::{Host, Indirection, Options, Part, SteeringOptions, Workers, run_split};
use measure::pinning::pin;
use port::PortControl;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::load::{EchoLoad, Load, LoadOptions};
use serve::{Echo, Server};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

pub use host::Threads;

const PORT: u16 = 7;
/// Longest run.
const LIMIT: Duration = Duration::from_mins(1);

const fn address(last: u8) -> Address {
    Address::v4([10, 100, 0, last])
}

/// Both ends of a socket with this many queue pairs: that of the server first.
fn ends(folder: &tempfile::TempDir, queue_pairs: u16) -> Result<[Box<dyn PortControl>; 2]> {
    let path = folder.path().join("s");
    let back = VhostUser::listen(&path, vhost_user::Options { queue_pairs, ..Default::default() })?;
    let options = virtio_user::Options { queue_pairs, ..Default::default() };
    Ok([Box::new(back), Box::new(VirtioUser::connect(&path, options, Instant::now())?)])
}

fn workers(
    last: u8,
    control: Box<dyn PortControl>,
    count: usize,
    steering: &SteeringOptions,
) -> Result<Workers> {
    let options = Options { polling: engine::Polling::Busy, ..Options::new()? };
    let config = InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, last]), mtu: 1500, vlan: None };
    let mut workers = Workers::open(count, &options, ("port", control), &config, steering)?;
    for host in workers.hosts() {
        let (now, address) = (host.now(), Cidr::new(address(last), 24).context("a prefix")?);
        host.stack().add_address(Workers::interface(), address, now);
    }
    Ok(workers)
}

fn listen(echo: &mut Echo, host: &mut Host) -> Result<()> {
    Ok(echo.listen(host.stack(), Endpoint::new(address(1), PORT))?)
}

type Client = Load<EchoLoad>;

/// A closed loop of echo requests.
fn load(host: &mut Host, connections: u64, bytes: u64) -> Result<Client> {
    let server = Endpoint::new(address(1), PORT);
    let options = LoadOptions::closed(server, u32::try_from(connections)?, Duration::from_hours(1));
    // The bytes of replies are not compared: the cost of the server is measured.
    let workload = EchoLoad::new(u32::try_from(bytes)?, false);
    let now = host.now();
    Ok(Load::new(workload, options, Arc::default(), host.stack(), now)?)
}

/// Runs the client until it has this many replies; with `yields`, its CPU is also that of another thread. Returns
/// replies per second after the first tenth, and the median and 99th percentile of the round trip in microseconds.
fn measure(host: &mut Host, load: &mut Client, until: u64, yields: bool) -> Result<(f64, f64, f64)> {
    let mut until_replies = |count: u64| -> Result<f64> {
        let begin = Instant::now();
        while load.answered() < count {
            if !host.poll(load) && yields {
                std::thread::yield_now();
            }
            if begin.elapsed() > LIMIT {
                bail!("only {} replies in a minute", load.answered());
            }
        }
        Ok(begin.elapsed().as_secs_f64())
    };
    until_replies(until / 10)?;
    let seconds = until_replies(until)?;
    let times = load.latency().summary();
    Ok(((until - until / 10) as f64 / seconds, times.p50 as f64 / 1e3, times.p99 as f64 / 1e3))
}

/// One server worker in a thread model on the first CPU, and a client on this thread on the second one. The application
/// of [`Threads::Split`] is on the second CPU too. Returns replies per second, and the median and 99th percentile of
/// the round trip in microseconds.
///
/// # Errors
/// If a CPU or a port is not available, or if there are too few replies within a minute.
pub fn threads(
    cpus: [usize; 2],
    model: Threads,
    connections: u64,
    bytes: u64,
    until: u64,
) -> Result<(f64, f64, f64)> {
    let folder = tempfile::tempdir()?;
    let [back, front] = ends(&folder, 1)?;
    let mut server = workers(1, back, 1, &SteeringOptions::default())?;
    let mut client = workers(2, front, 1, &SteeringOptions::default())?;
    let (stop, mut echo) = (Arc::new(AtomicBool::new(false)), Echo::default());
    let host = server.hosts().first_mut().context("a worker")?;
    listen(&mut echo, host)?;
    let place = |part| drop(pin(cpus[usize::from(part == Part::App && model == Threads::Split)]));
    std::thread::scope(|scope| {
        let threads = scope.spawn(|| match model {
            Threads::Unified => {
                place(Part::Stack);
                host.run(&mut echo, &stop);
                Ok(())
            }
            // Without yields, application and client would take turns of whole time slices.
            Threads::Split | Threads::Merge => run_split(host, &mut echo, true, &place, &stop),
        });
        pin(cpus[1])?;
        let is_connected = client.connect(&AtomicBool::new(false));
        let host = client.hosts().first_mut().context("a worker")?;
        let shares = model == Threads::Split;
        let measured =
            load(host, connections, bytes).and_then(|mut load| measure(host, &mut load, until, shares));
        stop.store(true, Ordering::Relaxed);
        threads.join().map_err(|_| anyhow::anyhow!("the server panicked"))??;
        if !is_connected {
            bail!("no connection");
        }
        measured
    })
}

/// Runs one worker of each end in turns until the client has `until` replies or `stop` is set, which the first worker
/// that ends sets. Returns replies per second.
fn alternate(
    (server, echo): (&mut Host, &mut Echo),
    (client, load): (&mut Host, &mut Client),
    until: u64,
    stop: &AtomicBool,
) -> f64 {
    let begin = Instant::now();
    while load.answered() < until && !stop.load(Ordering::Relaxed) {
        server.poll(echo);
        client.poll(load);
        if begin.elapsed() > LIMIT {
            stop.store(true, Ordering::Relaxed);
        }
    }
    let rate = load.answered() as f64 / begin.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    rate
}

/// Two workers at both ends, each worker with connections of its own. Returns replies per second, and the share of
/// segments that change the worker. If `is_home`, the clients choose source ports whose replies arrive at their worker.
///
/// # Errors
/// As [`threads`].
pub fn ports(
    cpus: [usize; 2],
    is_home: bool,
    connections: u64,
    bytes: u64,
    until: u64,
) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let count = cpus.len();
    let arrivals = is_home.then(|| Arc::new(Indirection::symmetric(count as u16)));
    let steering = SteeringOptions { arrivals, ..SteeringOptions::default() };
    let [back, front] = ends(&folder, count as u16)?;
    let mut server = workers(1, back, count, &steering)?;
    let mut client = workers(2, front, count, &steering)?;
    let mut echoes: Vec<_> = cpus.iter().map(|_| Echo::default()).collect();
    for (host, echo) in server.hosts().iter_mut().zip(&mut echoes) {
        listen(echo, host)?;
    }
    // Both ends of a worker number run on one thread, because there are as many CPUs as workers.
    let stop = &AtomicBool::new(false);
    for _ in 0..500 {
        server.hosts().iter_mut().chain(client.hosts()).for_each(|host| host.control(host.now()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let pairs = server.hosts().iter_mut().zip(client.hosts()).zip(&mut echoes).zip(cpus);
    let rates = std::thread::scope(|scope| {
        let threads = pairs.map(|(((server, client), echo), cpu)| {
            scope.spawn(move || -> Result<f64> {
                pin(cpu).ok();
                let mut load = load(client, connections, bytes)?;
                Ok(alternate((server, echo), (client, &mut load), until, stop))
            })
        });
        let threads: Vec<_> = threads.collect();
        let rates = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a panic")));
        rates.collect::<Result<Vec<f64>>>()
    })?;
    let reports = server.close().into_iter().chain(client.close());
    let (crossed, received) = reports.fold((0, 0), |(crossed, received), report| {
        (crossed + report.distributor.crossed, received + report.distributor.received)
    });
    Ok((rates.iter().sum(), crossed as f64 / received as f64))
}
