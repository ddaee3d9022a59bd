//! Flows that the kernel forwards without the switch.

use crate::dataplane::offload_report::{OffloadEntry, OffloadReport};
use console::units::{bytes, count};

/// `linerate offload show`
pub(crate) fn table(report: &OffloadReport) -> String {
    let titles = ["BRIDGE", "FROM", "TO", "SOURCE", "DESTINATION", ">PACKETS", ">BYTES", ">AGE", ">IDLE"];
    let row = |entry: &OffloadEntry| {
        vec![
            entry.bridge.clone(),
            entry.from.clone(),
            entry.to.clone(),
            entry.source.to_string(),
            entry.destination.to_string(),
            count(entry.packets),
            bytes(entry.bytes),
            format!("{} s", entry.age),
            format!("{} s", entry.idle),
        ]
    };
    let sum = format!(
        "{} pairs; {} packets and {} forwarded by the kernel since the start",
        report.entries.len(),
        count(report.packets),
        bytes(report.bytes)
    );
    console::table(&titles, report.entries.iter().map(row)) + "\n" + &sum
}
