//! Figures of queues and workers: measured results as bars, simulated ones as lines.

use figure::groups::{Bar, bars};
use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use figure::{Figure, Sketch, finish};
use measure::Kind;
use studies::usage::scaling::{Way, measured, simulated};

/// Measured throughput.
pub(crate) fn measured(rows: &[measured::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &measured::Row)| {
        let mpps = row.pps / 1e6;
        let way = if row.way == Way::Software { ", spread in software" } else { "" };
        let label = format!("workers {}, queues {}{way}", row.cpus.len(), row.queues);
        let begins = n > 0 && (rows[n - 1].way, rows[n - 1].cpus.len()) != (row.way, row.cpus.len());
        Bar { label, parts: vec![mpps], shown: format!("{mpps:.3}"), begins }
    };
    let bars_of: Vec<Bar> = rows.iter().enumerate().map(bar).collect();
    let sketch = Sketch {
        name: "scaling",
        title: "Packets a second by workers and queues".to_owned(),
        caption: "Flows are dealt out over queues by their hash, each worker has a CPU to itself.".to_owned(),
        drawing: bars("Mpps", &["Mpps"], &bars_of)?,
    };
    Some(finish(1, Kind::Real, from, sketch).with_id("scaling-measured".to_owned()))
}

/// Simulated throughput.
pub(crate) fn simulated(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let line = |way: Way| {
        let point = |row: &simulated::Row| {
            let y = row.outcome.per_kilocycle();
            let tip = format!("{} workers, {}: {} packets", row.workers, way.title(), number(y));
            Point { x: row.workers as f64, y, interval: None, tip }
        };
        let points = rows.iter().filter(|row| row.way == way).map(point).collect();
        Line { name: way.title().to_owned(), points, aside: false }
    };
    let ticks = simulated::WORKERS.map(|workers| (workers as f64, workers.to_string())).to_vec();
    let axes = Axes { across: "workers", up: "packets a 1000 cycles", ticks, decades: false };
    let sketch = Sketch {
        name: "scaling",
        title: "Packets a thousand cycles by workers".to_owned(),
        caption: "With queues each worker has its own flows; with one queue its taker is one of the workers and only hands \
                  packets to the others."
            .to_owned(),
        drawing: plot(&axes, &[Way::Queues, Way::Software].map(line))?,
    };
    Some(finish(1, Kind::Simulated, from, sketch).with_id("scaling-simulated".to_owned()))
}
