//! A client of the service, while another one attaches and detaches, or opens and closes connections.

use super::accept::{replies, wait};
use anyhow::{Context, Result, bail};
use counted::pair;
use host::{App, Buffer, Host};
use rustix::fd::BorrowedFd;
use rustix::time::{ClockId, clock_gettime};
use serve::load::{EchoLoad, Load, LoadOptions};
use service::net::TcpListener;
use service::{Connector, Service, ServiceOptions, SlowPath};
use stack::{Address, Endpoint, Event, Stack, Time};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 7);
/// A port on which the host of the load does not listen.
const ABSENT: Endpoint = Endpoint::new(Address::v4([10, 100, 0, 2]), 9);
/// Connections of the load.
const CONNECTIONS: u32 = 4;
const MESSAGE: usize = 64;
/// CPU time of a round, in nanoseconds, from which on it counts as long.
const LONG: u64 = 100_000;

/// Load of the other client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// Nothing.
    Nothing,
    /// Attaches to the service and detaches.
    Attach,
    /// Opens connections, which are refused.
    Open,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Replies per second.
    pub requests: f64,
    /// Operations of the other client per second.
    pub others: f64,
    /// CPU time of the service in its longest round, in microseconds.
    pub longest: f64,
    /// Rounds per second in which the service needs 100 microseconds of CPU time or more.
    pub long: f64,
}

/// The service, with the CPU time of its rounds. CPU time, because other threads take the CPU at any time.
struct Timed {
    service: Service,
    longest: u64,
    long: u64,
}

fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}

impl App for Timed {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        self.service.event(stack, event, now);
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        let begin = cpu_time();
        let worked = self.service.poll(stack, now);
        let time = cpu_time() - begin;
        self.longest = self.longest.max(time);
        self.long += u64::from(time >= LONG);
        worked
    }

    fn prepare_sleep(&mut self) -> bool {
        self.service.prepare_sleep()
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.service.wake_fds()
    }

    fn resume(&mut self) {
        self.service.resume();
    }
}

/// Sends requests to an echo server behind the service while the other client works.
///
/// # Errors
/// If a client cannot attach, or if there are too few replies within a minute.
pub fn measure(other: Other, requests: u64) -> Result<Reading> {
    let (mut server, mut client) = pair::ends()?;
    let (slow_path, mut services) = SlowPath::new(ServiceOptions::default(), 1)?;
    let service = services.pop().context("a worker")?;
    let connector = slow_path.connector();
    let slow_path = slow_path.start()?;
    let (ready, stop, done) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let mut timed = Timed { service, longest: 0, long: 0 };
    let began = Instant::now();
    let (rate, longest, long) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(&mut timed, &stop);
            (timed.longest, timed.long)
        });
        let echoing = scope.spawn(|| echo(&connector, &ready));
        let others = scope.spawn(|| disturb(other, &connector, (&ready, &stop), &done));
        let rate = wait(&ready, 1).and_then(|()| load(&mut client, requests));
        stop.store(true, Ordering::Relaxed);
        let served = serving.join();
        // Its end ends the other threads.
        slow_path.finish();
        let (longest, long) = served.map_err(|_| anyhow::anyhow!("the service panicked"))?;
        for thread in [echoing, others] {
            thread.join().unwrap_or_else(|_| bail!("a client panicked"))?;
        }
        rate.map(|rate| (rate, longest, long))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let others = done.into_inner() as f64 / seconds;
    Ok(Reading { requests: rate, others, longest: longest as f64 / 1e3, long: long as f64 / seconds })
}

/// Answers requests until the service ends.
fn echo(connector: &Connector, ready: &AtomicUsize) -> Result<()> {
    let client = connector.connect()?;
    let listener = TcpListener::bind(&client, SocketAddr::new(SERVER.address.ip(), SERVER.port))?;
    ready.store(1, Ordering::Relaxed);
    std::thread::scope(|scope| {
        while let Ok((mut stream, _)) = listener.accept() {
            scope.spawn(move || {
                let mut message = [0; MESSAGE];
                while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
            });
        }
    });
    Ok(())
}

/// Attaches, or opens connections, until `stop` is set.
fn disturb(
    other: Other,
    connector: &Connector,
    (ready, stop): (&AtomicUsize, &AtomicBool),
    done: &AtomicU64,
) -> Result<()> {
    if other == Other::Nothing {
        return Ok(());
    }
    wait(ready, 1)?;
    let client = connector.connect()?;
    let absent = SocketAddr::new(ABSENT.address.ip(), ABSENT.port);
    while !stop.load(Ordering::Relaxed) {
        let is_done = match other {
            // Fails while the service has as many clients as it may have.
            Other::Attach => connector.connect().is_ok(),
            _ => client.connect_tcp(absent).is_err(),
        };
        done.fetch_add(u64::from(is_done), Ordering::Relaxed);
    }
    Ok(())
}

/// Replies per second after a tenth of the requests.
pub(super) fn load(client: &mut Host, requests: u64) -> Result<f64> {
    let options = LoadOptions::closed(SERVER, CONNECTIONS, Duration::from_hours(1));
    let (workload, now) = (EchoLoad::new(MESSAGE as u32, false), client.now());
    let mut load = Load::new(workload, options, Arc::default(), client.stack(), now)?;
    replies(client, &mut load, requests)
}
