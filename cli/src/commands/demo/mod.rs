//! `linerate demo`: a switch and two guests of our own, without other software.
//!
//! The switch runs in this process, with its worker on one CPU. The guests run in child processes on other CPUs (in
//! one process if there are only two CPUs), connected by real vhost-user sockets. Frames circulate: each guest swaps
//! the addresses of received frames and returns them through the switch.

mod guests;
mod reading;
mod show;

use crate::args::guest::{DemoArgs, FrameSize};
use crate::commands::bench::folder::Folder;
use crate::host::Host;
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use console::Diagnostic;
use engine::{Engine, EngineConfig, Polling, QueueFull, Rss, WorkerConfig};
use guests::{Guests, SOCKETS};
use measure::distance;
use port::vhost_user::{Options, VhostUser};
use reading::{Reading, Report};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Warm-up before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Interval of updates of the live table.
const UPDATE: Duration = Duration::from_millis(500);
/// Maximum time for guests to connect.
const TIMEOUT: Duration = Duration::from_secs(10);

/// CPUs of the threads.
#[derive(Clone, Debug)]
struct Cpus {
    switch: Option<usize>,
    guests: Vec<Option<usize>>,
}

impl Cpus {
    /// The first CPU is for the switch. The others are for the guests, in separate processes if there are at least
    /// two more.
    fn choose(allowed: &[usize]) -> Self {
        match allowed {
            [] | [_] => Self { switch: None, guests: vec![None] },
            [switch, guests] => Self { switch: Some(*switch), guests: vec![Some(*guests)] },
            [switch, a, b, ..] => Self { switch: Some(*switch), guests: vec![Some(*a), Some(*b)] },
        }
    }

    /// Round-trip times of a cache line between the switch's CPU and each of the guests', in nanoseconds, while they
    /// are idle. A hypervisor may move CPUs, and rates change by a multiple with their distance.
    fn distances(&self) -> Vec<f64> {
        let pairs = self.guests.iter().filter_map(|guest| Some([self.switch?, (*guest)?]));
        pairs.filter_map(distance::between).collect()
    }
}

/// Runs the demonstration.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let cpus = Cpus::choose(&Host::here().allowed());
    let ending = console::stop_on_signals()?;
    let mut folder = Folder::new()?;
    let engine = start_switch(&cpus, &folder)?;
    let default = [FrameSize::Bytes(64), FrameSize::Mix];
    let sizes = if args.sizes.is_empty() { &default[..] } else { &args.sizes };
    let mut report = Report::new(args, &cpus);
    for &size in sizes {
        match measure(args, size, &cpus, &folder, &engine, &ending) {
            Ok(run) => report.runs.extend(run),
            Err(error) => {
                // The output of the guests stays there.
                folder.keep();
                return Err(error);
            }
        }
        if ending.load(Ordering::Relaxed) {
            break;
        }
    }
    engine.stop()?;
    show::summary(args.show.output, &report)?;
    if ending.load(Ordering::Relaxed) {
        return Err(Diagnostic::interrupted("linerate demo").into());
    }
    Ok(())
}

fn start_switch(cpus: &Cpus, folder: &Folder) -> anyhow::Result<Engine> {
    let switch = Arc::new(Switch::new(2));
    switch.add_bridge("demo", BridgeConfig::default())?;
    let worker = WorkerConfig { cpu: cpus.switch, polling: Polling::Adaptive, queue_full: QueueFull::Drop };
    let engine =
        Engine::start(EngineConfig { workers: vec![worker], max_ports: 2, rss: Rss::default() }, &*switch)?;
    for guest in SOCKETS {
        let id = engine.reserve(guest)?;
        switch.add_port(id, "demo", &PortConfig::default())?;
        let port = VhostUser::listen(folder.socket(guest), Options::default())?;
        engine.add_reserved(id, Box::new(port))?;
    }
    Ok(engine)
}

/// Measures one size: guests connect, frames circulate, counters are read.
fn measure(
    args: &DemoArgs,
    size: FrameSize,
    cpus: &Cpus,
    folder: &Folder,
    engine: &Engine,
    ending: &AtomicBool,
) -> anyhow::Result<Option<Reading>> {
    let mut live = show::Live::new(args.show.output);
    live.announce(size);
    let before_guests = cpus.distances();
    let mut guests = Guests::start(args, size, cpus, folder)?;
    wait_for_guests(engine, &mut guests, ending)?;
    sleep(WARM_UP, ending);
    let (before, began) = (engine.snapshot(), Instant::now());
    let until = began + args.duration.0;
    let mut last = before.clone();
    while Instant::now() < until && !ending.load(Ordering::Relaxed) {
        guests.check()?;
        sleep(UPDATE.min(until.saturating_duration_since(Instant::now())), ending);
        let now = engine.snapshot();
        live.update(&Reading::between(size, &last, &now), until.saturating_duration_since(Instant::now()));
        last = now;
    }
    live.end();
    let mut reading = Reading::between(size, &before, &engine.snapshot());
    drop(guests);
    wait_until(ending, || engine.snapshot().ports.iter().all(|port| port.state != "connected"));
    reading.distances_ns = [before_guests, cpus.distances()].concat();
    Ok((reading.packets > 0).then_some(reading))
}

fn wait_for_guests(engine: &Engine, guests: &mut Guests, ending: &AtomicBool) -> anyhow::Result<()> {
    let running = |engine: &Engine| {
        let runs = |port: &engine::PortSnapshot| port.queues.iter().any(|q| q.rx_running && q.tx_running);
        engine.snapshot().ports.iter().filter(|port| runs(port)).count() == 2
    };
    if wait_until(ending, || running(engine)) || ending.load(Ordering::Relaxed) {
        return Ok(());
    }
    guests.check()?;
    let remedy = "try another --ring";
    Err(Diagnostic::failed("demo", "the guests did not connect within 10 s", remedy).into())
}

fn wait_until(ending: &AtomicBool, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until && !ending.load(Ordering::Relaxed) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn sleep(time: Duration, ending: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !ending.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10).min(until.saturating_duration_since(Instant::now())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_give_one_process_for_both_guests_and_three_give_two() {
        assert_eq!(Cpus::choose(&[4, 5]).guests, [Some(5)]);
        assert_eq!(Cpus::choose(&[4, 5, 6, 7]).guests, [Some(5), Some(6)]);
        assert_eq!(Cpus::choose(&[3]).switch, None);
    }
}
