//! Tables of the switch, its workers and addresses, and parts of other tables.

use crate::api::model::{FdbReport, Status, Traffic, WorkersReport};
use crate::dataplane::flow_report::FlowCounts;
use crate::dataplane::report::Origin;
use console::table;
use console::units::{bytes, count, duration, percent, ratio};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `linerate status`
pub(crate) fn status(status: &Status) -> String {
    let Traffic { rx_packets, rx_bytes, tx_packets, tx_bytes, replicated, punted, drops } = &status.traffic;
    let mut text = format!(
        "switch    {} (linerate {}, process {}), up {}\n\
         workers   {}{}, {} asleep; copies with {}\n\
         ports     {}, {} connected\n\
         in        {} packets, {}\n\
         out       {} packets, {}; {} copies made by flooding, {} packets to control\n\
         lost      {}\n",
        status.name,
        status.version,
        status.pid,
        duration(status.uptime_ns),
        status.workers,
        roles(&status.roles),
        status.sleeping,
        status.kernel,
        status.ports,
        status.connected,
        count(*rx_packets),
        bytes(*rx_bytes),
        count(*tx_packets),
        bytes(*tx_bytes),
        count(*replicated),
        count(*punted),
        reasons(drops),
    );
    let confinement = status.confinement.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "confined  {confinement}");
    for bridge in &status.bridges {
        let (used, ports) = (bridge.addresses, bridge.ports.join(", "));
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "bridge    {}: {used} of {} addresses; ports {ports}", bridge.name, bridge.table);
        if let Some(counts) = &bridge.flows {
            text.push_str(&flow_counts(counts));
        }
    }
    text
}

/// Counters of the flow tables of a bridge, in one line.
fn flow_counts(counts: &FlowCounts) -> String {
    let FlowCounts { flows, head, megaflow, tables, evicted, drops, .. } = counts;
    let drops =
        drops.iter().map(|drop| format!("; table {} {} {}", drop.table, drop.reason, count(drop.packets)));
    let drops: String = drops.collect();
    let found = [("head cache", head), ("megaflow cache", megaflow), ("tables", tables)];
    let found = found.map(|(place, packets)| format!("{} in {place}", count(*packets))).join(", ");
    let evicted =
        if *evicted > 0 { format!("; {} megaflows replaced", count(*evicted)) } else { String::new() };
    format!("          {} flows; packets found: {found}{evicted}{drops}\n", count(*flows as u64))
}

/// Number of workers per role: ` (1 rx, 2 work)`; empty if there are no roles.
fn roles(roles: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = roles.iter().map(|(role, workers)| format!("{workers} {role}")).collect();
    if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
}

/// Dropped packets by reason, in one line.
pub(crate) fn reasons(drops: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> =
        drops.iter().map(|(reason, packets)| format!("{reason} {}", count(*packets))).collect();
    if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
}

/// `linerate workers show`
pub(crate) fn workers(report: &WorkersReport) -> String {
    let titles = [
        ">WORKER",
        ">CPU",
        "ROLE",
        "STATE",
        ">QUEUES",
        ">BUSY %",
        ">EMPTY %",
        ">CYCLES/PACKET",
        ">RECEIVE",
        ">PIPELINE",
        ">TRANSMIT",
        ">PACKETS/BURST",
        ">PACKETS",
        ">CARRIED",
        ">SKIPPED",
        ">SLEEPS",
    ];
    let rows = report.workers.iter().map(|worker| {
        vec![
            worker.index.to_string(),
            worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
            worker.role.clone(),
            if worker.sleeping { "asleep" } else { "polling" }.to_owned(),
            worker.queues.to_string(),
            percent(worker.busy_cycles, worker.busy_cycles + worker.idle_cycles),
            percent(worker.empty_polls, worker.polls),
            ratio(worker.busy_cycles, worker.packets),
            ratio(worker.steps.receive, worker.steps.packets),
            ratio(worker.steps.pipeline, worker.steps.packets),
            ratio(worker.steps.transmit, worker.steps.packets),
            ratio(worker.packets, worker.bursts),
            count(worker.packets),
            count(worker.carried_turns),
            count(worker.skipped_turns),
            count(worker.sleeps),
        ]
    });
    let budget = report.budget;
    format!(
        "{}\nA turn of a receive queue takes at most {} units of work; the rest is carried over and continues with {} per turn.\n\
         A queue that has used {} more than another queue with packets is skipped.\n\
         RECEIVE, PIPELINE and TRANSMIT are cycles per packet of sampled bursts.\n",
        table(&titles, rows),
        budget.turn,
        budget.slice,
        budget.lead
    )
}

/// `linerate fdb show`
pub(crate) fn fdb(report: &FdbReport) -> String {
    let rows = report.entries.iter().map(|entry| {
        vec![
            entry.bridge.clone(),
            if entry.vlan == 0 { "-".to_owned() } else { entry.vlan.to_string() },
            entry.mac.to_string(),
            entry.port.clone(),
            match entry.origin {
                Origin::Static => "static".to_owned(),
                Origin::Learned => "learned".to_owned(),
            },
            entry.age.map_or("-".to_owned(), |seconds| format!("{seconds} s")),
        ]
    });
    let text = table(&["BRIDGE", ">VLAN", "ADDRESS", "PORT", "ORIGIN", ">AGE"], rows);
    limited(text, report.entries.len(), report.total)
}

/// A table of `shown` entries, and how many of `total` it leaves out.
pub(super) fn limited(text: String, shown: usize, total: usize) -> String {
    match total.saturating_sub(shown) {
        0 => text,
        more => format!("{text}\n... and {more} more; --limit shows more of them"),
    }
}
