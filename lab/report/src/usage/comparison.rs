//! Section on the switch comparison: throughput by frame size, latency and jitter at fractions of each switch's own
//! throughput, and switches that could not take part.

use super::{Section, Table, decimals};
use figure::Figure;
use figure::plot::{Axes, Line, Point, place, plot, ticks};
use figure::svg::Drawing;
use figure::text::number;
use measure::Kind;
use rfc2544::{Figure as Rate, Latency, SizeResults};
use studies::usage::Results;
use studies::usage::comparison::{Entry, Over};

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let entries = &results.comparison;
    if entries.is_empty() {
        return None;
    }
    let text = "Each switch has one CPU, the generator another; inline, the switch runs within the generator. There is no guest: \
                frames enter by one port and leave by another. Ratios are to linerate over the same kind of port, medians of rounds in \
                which the two CPUs were near each other; above 1 the other switch is faster. Results over TAP include the kernel's part \
                of the generator's own calls.";
    let tables = [throughput(entries), latency(entries), distances(entries), absent(entries)];
    Some(Section {
        id: "comparison",
        title: "Comparison of switches".to_owned(),
        kind: Kind::Real,
        text: vec![text.to_owned()],
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        figures: figures(entries, &super::usage_provenance(results)),
    })
}

fn sizes(entry: &Entry) -> impl Iterator<Item = &SizeResults> {
    entry.results.iter().flat_map(|results| &results.sizes)
}

/// Throughput of a switch for this size, over rounds in which the two CPUs were near each other.
fn near(entries: &[Entry], entry: &Entry, size: &str) -> Option<Rate> {
    let (rounds, size) = (entry.near(entries), sizes(entry).find(|other| other.size == size)?);
    let rounds = rounds.iter().filter_map(|round| size.rounds.get(*round)).cloned().collect();
    SizeResults { rounds, ..size.clone() }.pdr().filter(|found| !found.unfinished)
}

/// That throughput relative to the one of linerate over the same kind of port.
fn ratio(entries: &[Entry], entry: &Entry, size: &str) -> Option<f64> {
    let ours = entries.iter().find(|other| Some(other.subject) == entry.subject.ours())?;
    let [ours, other] = [near(entries, ours, size)?, near(entries, entry, size)?];
    (ours.value > 0.0).then(|| other.value / ours.value)
}

fn bounded(rate: Option<Rate>, times: f64, digits: usize) -> String {
    let shown = |rate: Rate| {
        let at_least = if rate.at_least { ">= " } else { "" };
        format!("{at_least}{}{}", decimals(rate.value * times, digits), rate.suffix())
    };
    rate.map_or_else(|| "-".to_owned(), shown)
}

fn throughput(entries: &[Entry]) -> Table {
    let row = |entry: &Entry, size: &SizeResults| {
        let ratio = ratio(entries, entry, &size.size);
        vec![
            entry.subject.name().to_owned(),
            entry.subject.over().name().to_owned(),
            size.size.clone(),
            bounded(size.ndr(), 1e-6, 3),
            bounded(size.pdr(), 1e-6, 3),
            bounded(size.pdr(), size.bits(1.0) / 1e9, 2),
            ratio.map_or_else(String::new, |ratio| decimals(ratio, 2)),
            size.rounds.len().to_string(),
            entry.near(entries).len().to_string(),
        ]
    };
    let rows = entries.iter().flat_map(|entry| sizes(entry).map(move |size| row(entry, size)));
    let titles =
        ["Switch", "Over", ">Size", ">NDR Mpps", ">PDR Mpps", ">Gbit/s", ">PDR ratio", ">Rounds", ">Near"];
    Table::new("Throughput", &titles, rows)
}

fn latency(entries: &[Entry]) -> Table {
    let row = |entry: &Entry, size: &SizeResults, at: &Latency| {
        let micro = |nanoseconds: f64| decimals(nanoseconds / 1e3, 2);
        let mut row = vec![entry.subject.name().to_owned(), size.size.clone(), format!("{}", at.load)];
        row.push(decimals(at.pps / 1e6, 3));
        row.extend([at.percentiles[0], at.percentiles[2], at.jitter].map(micro));
        row.push(at.baseline.map_or_else(String::new, |baseline| micro(baseline[1])));
        row.push(decimals(at.loss * 100.0, 3));
        row
    };
    let of = |entry, size: &SizeResults| {
        size.latency().iter().map(|at| row(entry, size, at)).collect::<Vec<Vec<String>>>()
    };
    let rows = entries.iter().flat_map(|entry| sizes(entry).flat_map(move |size| of(entry, size)));
    let titles = [
        "Switch",
        ">Size",
        ">% of NDR",
        ">Mpps",
        ">p50 us",
        ">p99 us",
        ">Jitter us",
        ">Baseline p99 us",
        ">Lost %",
    ];
    let heading = "Latency and jitter, medians over trials and rounds";
    Table::new(heading, &titles, rows)
}

