//! Assigns threads to CPUs and reports compromises.

use super::group::{Group, groups};
use super::{Machine, Pattern, Plan, PlanError, Requirements, Role, Thread, order};
use std::collections::HashMap;

/// Places threads on CPUs.
///
/// Each thread gets its own CPU while CPUs are available. Further threads share CPUs round-robin; a note reports
/// this.
///
/// # Errors
/// Returns an error if a configured CPU cannot be used, or no CPU is left.
pub fn plan(machine: &Machine, requirements: &Requirements) -> Result<Plan, PlanError> {
    let cpus = order::cpus(machine, requirements)?;
    let (pattern, reason) = resolve(requirements, cpus.len());
    let groups = groups(pattern, &requirements.stages);
    let threads: usize = groups.iter().map(Vec::len).sum();
    if cpus.is_empty() && threads > 0 {
        return Err(PlanError::NoneLeft(threads));
    }
    let mut assignment = CpuAssignment { machine, free: cpus.clone(), cpus, next: 0 };
    let threads: Vec<Thread> = groups.into_iter().flat_map(|group| assignment.assign(group)).collect();
    let notes = reason.into_iter().chain(notes(machine, requirements, &threads)).collect();
    Ok(Plan { pattern, threads, notes })
}

/// Resolves [`Pattern::Auto`], with a note.
fn resolve(requirements: &Requirements, cpus: usize) -> (Pattern, Option<String>) {
    if requirements.pattern != Pattern::Auto {
        return (requirements.pattern, None);
    }
    if !requirements.stages.is_pipeline() {
        return (Pattern::Separate, None);
    }
    let needed: usize = groups(Pattern::Io, &requirements.stages).iter().map(Vec::len).sum();
    if needed <= cpus {
        return (Pattern::Io, Some("pattern io: buffers are returned on the CPU that took them".to_owned()));
    }
    let reason =
        format!("pattern all: there are {cpus} CPUs, and separate Rx, Tx and worker threads need {needed}");
    (Pattern::All, Some(reason))
}

/// State of the CPU assignment.
struct CpuAssignment<'a> {
    machine: &'a Machine,
    cpus: Vec<usize>,
    free: Vec<usize>,
    /// Index of the next CPU to share once none is free.
    next: usize,
}

impl CpuAssignment<'_> {
    /// Assigns the first thread of a group to the next CPU and the others close to it.
    fn assign(&mut self, group: Group) -> Vec<Thread> {
        let mut first = None;
        let mut assigned = Vec::with_capacity(group.len());
        for roles in group {
            let cpu = match first {
                None => self.take(),
                Some(beside) => self.take_beside(beside),
            };
            first.get_or_insert(cpu);
            assigned.push(Thread { roles, cpu });
        }
        assigned
    }

    fn take(&mut self) -> usize {
        if self.free.is_empty() {
            let shared = self.cpus[self.next % self.cpus.len()];
            self.next += 1;
            return shared;
        }
        self.free.remove(0)
    }

    /// A free CPU of the same core, otherwise the same CPU.
    fn take_beside(&mut self, cpu: usize) -> usize {
        let core = |number: usize| self.machine.cpu(number).map(|cpu| cpu.core);
        let sibling = self.free.iter().position(|&other| core(other) == core(cpu));
        sibling.map_or(cpu, |at| self.free.remove(at))
    }
}

/// Notes for the user, by CPU.
fn notes(machine: &Machine, requirements: &Requirements, threads: &[Thread]) -> Vec<String> {
    let mut notes = shared_cpus(machine, threads);
    notes.extend(shared_cores(machine, requirements, threads));
    if let Some(near) = requirements.near {
        let far = threads.iter().filter(|t| machine.cpu(t.cpu).is_some_and(|cpu| cpu.node != near));
        let far: Vec<_> = far.map(|t| format!("{} (CPU {})", names(&t.roles), t.cpu)).collect();
        if !far.is_empty() {
            notes.push(format!("not on node {near}, which receives the packets: {}", far.join(", ")));
        }
    }
    notes
}

fn shared_cpus(machine: &Machine, threads: &[Thread]) -> Vec<String> {
    let busy = threads.len();
    by(threads, |thread| thread.cpu)
        .into_iter()
        .filter(|(_, sharing)| sharing.len() > 1)
        .map(|(cpu, sharing)| {
            let usable = machine.allowed().count();
            let sharing_roles =
                sharing.iter().map(|thread| names(&thread.roles)).collect::<Vec<_>>().join(" and ");
            format!("{sharing_roles} share CPU {cpu}: {busy} busy threads, {usable} usable CPUs")
        })
        .collect()
}

fn shared_cores(machine: &Machine, requirements: &Requirements, threads: &[Thread]) -> Vec<String> {
    let core = |cpu: usize| machine.cpu(cpu).map_or(cpu, |cpu| cpu.core);
    let mut used: Vec<usize> =
        threads.iter().map(|thread| thread.cpu).chain(requirements.taken.clone()).collect();
    used.sort_unstable();
    used.dedup();
    let mut cores: Vec<(usize, Vec<usize>)> = Vec::new();
    for cpu in used {
        match cores.iter_mut().find(|(known, _)| *known == core(cpu)) {
            Some((_, cpus)) => cpus.push(cpu),
            None => cores.push((core(cpu), vec![cpu])),
        }
    }
    let shared = cores.into_iter().filter(|(_, cpus)| cpus.len() > 1);
    shared
        .map(|(_, cpus)| {
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            format!("CPUs {} are siblings, which share one core", cpus.join(" and "))
        })
        .collect()
}

/// Groups threads by a key, ordered by the first thread of each group.
fn by(threads: &[Thread], key: impl Fn(&Thread) -> usize) -> Vec<(usize, Vec<&Thread>)> {
    let mut groups: Vec<(usize, Vec<&Thread>)> = Vec::new();
    let mut places = HashMap::new();
    for thread in threads {
        let at = *places.entry(key(thread)).or_insert_with(|| {
            groups.push((key(thread), Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(thread);
    }
    groups
}

fn names(roles: &[Role]) -> String {
    roles.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}
