//! Tables of `linerate stack`.

use super::Counted;
use crate::api::stack::model::{ConnectionReport, ConnectionsReport, Rtt};
use console::table;
use std::fmt::Write;

/// `linerate stack show`
pub(super) fn connections(report: &ConnectionsReport) -> String {
    let titles = [
        ">WORKER",
        "LOCAL",
        "REMOTE",
        "STATE",
        "CONTROL",
        ">RTT us",
        ">WINDOW",
        ">PEER",
        ">FLIGHT",
        ">SEND-Q",
        ">RECV-Q",
        ">OUT-OF-ORDER",
        ">RETRANS",
        ">MEMORY",
    ];
    let mut text = table(&titles, report.connections.iter().map(row));
    if report.is_truncated {
        text.push_str("\nthere are more connections; see --limit");
    }
    text
}

fn row(c: &ConnectionReport) -> Vec<String> {
    let rtt = c
        .rtt
        .map_or("-".to_owned(), |Rtt { smoothed_us, variation_us }| format!("{smoothed_us}/{variation_us}"));
    let words = [
        c.worker.to_string(),
        c.local.to_string(),
        c.remote.to_string(),
        c.state.clone(),
        c.congestion_control.clone(),
        rtt,
    ];
    let numbers = [
        c.congestion_window,
        c.peer_window,
        c.in_flight,
        c.send_queue,
        c.receive_queue,
        c.out_of_order,
        c.retransmissions.into(),
    ];
    let memory = c.memory.to_string();
    words.into_iter().chain(numbers.map(|number| number.to_string())).chain([memory]).collect()
}

/// `linerate stack counters`: those that are not zero.
pub(super) fn counters(counted: &Counted) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: u64| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{name:<28} {value:>14}");
        if let Some(interval) = &counted.interval {
            let delta = interval.deltas.get(name).copied().unwrap_or(0);
            let _ = write!(text, " {delta:>14} {:>14.1}/s", delta as f64 / interval.seconds);
        }
        text.push('\n');
    };
    let counters = counted.report.counters.iter().filter(|(_, value)| **value > 0);
    counters.for_each(|(name, value)| line(name, *value));
    let _ = write!(text, "{:<28} {:>14}", "connections in TIME-WAIT", counted.report.time_waits);
    text
}
