//! Echo between two stacks over a vhost-user socket.
//!
//! `echo [RING] [CONNECTIONS] [BYTES] [REQUESTS]` runs both on one thread and prints nanoseconds per request of the
//! server's rounds. With `CPU CPU` as fifth and sixth argument, server and client run on these CPUs, and the rate and
//! the round trip of the client are printed.

use anyhow::{Result, bail};
use counted::{answers, pair};
use host::Host;
use measure::pinning::pin;
use port::virtio_user::RingKind;
use serve::Echo;
use serve::load::{EchoLoad, Load, LoadOptions};
use stack::Endpoint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 7;

type Client = Load<EchoLoad>;

/// Runs until the client has this many replies. Returns the time in the server.
fn run(hosts: &mut [Host], echo: &mut Echo, load: &mut Client, until: u64) -> Result<Duration> {
    let (limit, mut served) = ((Instant::now(), Duration::from_mins(1)), Duration::ZERO);
    let [server, client] = hosts else { bail!("two hosts are needed") };
    answers::until((server, client), load, until, limit, |server| {
        let start = Instant::now();
        while server.poll(echo) {}
        served += start.elapsed();
    })?;
    Ok(served)
}

/// Requests per second and percentiles of the round trip, with a thread for each host.
fn race(mut hosts: Vec<Host>, mut load: Client, cpus: [usize; 2], until: u64) -> Result<()> {
    let stop = AtomicBool::new(false);
    let [server, client] = hosts.as_mut_slice() else { bail!("two hosts are needed") };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(cpus[0]).ok();
            server.run(&mut Echo::default(), &stop);
        });
        pin(cpus[1])?;
        while load.answered() < until / 10 {
            client.poll(&mut load);
        }
        let (before, begin) = (load.answered(), Instant::now());
        while load.answered() < before + until {
            client.poll(&mut load);
        }
        let rate = (load.answered() - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let times = load.latency().summary();
        let [p50, p99, p999] = [times.p50, times.p99, times.p999].map(|nanos| nanos as f64 / 1e3);
        println!("{rate:.0} requests/s, p50 {p50:.2} us, p99 {p99:.2} us, p99.9 {p999:.2} us");
        Ok(())
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let ring: RingKind = arguments.first().map_or(Ok(RingKind::Split), |name| name.parse())?;
    let (connections, bytes, count) = (number(1, 16)?, number(2, 64)?, number(3, 200_000)?);
    let mut hosts = pair::connected(ring)?;
    let server = Endpoint::new(pair::SERVER, PORT);
    hosts[0].stack().listen(server, stack::tcp::Options::default())?;
    let options = LoadOptions::closed(server, u32::try_from(connections)?, Duration::from_hours(1));
    // The bytes of replies are not compared: the cost of the server is measured.
    let workload = EchoLoad::new(u32::try_from(bytes)?, false);
    let (now, mut echo) = (hosts[1].now(), Echo::default());
    let mut load = Load::new(workload, options, Arc::default(), hosts[1].stack(), now)?;
    if arguments.len() > 4 {
        let cpus = [number(4, 0)? as usize, number(5, 1)? as usize];
        return race(hosts, load, cpus, count);
    }
    run(&mut hosts, &mut echo, &mut load, 100 * connections)?;
    let (before, served) = (load.answered(), run(&mut hosts, &mut echo, &mut load, count)?);
    let done = load.answered() - before;
    println!("{:.1} ns/request in the server ({done} requests)", served.as_nanos() as f64 / done as f64);
    Ok(())
}
