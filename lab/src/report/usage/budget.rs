//! What a packet costs, and the rate that follows.

use super::{Section, Table};
use crate::cache::results::Kind;
use crate::usage::budget::{Budget, Calls, Prediction};
use crate::usage::delay::Reading;

/// The whole of it.
pub(super) fn section(budget: &Budget) -> Section {
    Section {
        id: "budget",
        title: "The budget of a packet".to_owned(),
        kind: Kind::Real,
        words: vec![format!("One step of the delay is {:.2} ns.", budget.step_ns)],
        tables: vec![delays(&budget.delays), calls(&budget.calls), predictions(&budget.predictions)],
        figures: Vec::new(),
    }
}

fn table(heading: &str, titles: &[&'static str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    Table { heading: heading.to_owned(), titles: titles.to_vec(), rows: rows.collect() }
}

fn delays(readings: &[Reading]) -> Table {
    let rows = readings.iter().map(|read| {
        vec![
            format!("{:.0}", read.asked_ns),
            format!("{:.2}", read.took_ns),
            format!("{:+.2}", read.error_percent),
        ]
    });
    table("Delays", &[">Asked ns", ">Took ns", ">Error %"], rows)
}

fn calls(calls: &[Calls]) -> Table {
    let rows = calls.iter().map(|calls| {
        let costs = [calls.rx_ns, calls.tx_ns, calls.buffered_ns].map(|ns| format!("{ns:.1}"));
        [vec![calls.burst.to_string()], costs.to_vec()].concat()
    });
    let heading = "What a packet costs by burst, in nanoseconds, on one thread";
    table(heading, &[">Burst", ">rx", ">tx", ">tx buffered"], rows)
}

fn predictions(predictions: &[Prediction]) -> Table {
    let rows = predictions.iter().map(|row| {
        vec![
            format!("{:.0}", row.delay_ns),
            format!("{:.1}", row.path_ns),
            format!("{:.3}", row.predicted_pps / 1e6),
            format!("{:.3}", row.measured_pps / 1e6),
            format!("{:+.1}", row.error_percent()),
            format!("{:.0}", row.idle * 100.0),
        ]
    });
    let heading =
        "Rates from costs; with much idle time the source was the limit, and the cost is no prediction";
    let titles = [">Work ns", ">Path ns", ">Predicted Mpps", ">Measured Mpps", ">Error %", ">Idle %"];
    table(heading, &titles, rows)
}
