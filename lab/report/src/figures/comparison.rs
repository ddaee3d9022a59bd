//! Figures of the switch comparison: throughput by frame size, latency at a load; one line per switch.

use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use figure::{Figure, Sketch, finish};
use measure::Kind;
use rfc2544::SizeResults;
use studies::usage::comparison::Entry;

/// All figures for which there is data.
pub(crate) fn all(entries: &[Entry], from: &str) -> Vec<Figure> {
    let sketches = [
        ("comparison-throughput", throughput(entries)),
        ("comparison-latency-50", latency(entries, 50.0)),
        ("comparison-latency-90", latency(entries, 90.0)),
    ];
    let drawn = |(id, sketch): (&str, Option<Sketch>)| {
        sketch.map(|sketch| finish(1, Kind::Real, from, sketch).with_id(id.to_owned()))
    };
    sketches.into_iter().filter_map(drawn).collect()
}

/// All frame sizes, in order of first appearance.
fn sizes(entries: &[Entry]) -> Vec<&str> {
    let mut sizes: Vec<&str> = Vec::new();
    for size in entries.iter().flat_map(|entry| &entry.results).flat_map(|results| &results.sizes) {
        if !sizes.contains(&size.size.as_str()) {
            sizes.push(&size.size);
        }
    }
    sizes
}

/// One line per switch, with its value for each size.
fn lines(entries: &[Entry], unit: &str, of: &dyn Fn(&SizeResults) -> Option<f64>) -> Vec<Line> {
    let places = sizes(entries);
    let line = |entry: &Entry| {
        let name = entry.subject.name();
        let point = |size: &SizeResults| {
            let x = places.iter().position(|place| *place == size.size)? as f64 + 0.5;
            let y = of(size).filter(|y| y.is_finite() && *y > 0.0)?;
            let tip = format!("{name}, size {}: {} {unit}", size.size, number(y));
            Some(Point { x, y, interval: None, tip })
        };
        let found = entry.results.iter().flat_map(|results| &results.sizes).filter_map(point);
        Line { name: name.to_owned(), points: found.collect(), aside: entry.subject.ours().is_some() }
    };
    entries.iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn draw(entries: &[Entry], up: &str, lines: &[Line]) -> Option<figure::svg::Drawing> {
    let ticks = sizes(entries).into_iter().enumerate().map(|(n, size)| (n as f64 + 0.5, size.to_owned()));
    let across = "size of frames, bytes without checksum";
    plot(&Axes { across, up, ticks: ticks.collect(), decades: true }, lines)
}

fn throughput(entries: &[Entry]) -> Option<Sketch> {
    let lines = lines(entries, "Mpps", &|size| size.pdr().map(|found| found.value / 1e6));
    Some(Sketch {
        name: "comparison-throughput",
        title: "Throughput of the field by size of frames".to_owned(),
        caption: "The rate of which no more than the agreed part is lost; medians over rounds, powers of ten upwards. Whole lines \
                  are linerate's own."
            .to_owned(),
        drawing: draw(entries, "Mpps", &lines)?,
    })
}

fn latency(entries: &[Entry], load: f64) -> Option<Sketch> {
    let at = |size: &SizeResults| size.latency().into_iter().find(|at| at.load.total_cmp(&load).is_eq());
    let lines = lines(entries, "us", &|size| at(size).map(|at| at.percentiles[2] / 1e3));
    Some(Sketch {
        name: "comparison-latency",
        title: format!("Latency of the field at {load} % of each one's own throughput, 99th percentile"),
        caption: "From transmission to reception; each at its own rate, so a fast switch is under more load than a slow one. \
                  Powers of ten upwards."
            .to_owned(),
        drawing: draw(entries, "microseconds", &lines)?,
    })
}
