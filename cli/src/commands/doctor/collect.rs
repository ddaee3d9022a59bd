//! Collects the evidence: two readings of the control API, and of `/proc` and `/sys` for the process of the switch.

use crate::api::client::Client;
use crate::api::model::{BondReport, ConfinementReport, PlacementReport, PortReport, Status};
use crate::causes::evidence::{Cpu, Evidence, Readings, Thread, Worker, share};
use crate::causes::proc::{self, CpuTimes, Times};
use crate::dataplane::health::HealthReport;
use console::Diagnostic;
use engine::machine::Machine;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Threads of a CPU that are kept.
const THREADS: usize = 3;

/// Times at one moment.
struct Reading {
    times: Times,
    at: Instant,
}

impl Reading {
    fn of(root: &Path, pid: u32) -> Self {
        Self { times: Times::read(root, pid), at: Instant::now() }
    }
}

/// Everything that was collected.
pub(super) struct Collected {
    pub(super) evidence: Evidence,
    /// Confinement of the switch; `None`: it is not confined.
    pub(super) confinement: Option<ConfinementReport>,
    /// Evidence that could not be read, with the reason.
    pub(super) unread: Vec<String>,
}

/// Collects everything, in the time `interval` or until `ended`.
pub(super) fn collect(
    client: &Client,
    root: &Path,
    interval: Duration,
    ended: &AtomicBool,
) -> Result<Collected, Diagnostic> {
    let status: Status = client.get("/v1/status")?;
    let (first, before) = (client.get("/v1/snapshot")?, Reading::of(root, status.pid));
    console::sleep(interval, ended);
    let (second, now) = (client.get("/v1/snapshot")?, Reading::of(root, status.pid));
    let readings = Readings { before: first, now: second };
    let listeners = proc::listeners(root, status.pid);
    let health: HealthReport = client.get_report("/healthz")?;
    let placement: PlacementReport = client.get("/v1/placement")?;
    let (ports, bonds): (Vec<PortReport>, Vec<BondReport>) =
        (client.get("/v1/ports")?, client.get("/v1/bonds")?);
    let ports = ports.into_iter().map(|report| readings.port(report.settings, listeners.as_deref()));
    let evidence = Evidence {
        seconds: readings.seconds(),
        ports: ports.collect(),
        bonds: bonds.into_iter().filter_map(|bond| Some((bond.settings.name, bond.live?))).collect(),
        bridges: client.get("/v1/bridges")?,
        workers: workers(&readings, [&before, &now], &placement),
        cpus: cpus(root, status.pid, &before, &now),
        hung: health.hung_workers,
        huge_pages: proc::huge_pages(root),
    };
    let unread = unread(&now.times, listeners.is_none(), status.pid);
    Ok(Collected { evidence, confinement: status.confinement, unread })
}

/// Evidence that this process may not read.
fn unread(times: &Times, has_no_listeners: bool, pid: u32) -> Vec<String> {
    let missing = [
        (has_no_listeners, format!("the sockets of process {pid}: run as its user or as root")),
        (times.waited.is_empty(), format!("the times of the workers of process {pid}")),
    ];
    missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect()
}

fn workers(readings: &Readings, times: [&Reading; 2], placement: &PlacementReport) -> Vec<Worker> {
    let [before, now] = times;
    let seconds = (now.at - before.at).as_secs_f64();
    let worker = |worker: Worker| {
        let index = worker.now.index;
        let queues = placement.queues.iter().filter(|queue| queue.worker == index);
        let waited = now.times.waited.get(&index).zip(before.times.waited.get(&index));
        Worker {
            ports: queues.map(|queue| queue.port.clone()).collect(),
            waited: waited.map(|(now, before)| share(now.saturating_sub(*before) as f64 / 1e9, seconds)),
            cpu: now.times.workers.get(&index).copied(),
            ..worker
        }
    };
    readings.workers().map(worker).collect()
}

fn cpus(root: &Path, pid: u32, before: &Reading, now: &Reading) -> BTreeMap<usize, Cpu> {
    let machine = Machine::here();
    let mut threads = threads(pid, before, now);
    let cpu = |cpu: &engine::machine::Cpu| {
        let siblings =
            machine.cpus.iter().filter(|other| other.core == cpu.core && other.number != cpu.number);
        let times = |reading: &Reading| reading.times.cpus.get(&cpu.number).copied().unwrap_or_default();
        let (busy, stolen) = used(times(before), times(now));
        let found = Cpu {
            siblings: siblings.map(|sibling| sibling.number).collect(),
            governor: proc::governor(root, cpu.number),
            busy,
            stolen,
            others: threads.remove(&cpu.number).unwrap_or_default(),
        };
        (cpu.number, found)
    };
    machine.cpus.iter().map(cpu).collect()
}

/// Shares of the time of a CPU that were used and stolen.
fn used(before: CpuTimes, now: CpuTimes) -> (f64, f64) {
    let [busy, idle, stolen] = [
        now.busy.saturating_sub(before.busy),
        now.idle.saturating_sub(before.idle),
        now.stolen.saturating_sub(before.stolen),
    ];
    let all = (busy + idle + stolen) as f64;
    (share(busy as f64, all), share(stolen as f64, all))
}

/// The busiest threads of other processes on each CPU.
fn threads(pid: u32, before: &Reading, now: &Reading) -> BTreeMap<usize, Vec<Thread>> {
    let seconds = (now.at - before.at).as_secs_f64();
    let own = [pid, std::process::id()];
    let mut threads: BTreeMap<usize, Vec<Thread>> = BTreeMap::new();
    for (tid, thread) in now.times.threads.iter().filter(|(_, thread)| !own.contains(&thread.pid)) {
        let earlier = before.times.threads.get(tid).map_or(thread.ran, |earlier| earlier.ran);
        let share = share(thread.ran.saturating_sub(earlier) as f64 / 1e9, seconds);
        let (process, name) = (thread.process.clone(), thread.name.clone());
        threads.entry(thread.cpu).or_default().push(Thread { process, name, pid: thread.pid, share });
    }
    for threads in threads.values_mut() {
        threads.sort_by(|a, b| b.share.total_cmp(&a.share));
        threads.truncate(THREADS);
    }
    threads
}
