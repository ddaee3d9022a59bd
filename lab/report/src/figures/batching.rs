//! Figures of immediate and buffered sending: latency by load, and throughput.

use figure::bars::{Bar, Part, bars};
use figure::of_use;
use figure::plot::{Axes, Line, Point, plot};
use figure::svg::tick;
use figure::text::number;
use figure::{Figure, Sketch};
use generator::meter::Summary;
use measure::Kind;
use std::collections::BTreeMap;
use studies::usage::batching::Row;

/// All figures for which there is data.
pub(crate) fn batching(rows: &[Row], from: &str) -> Vec<Figure> {
    let median = |latency: &Summary| latency.p50;
    let latencies =
        [("batching-p50", "p50", median as fn(&Summary) -> u64), ("batching-p99", "p99", |l| l.p99)];
    let latencies = latencies.into_iter().map(|(name, percentile, of)| latency(rows, name, percentile, of));
    latencies.chain([rate(rows)]).flatten().map(|sketch| of_use(Kind::Real, from, sketch)).collect()
}

/// Label of a buffer size.
fn buffer(size: u16) -> String {
    if size == 0 { "at once".to_owned() } else { format!("buffer of {size}") }
}

/// Sort key of a load; unlimited load is last. Loads are finite and not negative, so their bit patterns are ordered.
fn key(row: &Row) -> u64 {
    row.load.map_or(u64::MAX, |load| load.max(0.0).to_bits())
}

fn latency(rows: &[Row], name: &'static str, percentile: &str, of: fn(&Summary) -> u64) -> Option<Sketch> {
    let mut loads: BTreeMap<u64, (f64, String)> = BTreeMap::new();
    for row in rows {
        let shown = row.load.map_or("most".to_owned(), |load| format!("{} %", tick(load * 100.0)));
        loads.insert(key(row), (0.0, shown));
    }
    loads.values_mut().enumerate().for_each(|(n, (place, _))| *place = n as f64 + 0.5);
    let mut by_buffer: BTreeMap<u16, Vec<Point>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.latency_ns.count > 0) {
        let Some((x, load)) = loads.get(&key(row)) else { continue };
        let y = of(&row.latency_ns) as f64 / 1e3;
        let tip = format!("{}, load {load}: {percentile} {} us", buffer(row.buffer), number(y));
        by_buffer.entry(row.buffer).or_default().push(Point { x: *x, y, interval: None, tip });
    }
    let line = |(size, mut points): (u16, Vec<Point>)| {
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        Line { name: buffer(size), points, aside: size == 0 }
    };
    let lines: Vec<Line> = by_buffer.into_iter().map(line).collect();
    let axes = Axes {
        across: "load, percent of what passes without a buffer",
        up: "microseconds",
        ticks: loads.into_values().collect(),
        decades: true,
    };
    let caption = "From giving a packet to the switch's port until it was taken back; powers of ten upwards. At the load \
                   \"most\" queues are full, so their length is what is seen there. In dashes: without a buffer.";
    Some(Sketch {
        name,
        title: format!("Latency ({percentile}) by load, for each buffer"),
        caption: caption.to_owned(),
        drawing: plot(&axes, &lines)?,
    })
}

fn rate(rows: &[Row]) -> Option<Sketch> {
    let bar = |row: &Row| {
        let mpps = row.received_pps / 1e6;
        let label = format!("{} Mpps", number(mpps));
        let tip = format!("{}: {label}, {} % lost", buffer(row.buffer), number(row.loss * 100.0));
        Bar { name: buffer(row.buffer), parts: vec![Part { class: "rx", value: mpps, tip }], label }
    };
    let mut most: Vec<&Row> = rows.iter().filter(|row| row.load.is_none()).collect();
    most.sort_by_key(|row| row.buffer);
    let all: Vec<Bar> = most.into_iter().map(bar).collect();
    Some(Sketch {
        name: "batching-rate",
        title: "What passes, by buffer".to_owned(),
        caption: "Packets that came back where as many were sent as were taken. A buffer copies what it keeps, so the fair \
                  neighbour of a buffer of N is a buffer of 1."
            .to_owned(),
        drawing: bars("Mpps", &[], &all)?,
    })
}
