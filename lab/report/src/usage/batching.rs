//! Section on immediate and buffered sending: latency by load, and throughput.

use super::{Section, Table, decimals, usage_provenance};
use figure::Figure;
use figure::bars::{Bar, Bars, Part, bars};
use figure::plot::{Axes, Line, Point, place, plot, ticks};
use figure::svg::tick;
use figure::text::number;
use generator::meter::Summary;
use measure::Kind;
use std::collections::BTreeMap;
use studies::usage::Results;
use studies::usage::batching::Row;

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let rows = &results.batching;
    if rows.is_empty() {
        return None;
    }
    Some(Section {
        id: "batching",
        title: "Immediate and buffered sending".to_owned(),
        kind: Kind::Real,
        text: vec!["Sent at once, or through a buffer of N packets, which copies them.".to_owned()],
        tables: vec![table(rows)],
        figures: figures(rows, &usage_provenance(results)),
    })
}

fn table(rows: &[Row]) -> Table {
    let titles = ["Buffer", ">Load", ">Mpps", ">Lost %", ">p50 ns", ">p99 ns", ">p99.9 ns", ">Jitter ns"];
    let rows = rows.iter().map(|row| {
        let load = row.load.map_or("most".to_owned(), |load| format!("{:.0} %", load * 100.0));
        let buffer = if row.buffer == 0 { "none".to_owned() } else { row.buffer.to_string() };
        let mut cells = vec![buffer, load, decimals(row.received_pps / 1e6, 3)];
        cells.push(decimals(row.loss * 100.0, 3));
        let latency = row.latency_ns;
        cells.extend([latency.p50, latency.p99, latency.p999].map(|ns| ns.to_string()));
        cells.push(decimals(row.jitter_ns, 0));
        cells
    });
    Table::new("", &titles, rows)
}

fn figures(rows: &[Row], from: &str) -> Vec<Figure> {
    let latencies = [("p50", (|latency| latency.p50) as fn(&Summary) -> u64), ("p99", |latency| latency.p99)];
    let latencies = latencies.into_iter().map(|(percentile, of)| latency(rows, percentile, of, from));
    latencies.chain([rate(rows, from)]).flatten().collect()
}

/// Label of a buffer size.
fn buffer(size: u16) -> String {
    if size == 0 { "at once".to_owned() } else { format!("buffer of {size}") }
}

/// Sort key of a load; unlimited load is last. Loads are finite and not negative, so their bit patterns are ordered.
fn key(row: &Row) -> u64 {
    row.load.map_or(u64::MAX, |load| load.max(0.0).to_bits())
}

fn latency(rows: &[Row], percentile: &str, of: fn(&Summary) -> u64, from: &str) -> Option<Figure> {
    let shown = |row: &Row| row.load.map_or("most".to_owned(), |load| format!("{} %", tick(load * 100.0)));
    let loads: BTreeMap<u64, String> = rows.iter().map(|row| (key(row), shown(row))).collect();
    let mut by_buffer: BTreeMap<u16, Vec<Point>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.latency_ns.count > 0) {
        let Some(n) = loads.keys().position(|load| *load == key(row)) else { continue };
        let y = of(&row.latency_ns) as f64 / 1e3;
        let tip = format!("{}, load {}: {percentile} {} us", buffer(row.buffer), shown(row), number(y));
        by_buffer.entry(row.buffer).or_default().push(Point { x: place(n), y, interval: None, tip });
    }
    let line = |(size, mut points): (u16, Vec<Point>)| {
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        Line { name: buffer(size), points, aside: size == 0 }
    };
    let lines: Vec<Line> = by_buffer.into_iter().map(line).collect();
    let axes = Axes {
        across: "load, percent of the throughput without a buffer",
        up: "microseconds",
        ticks: ticks(loads.into_values()),
        decades: true,
        ..Axes::default()
    };
    let caption = "From handing a packet to the switch's port to its return; logarithmic axis. At the load \
                   \"most\" queues are full, so the latency is that of full queues. Dashed: without a buffer.";
    Some(Figure::new(
        figure::id(Kind::Real, &format!("batching-{percentile}")),
        format!("Latency ({percentile}) by load, for each buffer"),
        caption,
        plot(&axes, &lines)?,
        from,
    ))
}

fn rate(rows: &[Row], from: &str) -> Option<Figure> {
    let bar = |row: &Row| {
        let (mpps, lost) = (row.received_pps / 1e6, number(row.loss * 100.0));
        let (name, label) = (buffer(row.buffer), format!("{} Mpps", number(mpps)));
        let part = Part::new("rx", mpps, format!("{name}: {label}, {lost} % lost"));
        Bar { name, parts: vec![part], label, ..Bar::default() }
    };
    let mut most: Vec<&Row> = rows.iter().filter(|row| row.load.is_none()).collect();
    most.sort_by_key(|row| row.buffer);
    let bars_of = most.into_iter().map(bar).collect();
    Some(Figure::new(
        figure::id(Kind::Real, "batching-rate"),
        "Throughput by buffer",
        "Packets that were returned while as many were sent as the switch accepted. A buffer copies its packets, so a buffer \
         of N is to be compared with a buffer of 1.",
        bars(&Bars { axis: "Mpps", bars: bars_of, ..Bars::default() })?,
        from,
    ))
}
