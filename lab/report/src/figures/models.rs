//! Figures of execution models: rate by work per packet, in total and per CPU.

use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use figure::{Figure, Sketch, finish};
use measure::Kind;
use studies::usage::models::simulated;
use studies::usage::models::simulated::Cores;
use studies::usage::models::{Layout, Measure, Row, Simulated, curve};

/// A line's name and points.
type Curve = (&'static str, Vec<(f64, f64)>);

/// Figures of measured results.
pub(crate) fn measured(rows: &[Row], from: &str) -> Vec<Figure> {
    let curves = |measure| Layout::ALL.map(|layout| (layout.name(), curve(rows, layout, measure))).to_vec();
    let rate = Words { id: "models-rate", title: "Rate by work on each packet", unit: "Mpps" };
    let each = Words {
        id: "models-rate-per-cpu",
        title: "Rate for each busy CPU by work on each packet",
        unit: "Mpps a CPU",
    };
    let drawn = [(rate, Measure::Rate), (each, Measure::RatePerCpu)];
    drawn.into_iter().filter_map(|(words, of)| figure(&words, &curves(of), (Kind::Real, from))).collect()
}

/// Figures of simulated results.
pub(crate) fn simulated(rows: &[Simulated]) -> Vec<Figure> {
    let curves =
        |measure| Cores::ALL.map(|cores| (cores.name(), simulated::curve(rows, cores, measure))).to_vec();
    let rate = Words { id: "models-simulated-rate", title: "Rate by work on each packet", unit: "Mpps" };
    let each = Words {
        id: "models-simulated-rate-per-core",
        title: "Rate for each core by work on each packet",
        unit: "Mpps a core",
    };
    let from = (Kind::Simulated, "Simulated: i9-7940X at 3.1 GHz");
    let drawn = [(rate, Measure::Rate), (each, Measure::RatePerCpu)];
    drawn.into_iter().filter_map(|(words, of)| figure(&words, &curves(of), from)).collect()
}

/// Texts of a figure.
struct Words {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
}

fn figure(words: &Words, curves: &[Curve], (kind, from): (Kind, &str)) -> Option<Figure> {
    let line = |(name, points): &Curve| {
        let point = |&(x, y): &(f64, f64)| {
            let tip = format!("{name}, {x:.0} cycles: {} {}", number(y / 1e6), words.unit);
            Point { x, y: y / 1e6, interval: None, tip }
        };
        Line { name: (*name).to_owned(), points: points.iter().map(point).collect(), aside: false }
    };
    let curves = curves.iter().filter(|(_, points)| !points.is_empty());
    let lines: Vec<Line> = curves.map(line).collect();
    let sketch = Sketch {
        name: words.id,
        title: words.title.to_owned(),
        caption: "Powers of ten upwards. Where lines cross, another model is the faster one from there on."
            .to_owned(),
        drawing: plot(&axes(&lines, words.unit), &lines)?,
    };
    Some(finish(1, kind, from, sketch).with_id(words.id.to_owned()))
}

/// Axes; tick labels are left out if they would overlap.
fn axes<'a>(lines: &[Line], unit: &'a str) -> Axes<'a> {
    let points = lines.iter().flat_map(|line| &line.points);
    let mut cycles: Vec<u32> = points.map(|point| point.x as u32).collect();
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
    Axes { across: "work on each packet, cycles", up: unit, ticks, decades: true }
}
