//! Execution models: rate by work on each packet, in all and for each CPU.

use super::plot::{Axes, Line, Point, plot};
use super::{Figure, Sketch, finish};
use crate::cache::results::Kind;
use crate::report::text::number;
use crate::usage::models::{Layout, Measure, Row, curve};

/// Both figures.
pub(in crate::report) fn all(rows: &[Row], processor: &str) -> Vec<Figure> {
    let from = format!("Measured: {processor}, frames of 64 bytes");
    let sketches = [
        ("models-rate", "Rate by work on each packet", Measure::Rate, "Mpps"),
        (
            "models-rate-per-cpu",
            "Rate for each busy CPU by work on each packet",
            Measure::RatePerCpu,
            "Mpps a CPU",
        ),
    ];
    let drawn = sketches.into_iter().filter_map(|(id, title, measure, unit)| {
        let sketch = draw(rows, (id, title), measure, unit)?;
        Some(Figure { id: id.to_owned(), ..finish(1, Kind::Real, &from, sketch) })
    });
    drawn.collect()
}

fn draw(rows: &[Row], (name, title): (&'static str, &str), measure: Measure, unit: &str) -> Option<Sketch> {
    let line = |layout: Layout| {
        let point = |(x, y): (f64, f64)| {
            let tip = format!("{}, {x:.0} cycles: {} {unit}", layout.name(), number(y / 1e6));
            Point { x, y: y / 1e6, interval: None, tip }
        };
        let points = curve(rows, layout, measure).into_iter().map(point).collect();
        Line { name: layout.name().to_owned(), points, aside: false }
    };
    let lines: Vec<Line> = Layout::ALL.map(line).into_iter().filter(|line| !line.points.is_empty()).collect();
    Some(Sketch {
        name,
        title: title.to_owned(),
        caption: "Medians over rounds; powers of ten upwards. Where lines cross, another model is the faster one from there on."
            .to_owned(),
        drawing: plot(&axes(rows, unit), &lines)?,
    })
}

/// Words only where there is room for them beside each other.
fn axes<'a>(rows: &[Row], unit: &'a str) -> Axes<'a> {
    let mut cycles: Vec<u32> = rows.iter().map(|row| row.work_cycles).collect();
    cycles.sort_unstable();
    cycles.dedup();
    let room = f64::from(cycles.last().copied().unwrap_or(0)) / 25.0;
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for cycles in cycles {
        let at = f64::from(cycles);
        if ticks.last().is_none_or(|(last, _)| at - last >= room) {
            ticks.push((at, cycles.to_string()));
        }
    }
    Axes { across: "work on each packet, cycles of the time-stamp counter", up: unit, ticks, decades: true }
}
