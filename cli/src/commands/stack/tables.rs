//! Tables of `linerate stack`.

use super::Counted;
use crate::api::stack::model::{ConnectionReport, ConnectionsReport, Rtt};
use crate::commands::counters::line;
use console::table;

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
    for (name, value) in counted.report.counters.iter().filter(|(_, value)| **value > 0) {
        let rate = counted.interval.as_ref().map_or_else(String::new, |interval| {
            let delta = interval.deltas.get(name).copied().unwrap_or(0);
            format!(" {delta:>14} {:>14.1}/s", delta as f64 / interval.seconds)
        });
        line(&mut text, name, *value, &rate);
    }
    line(&mut text, "time_waits", counted.report.time_waits as u64, "");
    text
}
