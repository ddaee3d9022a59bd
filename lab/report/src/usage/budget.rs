//! Section on the cost of a packet and the resulting rate.

use super::{Section, Table, decimals, signed, usage_provenance};
use figure::Figure;
use figure::bars::{Bar, Bars, Part, bars};
use figure::plot::{Axes, Line, Point, place, plot, ticks};
use figure::svg::Key;
use figure::text::number;
use measure::Kind;
use studies::usage::Results;
use studies::usage::budget::{Budget, Calls, Prediction};
use studies::usage::delay::Reading;

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let budget: &Budget = results.budget.as_ref()?;
    Some(Section {
        id: "budget",
        title: "Cycle budget of a packet".to_owned(),
        kind: Kind::Real,
        text: vec![format!("One step of the delay is {} ns.", decimals(budget.step_ns, 2))],
        tables: vec![delays(&budget.delays), calls(&budget.calls), predictions(&budget.predictions)],
        figures: figures(budget, &usage_provenance(results)),
    })
}

fn delays(readings: &[Reading]) -> Table {
    let rows = readings.iter().map(|read| {
        vec![decimals(read.asked_ns, 0), decimals(read.took_ns, 2), signed(read.error_percent, 2)]
    });
    Table::new("Delays", &[">Requested ns", ">Measured ns", ">Error %"], rows)
}

fn calls(calls: &[Calls]) -> Table {
    let rows = calls.iter().map(|calls| {
        let costs = [calls.rx_ns, calls.tx_ns, calls.buffered_ns].map(|ns| decimals(ns, 1));
        [vec![calls.burst.to_string()], costs.to_vec()].concat()
    });
    let heading = "Cost of a packet by burst, in nanoseconds, on one thread";
    Table::new(heading, &[">Burst", ">rx", ">tx", ">tx buffered"], rows)
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
    Table::new(heading, &titles, rows)
}

fn figures(budget: &Budget, from: &str) -> Vec<Figure> {
    let Budget { delays, calls, predictions, .. } = budget;
    let figures = [delay_errors(delays, from), call_costs(calls, from), predicted_rates(predictions, from)];
    figures.into_iter().flatten().collect()
}

/// A line with points at the positions of [`ticks`].
fn line(name: &str, aside: bool, unit: &str, values: impl Iterator<Item = f64>) -> Line {
    let tip = |y: f64| format!("{name}: {} {unit}", number(y));
    let point = |(n, y): (usize, f64)| Point { x: place(n), y, interval: None, tip: tip(y) };
    Line { name: name.to_owned(), points: values.enumerate().map(point).collect(), aside }
}

fn delay_errors(readings: &[Reading], from: &str) -> Option<Figure> {
    let bar = |read: &Reading| {
        let [requested, took, error] = [read.asked_ns, read.took_ns, read.error_percent].map(number);
        let class = if read.error_percent < 0.0 { "rx" } else { "guest" };
        let tip = format!("{requested} ns requested, {took} ns measured, error {error} %");
        let (name, label) = (format!("{requested} ns"), format!("{took} ns, {error} %"));
        Bar { name, parts: vec![Part::new(class, read.error_percent, tip)], label, ..Bar::default() }
    };
    let drawing = bars(&Bars {
        axis: "percent of the requested delay",
        keys: vec![Key::new("rx", "too short"), Key::new("guest", "too long")],
        bars: readings.iter().map(bar).collect(),
        ..Bars::default()
    })?;
    Some(Figure::new(
        figure::id(Kind::Real, "budget-delays"),
        "Error of a delay",
        "Mean of many consecutive delays, relative to the requested delay. To the left: shorter.",
        drawing,
        from,
    ))
}

fn call_costs(calls: &[Calls], from: &str) -> Option<Figure> {
    let of = |name: &str, cost: fn(&Calls) -> f64| line(name, false, "ns", calls.iter().map(cost));
    let lines =
        [of("rx", |c| c.rx_ns), of("tx", |c| c.tx_ns), of("tx through a buffer of 32", |c| c.buffered_ns)];
    let axes = Axes {
        across: "packets of a call",
        up: "nanoseconds a packet",
        ticks: ticks(calls.iter().map(|calls| calls.burst.to_string())),
        ..Axes::default()
    };
    Some(Figure::new(
        figure::id(Kind::Real, "budget-calls"),
        "Cost of a packet by burst",
        "One thread at both ends of a wire, with every line in its cache; the cost of reading the counter is subtracted.",
        plot(&axes, &lines)?,
        from,
    ))
}

fn predicted_rates(predictions: &[Prediction], from: &str) -> Option<Figure> {
    let of = |name: &str, aside, rate: fn(&Prediction) -> f64| {
        line(name, aside, "Mpps", predictions.iter().map(|row| rate(row) / 1e6))
    };
    let lines =
        [of("measured", false, |row| row.measured_pps), of("predicted", true, |row| row.predicted_pps)];
    let axes = Axes {
        across: "work on each packet, nanoseconds",
        up: "Mpps",
        ticks: ticks(predictions.iter().map(|row| number(row.delay_ns))),
        decades: true,
        ..Axes::default()
    };
    Some(Figure::new(
        figure::id(Kind::Real, "budget-predictions"),
        "Rates predicted from costs, and measured rates",
        "Predicted: one packet per time of its work plus the costs of receiving and sending, each measured in a separate \
         run. Where the table shows much idle time, the source was the limit, and the cost is no prediction. Logarithmic axis.",
        plot(&axes, &lines)?,
        from,
    ))
}
