//! Figures of a benchmark: throughput by frame size, latency by load, loss by load, latency histograms.

use crate::{Latency, LossRow, Results, SizeResults};
use figure::Figure;
use figure::plot::{Axes, Column, Line, Point, columns, place, plot, ticks};
use figure::svg::tick;
use figure::text::number;
use measure::Estimate;
use std::collections::BTreeMap;

/// Histogram columns per power of two.
const COLUMNS: f64 = 4.0;

/// All figures for which there is data.
pub(crate) fn all(results: &Results, from: &str) -> Vec<Figure> {
    let mut figures = vec![throughput(results, false, from), throughput(results, true, from)];
    for (n, size) in results.sizes.iter().enumerate() {
        figures.extend([latency(n, size, from), histogram(n, size, from)]);
    }
    figures.push(loss(results, from));
    figures.into_iter().flatten().collect()
}

fn scaled(interval: Option<Estimate>, times: f64) -> Option<Estimate> {
    interval.map(|Estimate { median, low, high }| Estimate {
        median: median * times,
        low: low * times,
        high: high * times,
    })
}

fn throughput(results: &Results, bits: bool, from: &str) -> Option<Figure> {
    let unit = if bits { "Gbit/s" } else { "Mpps" };
    let line = |name: &str, of: fn(&SizeResults) -> Option<crate::Figure>| {
        let point = |(n, size): (usize, &SizeResults)| {
            let found = of(size)?;
            let times = if bits { size.bits(1.0) / 1e9 } else { 1e-6 };
            let at_least = if found.at_least { "at least " } else { "" };
            let y = found.value * times;
            let remark = found.suffix();
            let tip = format!("{name}, size {}: {at_least}{} {unit}{remark}", size.size, number(y));
            Some(Point { x: place(n), y, interval: scaled(found.interval, times), tip })
        };
        let points = results.sizes.iter().enumerate().filter_map(point).collect();
        Line { name: name.to_owned(), points, aside: false }
    };
    let pdr = format!("PDR, {} % lost", results.plan.loss * 100.0);
    let lines = [line("NDR, nothing lost", SizeResults::ndr), line(&pdr, SizeResults::pdr)];
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let axes = Axes {
        across: "size of frames, bytes without checksum",
        up: unit,
        ticks: ticks(results.sizes.iter().map(|size| size.size.clone())),
        ..Axes::default()
    };
    Some(Figure::new(
        if bits { "throughput-bits" } else { "throughput-frames" },
        format!("Throughput by size of frames, {unit}"),
        "Medians over rounds; whiskers are their 95 % intervals if there are at least six rounds. A point with \
         \"at least\" was bounded by the generator or by the ceiling, unless its search was not finished.",
        plot(&axes, &lines)?,
        from,
    ))
}

fn latency(n: usize, size: &SizeResults, from: &str) -> Option<Figure> {
    let rows = size.latency();
    let line = |name: &str, aside, of: &dyn Fn(&Latency) -> Option<f64>| {
        let point = |row: &Latency| {
            let y = of(row)? / 1e3;
            let tip = format!("{name} at {} %: {} us", row.load, number(y));
            Some(Point { x: row.load, y, interval: None, tip })
        };
        Line { name: name.to_owned(), points: rows.iter().filter_map(point).collect(), aside }
    };
    let mut lines: Vec<Line> = ["p50", "p90", "p99", "p99.9", "greatest"]
        .into_iter()
        .enumerate()
        .map(|(n, name)| line(name, false, &|row| Some(row.percentiles[n])))
        .collect();
    lines.push(line("baseline p50", true, &|row| row.baseline.map(|baseline| baseline[0])));
    lines.push(line("baseline p99", true, &|row| row.baseline.map(|baseline| baseline[1])));
    lines.retain(|line| !line.points.is_empty());
    let ticks = rows.iter().map(|row| (row.load, tick(row.load))).collect();
    let (across, up) = ("load, percent of NDR", "microseconds");
    let axes = Axes { across, up, ticks, decades: true, ..Axes::default() };
    Some(Figure::new(
        format!("latency-{n}"),
        format!("Latency by load, size {}", size.size),
        "From transmission to reception. The baseline is the same load without a switch, over a loopback \
         wire, and is part of every latency. Medians over rounds; logarithmic axis.",
        plot(&axes, &lines)?,
        from,
    ))
}

fn loss(results: &Results, from: &str) -> Option<Figure> {
    let line = |size: &SizeResults| {
        let point = |LossRow { percent, offered_pps, loss, short }: LossRow| {
            let short = if short { ", and the generator offered less than that" } else { "" };
            let tip = format!(
                "size {}, {percent} % of the ceiling, {} Mpps: {} % lost{short}",
                size.size,
                number(offered_pps / 1e6),
                number(loss * 100.0)
            );
            Point { x: percent, y: loss * 100.0, interval: None, tip }
        };
        Line {
            name: format!("size {}", size.size),
            points: size.loss().into_iter().map(point).collect(),
            aside: false,
        }
    };
    let lines: Vec<Line> = results.sizes.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let ticks = (0..=10).map(|tenth| (f64::from(tenth) * 10.0, (tenth * 10).to_string())).collect();
    let (across, up) = ("load, percent of the ceiling", "percent lost");
    Some(Figure::new(
        "loss",
        "Loss by load",
        "From the ceiling down in tens, until two consecutive loads lost nothing. Medians over rounds.",
        plot(&Axes { across, up, ticks, ..Axes::default() }, &lines)?,
        from,
    ))
}

/// Latency histogram at the highest measured load, with columns of equal width on a logarithmic axis.
fn histogram(n: usize, size: &SizeResults, from: &str) -> Option<Figure> {
    let load = size.latency().last()?.load;
    let mut counts = BTreeMap::<i64, u64>::new();
    for (upper, count) in size.histogram(load) {
        *counts.entry(((upper.max(1) as f64).log2() * COLUMNS).floor() as i64).or_default() += count;
    }
    let all: u64 = counts.values().sum();
    let edge = |column: i64| 2_f64.powf(column as f64 / COLUMNS) / 1e3;
    let column = |(column, count): (i64, u64)| {
        let (left, right) = (edge(column), edge(column + 1));
        let percent = count as f64 / all as f64 * 100.0;
        let [left_us, right_us, shown] = [left, right, percent].map(number);
        let tip = format!("{left_us} to {right_us} us: {count} frames, {shown} %");
        Column { across: (left, right), up: (0.0, percent), class: "rx", tip, ..Column::default() }
    };
    let all_columns: Vec<Column> = counts.into_iter().map(column).collect();
    Some(Figure::new(
        format!("histogram-{n}"),
        format!("Distribution of latency, size {}, {load} % of NDR", size.size),
        "All rounds together; columns have equal widths on the logarithmic axis.",
        columns("microseconds", "percent of frames", true, &all_columns)?,
        from,
    ))
}
