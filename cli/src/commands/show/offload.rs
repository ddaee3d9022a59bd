//! Flows that the kernel forwards without the switch.

use crate::dataplane::offload_report::{OffloadEntry, OffloadFlow, OffloadReport};
use console::units::{bytes, count};

/// `linerate offload show`
pub(crate) fn table(report: &OffloadReport) -> String {
    let titles = [
        "BRIDGE",
        "FROM",
        "TO",
        "SOURCE",
        "DESTINATION",
        "FLOW",
        "EDITS",
        ">PACKETS",
        ">BYTES",
        ">AGE",
        ">IDLE",
    ];
    let row = |entry: &OffloadEntry| {
        vec![
            entry.bridge.clone(),
            entry.from.clone(),
            entry.to.clone(),
            entry.source.to_string(),
            entry.destination.to_string(),
            entry.flow.as_ref().map_or("all".to_owned(), flow),
            edits(entry),
            count(entry.packets),
            bytes(entry.bytes),
            format!("{} s", entry.age),
            format!("{} s", entry.idle),
        ]
    };
    let sum = format!(
        "{} entries; {} packets and {} forwarded by the kernel since the start",
        report.entries.len(),
        count(report.packets),
        bytes(report.bytes)
    );
    console::table(&titles, report.entries.iter().map(row)) + "\n" + &sum
}

/// Such as `tcp 10.0.0.1:5000 > 10.0.0.2:80 est`.
fn flow(flow: &OffloadFlow) -> String {
    let tracked = if flow.is_tracked { " est" } else { "" };
    let class =
        if flow.traffic_class == 0 { String::new() } else { format!(" tos {:#x}", flow.traffic_class) };
    format!("{} {} > {}{class}{tracked}", flow.protocol, flow.source, flow.destination)
}

fn edits(entry: &OffloadEntry) -> String {
    let addresses = [("src", entry.new_source), ("dst", entry.new_destination)];
    let addresses = addresses.into_iter().filter_map(|(name, mac)| Some(format!("{name} {}", mac?)));
    let edits: Vec<_> = addresses.chain(entry.decrements_ttl.then(|| "dec_ttl".to_owned())).collect();
    if edits.is_empty() { "-".to_owned() } else { edits.join(", ") }
}
