//! Formats the machine's topology, the placement of workers and queues, and rebalancing.

use crate::api::model::PlacementReport;
use console::table;
use console::units::{bytes, count, duration};
use engine::balance::{Balance, Move, QueueLoad};
use engine::machine::{Cache, CacheKind, Machine};

/// `linerate placement machine`
pub(crate) fn machine(machine: &Machine) -> String {
    let rows = machine.cpus.iter().map(|cpu| {
        let mut marks = Vec::new();
        marks.extend((!cpu.allowed).then_some("outside the affinity mask"));
        marks.extend(cpu.isolated.then_some("isolated"));
        [cpu.number, cpu.core, cpu.package, cpu.node]
            .map(|number| number.to_string())
            .into_iter()
            .chain([marks.join(", ")])
            .collect()
    });
    let mut lines = vec![table(&[">CPU", ">CORE OF", ">PACKAGE", ">NODE", ""], rows)];
    lines.push(String::new());
    lines.extend(machine.nodes.iter().map(|node| {
        let far: Vec<String> =
            node.distances.iter().map(|(to, distance)| format!("{to}: {distance}")).collect();
        let far =
            if far.is_empty() { String::new() } else { format!("; distance to node {}", far.join(", ")) };
        format!("node {}: CPUs {}{far}", node.number, list(&node.cpus))
    }));
    lines.extend(machine.caches.iter().map(cache));
    if !machine.offline.is_empty() {
        lines.push(format!("offline: CPUs {}", list(&machine.offline)));
    }
    lines.extend(machine.inconsistencies.iter().map(|found| format!("inconsistent: {found}")));
    lines.join("\n")
}

fn cache(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "data ",
        CacheKind::Instruction => "instruction ",
        CacheKind::Unified => "",
    };
    format!("level {} {kind}cache, {}: CPUs {}", cache.level, bytes(cache.bytes), list(&cache.cpus))
}

/// Formats numbers as a list in kernel syntax: `0-3,8`.
fn list(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// `linerate placement show`
pub(crate) fn placement(report: &PlacementReport) -> String {
    let rules = report.rules.as_deref().unwrap_or("no [placement]: queues go to the worker with the fewest");
    let mut lines = vec![rules.to_owned()];
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    let workers = report.workers.iter().map(|worker| {
        let cpu = worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        vec![worker.index.to_string(), cpu, worker.queues.to_string(), worker.role.clone()]
    });
    lines.extend([String::new(), table(&[">WORKER", ">CPU", ">QUEUES", "ROLE"], workers)]);
    if !report.queues.is_empty() {
        let row = |queue: &QueueLoad| {
            let stays = queue.stays.as_ref().map(|why| format!("stays: {why}")).unwrap_or_default();
            vec![name(&queue.port, queue.pair), queue.worker.to_string(), count(queue.packets), stays]
        };
        let queues = table(&["QUEUE", ">WORKER", ">PACKETS", ""], report.queues.iter().map(row));
        lines.extend([String::new(), queues]);
    }
    if let Some(latest) = &report.latest {
        lines.extend([String::new(), "last look at the load:".to_owned(), balance(latest)]);
    }
    lines.join("\n")
}

/// `linerate rebalance`
pub(crate) fn balance(balance: &Balance) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let workers = balance
        .workers
        .iter()
        .map(|worker| vec![worker.worker.to_string(), percent(worker.before), percent(worker.after)]);
    let mut lines = vec![
        format!("measured for {}", duration(balance.measured_ns)),
        table(&[">WORKER", ">BUSY %", ">THEN %"], workers),
        String::new(),
    ];
    let (before, after) = balance.worst();
    let step = |step: &Move| {
        let word = match (&step.failure, balance.done) {
            (Some(_), _) => "not moved",
            (None, true) => "moved",
            (None, false) => "would move",
        };
        let why = step.failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let (from, to, load) = (step.from, step.to, percent(step.load));
        format!(
            "{word} {} from worker {from} to worker {to}, {load} % of a core{why}",
            name(&step.port, step.pair)
        )
    };
    lines.extend(balance.moves.iter().map(step));
    lines.push(match balance.moves.len() {
        0 => "no move would gain enough".to_owned(),
        _ => format!("the busiest worker: {} % of its time, then {} %", percent(before), percent(after)),
    });
    lines.join("\n")
}

fn name(port: &str, pair: u16) -> String {
    format!("{port}.{pair}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::balance::WorkerLoad;

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn proposed_moves_are_shown_with_their_gain() {
        let step = Move { port: "red".into(), pair: 1, from: 0, to: 1, load: 0.25, failure: None };
        let worker = |worker, before, after| WorkerLoad { worker, before, after };
        let found = Balance {
            measured_ns: 1_000_000_000,
            workers: vec![worker(0, 0.5, 0.25), worker(1, 0.0, 0.25)],
            moves: vec![step],
            ..Balance::default()
        };
        let text = balance(&found);
        assert!(text.contains("would move red.1 from worker 0 to worker 1, 25.0 % of a core"), "{text}");
        assert!(text.ends_with("the busiest worker: 50.0 % of its time, then 25.0 %"), "{text}");
        assert!(balance(&Balance { done: true, ..found }).contains("\nmoved red.1"));
    }

    #[test]
    fn cpus_outside_the_affinity_mask_are_marked() {
        let cpu =
            |number, allowed| engine::machine::Cpu { number, core: number, allowed, ..Default::default() };
        let shown = machine(&Machine { cpus: vec![cpu(0, true), cpu(1, false)], ..Machine::default() });
        assert!(shown.lines().nth(2).unwrap().ends_with("outside the affinity mask"), "{shown}");
    }
}
