//! Figures of a benchmark: throughput by frame size, latency by load, loss by load, latency histograms.

use crate::{Latency, LossRow, Results, SizeResults};
use figure::plot::{Axes, Line, Point, plot};
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Figure, Sketch, TOP, finish};
use measure::Estimate;
use measure::Kind;
use std::collections::BTreeMap;

/// Histogram bars per power of two.
const BARS: f64 = 4.0;
const LEFT: f64 = 70.0;
const WIDTH: f64 = 760.0;
const DEEP: f64 = 240.0;

/// All figures for which there is data.
pub(crate) fn all(results: &Results, from: &str) -> Vec<Figure> {
    let mut sketches: Vec<(String, Sketch)> = Vec::new();
    let mut add = |id: String, sketch: Option<Sketch>| sketches.extend(sketch.map(|sketch| (id, sketch)));
    add("throughput-frames".to_owned(), throughput(results, false));
    add("throughput-bits".to_owned(), throughput(results, true));
    for (n, size) in results.sizes.iter().enumerate() {
        add(format!("latency-{n}"), latency(size));
        add(format!("histogram-{n}"), histogram(size));
    }
    add("loss".to_owned(), loss(results));
    sketches.into_iter().map(|(id, sketch)| finish(1, Kind::Real, from, sketch).with_id(id)).collect()
}

fn scaled(interval: Option<Estimate>, times: f64) -> Option<Estimate> {
    interval.map(|Estimate { median, low, high }| Estimate {
        median: median * times,
        low: low * times,
        high: high * times,
    })
}

fn throughput(results: &Results, bits: bool) -> Option<Sketch> {
    let unit = if bits { "Gbit/s" } else { "Mpps" };
    let line = |name: &str, of: fn(&SizeResults) -> Option<crate::Figure>| {
        let point = |(n, size): (usize, &SizeResults)| {
            let found = of(size)?;
            let times = if bits { size.bits(1.0) / 1e9 } else { 1e-6 };
            let at_least = if found.at_least { "at least " } else { "" };
            let y = found.value * times;
            let remark = found.suffix();
            let tip = format!("{name}, size {}: {at_least}{} {unit}{remark}", size.size, number(y));
            Some(Point { x: n as f64 + 0.5, y, interval: scaled(found.interval, times), tip })
        };
        let points = results.sizes.iter().enumerate().filter_map(point).collect();
        Line { name: name.to_owned(), points, aside: false }
    };
    let pdr = format!("PDR, {} % lost", results.plan.loss * 100.0);
    let lines = [line("NDR, nothing lost", SizeResults::ndr), line(&pdr, SizeResults::pdr)];
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let ticks = results.sizes.iter().enumerate().map(|(n, size)| (n as f64 + 0.5, size.size.clone()));
    let axes = Axes {
        across: "size of frames, bytes without checksum",
        up: unit,
        ticks: ticks.collect(),
        decades: false,
    };
    Some(Sketch {
        name: "throughput",
        title: format!("Throughput by size of frames, {unit}"),
        caption: "Medians over rounds; uprights are their 95 % intervals where there are six rounds or \
                  more. A point that says \"at least\" was bounded by the generator or by the ceiling, unless its \
                  search was not finished."
            .to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}

fn latency(size: &SizeResults) -> Option<Sketch> {
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
    let axes = Axes { across: "load, percent of NDR", up: "microseconds", ticks, decades: true };
    Some(Sketch {
        name: "latency",
        title: format!("Latency by load, size {}", size.size),
        caption:
            "From transmission to reception. The baseline is the same load without a switch, over a loopback \
                  wire, and is part of every latency. Medians over rounds; powers of ten upwards."
                .to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}

fn loss(results: &Results) -> Option<Sketch> {
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
    let axes = Axes { across: "load, percent of the ceiling", up: "percent lost", ticks, decades: false };
    Some(Sketch {
        name: "loss",
        title: "Loss by load".to_owned(),
        caption: "From the ceiling down in tens, until two loads in a row lost nothing. Medians over rounds."
            .to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}

/// Latency histogram at the highest measured load, with bars of equal width on a logarithmic axis.
fn histogram(size: &SizeResults) -> Option<Sketch> {
    let load = size.latency().last()?.load;
    let mut bars = BTreeMap::<i64, u64>::new();
    for (upper, count) in size.histogram(load) {
        *bars.entry(((upper.max(1) as f64).log2() * BARS).floor() as i64).or_default() += count;
    }
    let all: u64 = bars.values().sum();
    let edge = |bar: i64| 2_f64.powf(bar as f64 / BARS) / 1e3;
    let (first, last) = (*bars.first_key_value()?.0, *bars.last_key_value()?.0);
    let most = bars.values().copied().max()? as f64 / all as f64 * 100.0;
    let bottom = TOP + 14.0 + DEEP;
    let x = Scale::decades(edge(first), edge(last + 1), LEFT, WIDTH);
    let y = Scale::linear(most, bottom, -DEEP);
    let mut drawing = Drawing::new(LEFT + WIDTH + 30.0, bottom + 40.0 + FOOT);
    drawing.text(8.0, TOP + 4.0, Anchor::Start, "small", "percent of frames");
    for value in y.ticks(5) {
        drawing.line((LEFT, y.at(value)), (LEFT + WIDTH, y.at(value)), "grid");
        drawing.text(LEFT - 6.0, y.at(value) + 4.0, Anchor::End, "small", &tick(value));
    }
    for (bar, count) in bars {
        let (left, right) = (x.at(edge(bar)), x.at(edge(bar + 1)));
        let part = count as f64 / all as f64 * 100.0;
        let tip = format!(
            "{} to {} us: {count} frames, {} %",
            number(edge(bar)),
            number(edge(bar + 1)),
            number(part)
        );
        let top = y.at(part);
        drawing.rect(Area { x: left, y: top, width: right - left, height: bottom - top }, "rx", &tip);
    }
    for value in x.ticks(8) {
        drawing.line((x.at(value), bottom), (x.at(value), bottom + 5.0), "axis");
        drawing.text(x.at(value), bottom + 17.0, Anchor::Middle, "small", &tick(value));
    }
    drawing.line((LEFT, bottom), (LEFT + WIDTH, bottom), "axis");
    drawing.text(LEFT + WIDTH / 2.0, bottom + 33.0, Anchor::Middle, "small", "microseconds");
    Some(Sketch {
        name: "histogram",
        title: format!("Where latencies lie, size {}, {load} % of NDR", size.size),
        caption: "All rounds together; bars have equal widths by their logarithms.".to_owned(),
        drawing,
    })
}
