//! Collects the evidence: two readings of the control API, and of `/proc` and `/sys` for the process of the switch.

use super::evidence::{Cpu, Evidence, Listeners, Port, Socket, Thread, Worker};
use super::proc::{self, CpuTimes, Listener, Times};
use crate::api::client::Client;
use crate::api::model::{PlacementReport, PortReport, Status};
use crate::dataplane::health::HealthReport;
use console::Diagnostic;
use engine::machine::Machine;
use engine::{Snapshot, WorkerSnapshot};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Threads of a CPU that are kept.
const THREADS: usize = 3;

/// One reading of counters and times.
struct Reading {
    snapshot: Snapshot,
    times: Times,
    at: Instant,
}

impl Reading {
    fn of(client: &Client, root: &Path, pid: u32) -> Result<Self, Diagnostic> {
        let snapshot = client.get("/v1/snapshot")?;
        Ok(Self { snapshot, times: Times::read(root, pid), at: Instant::now() })
    }
}

/// Collects everything, in the time `interval` or until `ended`.
pub(super) fn collect(
    client: &Client,
    root: &Path,
    interval: Duration,
    ended: &AtomicBool,
) -> Result<Evidence, Diagnostic> {
    let status: Status = client.get("/v1/status")?;
    let before = Reading::of(client, root, status.pid)?;
    console::sleep(interval, ended);
    let now = Reading::of(client, root, status.pid)?;
    let listeners = proc::listeners(root, status.pid);
    let health: HealthReport = client.get_report("/healthz")?;
    let placement: PlacementReport = client.get("/v1/placement")?;
    let ports: Vec<PortReport> = client.get("/v1/ports")?;
    let seconds = now.snapshot.uptime_ns.saturating_sub(before.snapshot.uptime_ns) as f64 / 1e9;
    let ports = ports.into_iter().map(|report| port(report, &before.snapshot, listeners.as_deref()));
    Ok(Evidence {
        seconds,
        ports: ports.collect(),
        workers: workers(&before, &now, &placement),
        cpus: cpus(root, status.pid, &before, &now),
        hung: health.hung_workers,
        confinement: status.confinement,
        huge_pages: proc::huge_pages(root),
        unread: unread(&now.times, listeners.is_none(), status.pid),
    })
}

/// Evidence that this process may not read.
fn unread(times: &Times, has_no_listeners: bool, pid: u32) -> Vec<String> {
    let missing = [
        (has_no_listeners, format!("the sockets of process {pid}: run as its user or as root")),
        (times.waited.is_empty(), format!("the times of the workers of process {pid}")),
    ];
    missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect()
}

fn port(report: PortReport, before: &Snapshot, listeners: Option<&[Listener]>) -> Port {
    let earlier = before.ports.iter().find(|port| port.name == report.settings.name).cloned();
    let socket = socket(&report, listeners);
    Port { settings: report.settings, before: earlier, now: report.live, socket }
}

/// The Unix socket of a port that exchanges frames over one.
fn socket(report: &PortReport, listeners: Option<&[Listener]>) -> Option<Socket> {
    let (path, listens) = report.settings.kind.socket()?;
    let at_path = |is_own: bool| {
        let listeners = listeners.into_iter().flatten();
        listeners.filter(|listener| listener.path == path && listener.is_own == is_own).count()
    };
    Some(Socket {
        path: path.to_owned(),
        listens,
        file: proc::socket_file(path),
        listeners: listeners.map(|_| Listeners { own: at_path(true), other: at_path(false) }),
    })
}

fn workers(before: &Reading, now: &Reading, placement: &PlacementReport) -> Vec<Worker> {
    let seconds = (now.at - before.at).as_secs_f64();
    let worker = |worker: &WorkerSnapshot| {
        let index = worker.index;
        let earlier = before.snapshot.workers.iter().find(|earlier| earlier.index == index);
        let earlier = earlier.cloned().unwrap_or_default();
        let queues = placement.queues.iter().filter(|queue| queue.worker == index);
        let waited = now.times.waited.get(&index).zip(before.times.waited.get(&index));
        let busy = worker.busy_cycles.saturating_sub(earlier.busy_cycles) as f64;
        Worker {
            ports: queues.map(|queue| queue.port.clone()).collect(),
            busy: share(busy / now.snapshot.cycles_per_second, seconds),
            waited: waited.map(|(now, before)| share(now.saturating_sub(*before) as f64 / 1e9, seconds)),
            cpu: now.times.workers.get(&index).copied(),
            before: earlier,
            now: worker.clone(),
        }
    };
    now.snapshot.workers.iter().map(worker).collect()
}

/// A part of the interval, from 0 to 1.
fn share(part: f64, seconds: f64) -> f64 {
    if seconds > 0.0 && part.is_finite() { (part / seconds).clamp(0.0, 1.0) } else { 0.0 }
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
