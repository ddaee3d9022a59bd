//! Section on immediate and buffered sending.

use super::{Section, Table, decimals, usage_provenance};
use crate::figures;
use measure::Kind;
use studies::usage::Results;
use studies::usage::batching::Row;

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let rows = &results.batching;
    if rows.is_empty() {
        return None;
    }
    Some(Section {
        id: "batching",
        title: "Batching twice".to_owned(),
        kind: Kind::Real,
        words: vec!["Sent at once, or from a buffer of N, which copies.".to_owned()],
        tables: vec![table(rows)],
        figures: figures::batching(rows, &usage_provenance(results)),
    })
}

fn table(rows: &[Row]) -> Table {
    let titles = ["Buffer", ">Load", ">Mpps", ">Lost %", ">p50 ns", ">p99 ns", ">p99.9 ns", ">Jitter ns"];
    let rows = rows.iter().map(|row| {
        let load = row.load.map_or("most".to_owned(), |load| format!("{:.0} %", load * 100.0));
        let buffer = if row.buffer == 0 { "none".to_owned() } else { row.buffer.to_string() };
        let mut cells = vec![buffer, load, decimals(row.received_pps / 1e6, 3)];
        cells.push(decimals(row.loss * 100.0, 3));
        let latency = row.latency_ns;
        cells.extend([latency.p50, latency.p99, latency.p999].map(|ns| ns.to_string()));
        cells.push(decimals(row.jitter_ns, 0));
        cells
    });
    Table { heading: String::new(), titles: titles.to_vec(), rows: rows.collect() }
}
