//! Figures of the packet budget: call cost by burst size, predicted and measured rates, accuracy of delays.

use figure::bars::{Bar, Part, bars};
use figure::of_use;
use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use figure::{Figure, Sketch};
use measure::Kind;
use studies::usage::budget::{Budget, Calls, Prediction};
use studies::usage::delay::Reading;

/// All figures for which there is data.
pub(crate) fn budget(budget: &Budget, from: &str) -> Vec<Figure> {
    let sketches = [delays(&budget.delays), calls(&budget.calls), predictions(&budget.predictions)];
    sketches.into_iter().flatten().map(|sketch| of_use(Kind::Real, from, sketch)).collect()
}

/// Ticks at equal distances with these labels.
fn ticks(words: impl Iterator<Item = String>) -> Vec<(f64, String)> {
    words.enumerate().map(|(n, word)| (n as f64 + 0.5, word)).collect()
}

/// A line with points at the positions of `ticks`.
fn line(name: &str, aside: bool, unit: &str, values: impl Iterator<Item = f64>) -> Line {
    let point = |(n, y): (usize, f64)| Point {
        x: n as f64 + 0.5,
        y,
        interval: None,
        tip: format!("{name}: {} {unit}", number(y)),
    };
    Line { name: name.to_owned(), points: values.enumerate().map(point).collect(), aside }
}

fn delays(readings: &[Reading]) -> Option<Sketch> {
    let bar = |read: &Reading| {
        let (asked, took, error) = (number(read.asked_ns), number(read.took_ns), number(read.error_percent));
        let class = if read.error_percent < 0.0 { "rx" } else { "guest" };
        let tip = format!("{asked} ns asked, {took} ns taken, off by {error} %");
        let parts = vec![Part { class, value: read.error_percent, tip }];
        Bar { name: format!("{asked} ns"), parts, label: format!("{took} ns, {error} %") }
    };
    let all: Vec<Bar> = readings.iter().map(bar).collect();
    Some(Sketch {
        name: "budget-delays",
        title: "How far a delay is off".to_owned(),
        caption: "What many delays behind one another took at the mean, against what was asked for. To the left: shorter."
            .to_owned(),
        drawing: bars("percent of what was asked for", &[("rx", "too short"), ("guest", "too long")], &all)?,
    })
}

fn calls(calls: &[Calls]) -> Option<Sketch> {
    let of = |name: &str, cost: fn(&Calls) -> f64| line(name, false, "ns", calls.iter().map(cost));
    let lines =
        [of("rx", |c| c.rx_ns), of("tx", |c| c.tx_ns), of("tx through a buffer of 32", |c| c.buffered_ns)];
    let axes = Axes {
        across: "packets of a call",
        up: "nanoseconds a packet",
        ticks: ticks(calls.iter().map(|calls| calls.burst.to_string())),
        decades: false,
    };
    Some(Sketch {
        name: "budget-calls",
        title: "What a packet costs by burst".to_owned(),
        caption: "One thread at both ends of a wire, with every line in its cache; the cost of reading the counter is taken off."
            .to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}

fn predictions(predictions: &[Prediction]) -> Option<Sketch> {
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
    };
    Some(Sketch {
        name: "budget-predictions",
        title: "Rates that follow from costs, beside measured ones".to_owned(),
        caption: "Predicted: one packet for its work and what receiving and sending cost in runs of their own. Where the table \
                  shows much idle time, the source was the limit, and the cost is no prediction. Powers of ten upwards."
            .to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}