/// Distances of the two CPUs in each round, for switches that need two.
fn distances(entries: &[Entry]) -> Table {
    let row = |entry: &Entry| {
        let shown =
            |distance: &Option<f64>| distance.map_or_else(|| "-".to_owned(), |found| decimals(found, 0));
        let round = |both: &[Option<f64>; 2]| both.iter().map(shown).collect::<Vec<_>>().join(" to ");
        let rounds: Vec<String> = entry.distances.iter().map(round).collect();
        vec![entry.subject.name().to_owned(), rounds.join(", ")]
    };
    let two = |entry: &&Entry| entry.subject.over() == Over::Sockets && !entry.distances.is_empty();
    let heading = "Nanoseconds of a line from CPU to CPU and back, before and after each round";
    Table::new(heading, &["Switch", "Rounds"], entries.iter().filter(two).map(row))
}

fn absent(entries: &[Entry]) -> Table {
    let row = |entry: &Entry| Some(vec![entry.subject.name().to_owned(), entry.why.clone()?]);
    Table::new(
        "Switches that were not measured to the end",
        &["Switch", "Reason"],
        entries.iter().filter_map(row),
    )
}

fn figures(entries: &[Entry], from: &str) -> Vec<Figure> {
    let latencies = [50.0, 90.0].map(|load| latency_figure(entries, load, from));
    std::iter::once(throughput_figure(entries, from)).chain(latencies).flatten().collect()
}

/// Draws one line per switch, with a value for each frame size in order of first appearance.
fn by_size(
    entries: &[Entry],
    [unit, up]: [&str; 2],
    of: &dyn Fn(&SizeResults) -> Option<f64>,
) -> Option<Drawing> {
    let mut places: Vec<&str> = Vec::new();
    for size in entries.iter().flat_map(sizes) {
        if !places.contains(&size.size.as_str()) {
            places.push(&size.size);
        }
    }
    let line = |entry: &Entry| {
        let name = entry.subject.name();
        let point = |size: &SizeResults| {
            let x = place(places.iter().position(|place| *place == size.size)?);
            let y = of(size).filter(|y| y.is_finite() && *y > 0.0)?;
            let tip = format!("{name}, size {}: {} {unit}", size.size, number(y));
            Some(Point { x, y, interval: None, tip })
        };
        let points = sizes(entry).filter_map(point).collect();
        Line { name: name.to_owned(), points, aside: entry.subject.ours().is_some() }
    };
    let lines: Vec<Line> = entries.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let across = "size of frames, bytes without checksum";
    let ticks = ticks(places.iter().map(|size| (*size).to_owned()));
    plot(&Axes { across, up, ticks, decades: true, ..Axes::default() }, &lines)
}

fn throughput_figure(entries: &[Entry], from: &str) -> Option<Figure> {
    let mpps = |size: &SizeResults| size.pdr().map(|found| found.value / 1e6);
    Some(Figure::new(
        "comparison-throughput",
        "Throughput by size of frames",
        "The rate at which no more than the agreed fraction is lost; medians over rounds, logarithmic axis. Solid lines \
         are linerate's own.",
        by_size(entries, ["Mpps", "Mpps"], &mpps)?,
        from,
    ))
}

fn latency_figure(entries: &[Entry], load: f64, from: &str) -> Option<Figure> {
    let at = |size: &SizeResults| size.latency().into_iter().find(|at| at.load.total_cmp(&load).is_eq());
    let micro = |size: &SizeResults| at(size).map(|at| at.percentiles[2] / 1e3);
    Some(Figure::new(
        format!("comparison-latency-{load}"),
        format!("Latency at {load} % of each switch's own throughput, 99th percentile"),
        "From transmission to reception, each at its own rate, so a fast switch is under more load than a slow one. \
         Logarithmic axis.",
        by_size(entries, ["us", "microseconds"], &micro)?,
        from,
    ))
}
