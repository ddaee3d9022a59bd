//! Order in which CPUs are assigned to threads.
//!
//! A configured list is used in its order. Otherwise: one CPU of every core before siblings, because siblings share a
//! core; near nodes before far ones; CPUs isolated from the scheduler before others; and CPU 0 last, because kernel
//! housekeeping and interrupts without affinity run there.

use super::{PlanError, Requirements};
use crate::machine::{Cpu, Machine};
use std::collections::HashMap;

/// CPUs that threads may use, best first, without those taken.
pub(super) fn cpus(machine: &Machine, requirements: &Requirements) -> Result<Vec<usize>, PlanError> {
    let free = |cpu: &usize| !requirements.taken.contains(cpu);
    if requirements.cpus.is_empty() {
        return Ok(best_first(machine, requirements.near).into_iter().filter(free).collect());
    }
    for &cpu in &requirements.cpus {
        let found = machine.cpu(cpu).ok_or(PlanError::NoSuchCpu(cpu))?;
        if !found.allowed {
            return Err(PlanError::Forbidden(cpu));
        }
    }
    Ok(requirements.cpus.iter().copied().filter(free).collect())
}

fn best_first(machine: &Machine, near: Option<usize>) -> Vec<usize> {
    let home = near.unwrap_or_else(|| machine.allowed().next().map_or(0, |cpu| cpu.node));
    let distance = |cpu: &Cpu| (machine.distance(home, cpu.node), cpu.node);
    let mut cpus: Vec<&Cpu> = machine.allowed().collect();
    // CPU 0 comes after its siblings.
    cpus.sort_by_key(|cpu| (cpu.number == 0, cpu.number));
    let mut seen = HashMap::new();
    let mut ranked: Vec<_> = cpus
        .into_iter()
        .map(|cpu| {
            let sibling = seen.entry(cpu.core).and_modify(|n| *n += 1).or_insert(0);
            // All else equal, siblings of CPU 0 come after CPUs of other cores.
            let shares_zero = cpu.core == 0;
            ((cpu.number == 0, *sibling, distance(cpu), !cpu.isolated, shares_zero, cpu.number), cpu.number)
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, number)| number).collect()
}
