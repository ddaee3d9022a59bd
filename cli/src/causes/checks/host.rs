//! Causes in the machine: frequency, time that its host takes, and memory.

use super::super::evidence::{Cpu, Evidence, Worker};
use super::super::findings::Found;

/// Share of the time of a CPU that the host may take.
const STOLEN: f64 = 0.02;
/// Share of time with packets above which a worker has no time left.
pub(super) const SATURATED: f64 = 0.95;
/// Share of time with packets above which a worker is in use.
pub(super) const USED: f64 = 0.05;

/// Workers in use with their CPUs.
pub(super) fn on_cpus(evidence: &Evidence) -> impl Iterator<Item = (&Worker, usize, &Cpu)> {
    evidence.workers.iter().filter_map(|worker| {
        let number = worker.now.cpu.or(worker.cpu)?;
        Some((worker, number, evidence.cpus.get(&number)?))
    })
}

pub(super) fn governor(evidence: &Evidence) -> Vec<Found> {
    let used = on_cpus(evidence).filter(|(worker, ..)| worker.busy > USED);
    let found = used.filter_map(|(worker, number, cpu)| {
        let governor = cpu.governor.as_deref().filter(|governor| *governor != "performance")?;
        Some(Found::worker(worker.now.index, [format!("CPU {number} has the governor {governor}")]))
    });
    found.collect()
}

pub(super) fn steal(evidence: &Evidence) -> Vec<Found> {
    let stolen = on_cpus(evidence).filter(|(_, _, cpu)| cpu.stolen > STOLEN);
    let evidence =
        |number: usize, cpu: &Cpu| format!("steal time of CPU {number}: {:.0} %", cpu.stolen * 100.0);
    stolen.map(|(worker, number, cpu)| Found::worker(worker.now.index, [evidence(number, cpu)])).collect()
}

pub(super) fn huge_pages(evidence: &Evidence) -> Vec<Found> {
    if evidence.huge_pages != Some(0) {
        return Vec::new();
    }
    let saturated = evidence.workers.iter().filter(|worker| worker.busy > SATURATED);
    saturated
        .take(1)
        .map(|worker| Found::worker(worker.now.index, ["HugePages_Total of /proc/meminfo is 0".to_owned()]))
        .collect()
}
