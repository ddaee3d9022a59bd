//! HTML page and figures of a run.

use super::report::{Report, percentiles};
use figure::Figure;
use figure::page::{self, absent, table};
use figure::plot::{Axes, Line, Point, plot};
use figure::text::{count, number};
use maud::{Markup, html};
use rfc2544::page::place;
use serve::load::Point as Interval;

/// Smallest distance of two points of the latency curve, in nines.
const STEP: f64 = 0.02;

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let counts = report.counts().into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    let setup = setup(report).into_iter().filter(|(_, value)| !value.is_empty());
    let setup = setup.map(|(name, value)| vec![name.to_owned(), value]);
    let counters = report.host.counters.iter().map(|(name, value)| vec![name.to_owned(), count(value)]);
    let sections = html! {
        section id="figures" class="measured" {
            h2 { (report.workload) " to " (report.server) }
            @if let Some(error) = &report.error { (absent(error)) }
            (page::figures(&figures(report)))
        }
        section id="tables" {
            h2 { "Tables" }
            h3 { "Rounds" } (rounds(report))
            h3 { "Times" } (latencies(report))
            h3 { "Counts" } (table(Some("table-counts"), &["", "Number"], counts))
            h3 { "Counters of the client's stack" } (table(Some("table-counters"), &["Counter", ">Value"], counters))
        }
        section id="environment" {
            h2 { "Environment" }
            (table(Some("table-environment"), &["Property", "Value"], setup))
        }
    };
    let links = ["figures", "tables", "environment"].map(|id| (id.to_owned(), id.to_owned()));
    page::document("Load", &links, &sections)
}

/// Rates and latency of each round.
fn rounds(report: &Report) -> Markup {
    let rows = report.results.rounds.iter().enumerate().map(|(n, round)| {
        let rates = [round.replies_per_second, round.connects_per_second, round.bytes_per_second];
        let latency = percentiles(&round.latency_ns).map(|(_, value)| number(value));
        std::iter::once((n + 1).to_string())
            .chain(rates.map(|rate| count(rate as u64)))
            .chain(latency)
            .collect()
    });
    let titles = [
        ">Round",
        ">Replies/s",
        ">Connections/s",
        ">Bytes/s",
        ">Min, us",
        ">Mean",
        ">p50",
        ">p90",
        ">p99",
        ">p99.9",
        ">Max",
    ];
    table(Some("table-rounds"), &titles, rows)
}

/// Latencies of all rounds.
fn latencies(report: &Report) -> Markup {
    let rows = report.latencies().into_iter().map(|(name, latency)| {
        let values = percentiles(latency).map(|(_, value)| number(value));
        [name.to_owned(), count(latency.count)].into_iter().chain(values).collect()
    });
    let titles = ["", ">Count", ">Min, us", ">Mean", ">p50", ">p90", ">p99", ">p99.9", ">Max"];
    table(Some("table-latency"), &titles, rows)
}

fn setup(report: &Report) -> Vec<(&'static str, String)> {
    let rate = report.target_rate.map_or_else(String::new, |rate| format!(", {} requests/s", number(rate)));
    let short = report.requests_per_connection.map(|n| n.to_string()).unwrap_or_default();
    let mut rows = vec![
        ("Loop", format!("{}{rate}, depth {}", report.mode, report.depth)),
        ("Requests for each connection", short),
        ("Port", report.port.clone()),
    ];
    rows.extend(place(&report.environment));
    rows
}

/// A count of an interval.
type CountOf = fn(&Interval) -> u64;

/// All figures for which there is data.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let place = &report.environment;
    let from = format!("Measured: {}, {}", place.processor, place.date);
    let rates: [(&str, &str, CountOf); 3] = [
        ("replies", "Replies per second", |point| point.replies),
        ("connects", "Connections established per second", |point| point.connects),
        ("failures", "Failures per second", |point| point.failures),
    ];
    let rates = rates.into_iter().map(|(id, title, of)| over_time(report, id, title, of, &from));
    std::iter::once(latency(report, &from)).chain(rates).flatten().collect()
}

/// Latency by percentile, with an axis of nines.
fn latency(report: &Report, from: &str) -> Option<Figure> {
    let results = &report.results;
    let total = results.latency_ns.count as f64;
    let (mut below, mut points, mut last) = (0_u64, Vec::new(), f64::NEG_INFINITY);
    for (upper, count) in &results.histogram {
        below += count;
        // The largest value is drawn at the percentile of one half of a request.
        let x = -(1.0 - below as f64 / total).max(0.5 / total).log10();
        if x - last < STEP && below < results.latency_ns.count {
            continue;
        }
        let y = (*upper).min(results.latency_ns.max) as f64 / 1e3;
        let tip =
            format!("{} % of the requests: at most {} us", number(below as f64 / total * 100.0), number(y));
        points.push(Point { x, y: y.max(1e-3), interval: None, tip });
        last = x;
    }
    let end = points.last()?.x.ceil() as u32;
    let ticks = [(0.0, "0".to_owned()), (0.5_f64.log10().abs(), "50".to_owned())];
    let nines = (1..=end.max(1)).map(|n| (f64::from(n), percent_of_nines(n)));
    let axes = Axes {
        across: "percent of the requests",
        up: "microseconds",
        ticks: ticks.into_iter().chain(nines).collect(),
        decades: true,
        ..Axes::default()
    };
    let line = Line { name: "latency".to_owned(), points, aside: false };
    let caption = if report.mode == "open" {
        "From the time at which a request was due to its complete reply, all rounds."
    } else {
        "From the time at which a request was sent to its complete reply, all rounds."
    };
    Some(Figure::new("latency", "Latency by percentile", caption, plot(&axes, &[line])?, from))
}

/// 90, 99, 99.9, ...
fn percent_of_nines(n: u32) -> String {
    match n {
        1 => "90".to_owned(),
        2 => "99".to_owned(),
        n => format!("99.{}", "9".repeat(n as usize - 2)),
    }
}

/// Events per second over the run; `None` if there were none.
fn over_time(report: &Report, id: &str, title: &str, of: fn(&Interval) -> u64, from: &str) -> Option<Figure> {
    let series = &report.results.series;
    let point = |(n, interval): (usize, &Interval)| {
        let (x, y) = ((n as f64 + 0.5) * series.interval, of(interval) as f64 / series.interval);
        Point { x, y, interval: None, tip: format!("{} s: {} per second", number(x), number(y)) }
    };
    if series.points.iter().all(|interval| of(interval) == 0) {
        return None;
    }
    let points: Vec<Point> = series.points.iter().enumerate().map(point).collect();
    let end = series.points.len() as f64 * series.interval;
    let ticks = (0..=10).map(|tenth| end * f64::from(tenth) / 10.0).map(|at| (at, number(at))).collect();
    let axes =
        Axes { across: "seconds since the first connection", up: "per second", ticks, ..Axes::default() };
    let caption = match (series.begin, series.end) {
        (Some(begin), Some(end)) => format!("The rounds are from {} s to {} s.", number(begin), number(end)),
        _ => "The run ended before the first round.".to_owned(),
    };
    let line = Line { name: id.to_owned(), points, aside: false };
    Some(Figure::new(id, title, caption, plot(&axes, &[line])?, from))
}
