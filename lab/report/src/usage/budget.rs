//! Section on the cost of a packet and the resulting rate.

use super::{Section, Table, decimals, signed, usage_provenance};
use crate::figures;
use measure::Kind;
use studies::usage::Results;
use studies::usage::budget::{Budget, Calls, Prediction};
use studies::usage::delay::Reading;

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let budget: &Budget = results.budget.as_ref()?;
    Some(Section {
        id: "budget",
        title: "The budget of a packet".to_owned(),
        kind: Kind::Real,
        words: vec![format!("One step of the delay is {} ns.", decimals(budget.step_ns, 2))],
        tables: vec![delays(&budget.delays), calls(&budget.calls), predictions(&budget.predictions)],
        figures: figures::budget(budget, &usage_provenance(results)),
    })
}

fn table(heading: &str, titles: &[&'static str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    Table { heading: heading.to_owned(), titles: titles.to_vec(), rows: rows.collect() }
}

fn delays(readings: &[Reading]) -> Table {
    let rows = readings.iter().map(|read| {
        vec![decimals(read.asked_ns, 0), decimals(read.took_ns, 2), signed(read.error_percent, 2)]
    });
    table("Delays", &[">Asked ns", ">Took ns", ">Error %"], rows)
}

fn calls(calls: &[Calls]) -> Table {
    let rows = calls.iter().map(|calls| {
        let costs = [calls.rx_ns, calls.tx_ns, calls.buffered_ns].map(|ns| decimals(ns, 1));
        [vec![calls.burst.to_string()], costs.to_vec()].concat()
    });
    let heading = "What a packet costs by burst, in nanoseconds, on one thread";
    table(heading, &[">Burst", ">rx", ">tx", ">tx buffered"], rows)
}

fn predictions(predictions: &[Prediction]) -> Table {
    let rows = predictions.iter().map(|row| {
        vec![
            decimals(row.delay_ns, 0),
            decimals(row.path_ns, 1),
            decimals(row.predicted_pps / 1e6, 3),
            decimals(row.measured_pps / 1e6, 3),
            signed(row.error_percent(), 1),
            decimals(row.idle * 100.0, 0),
        ]
    });
    let heading =
        "Rates from costs; with much idle time the source was the limit, and the cost is no prediction";
    let titles = [">Work ns", ">Path ns", ">Predicted Mpps", ">Measured Mpps", ">Error %", ">Idle %"];
    table(heading, &titles, rows)
}
