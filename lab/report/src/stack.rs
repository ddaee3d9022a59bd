//! Studies of the TCP/IP stack for readers: a section per study with medians, ratios, a figure, and the figures that
//! others published. Published figures are in tables of their own and in one column; they enter no figure.

use super::usage::{self, Section, Table};
use figure::Figure;
use figure::bars::{Bar, Bars, Part, bars};
use figure::page::{self, absent, table};
use figure::plot::{Axes, Line, Point, place, plot, ticks};
use figure::text::{count, number};
use maud::{Markup, html};
use measure::distance::Class;
use measure::{Estimate, Kind};
use studies::stack::{Cell, PUBLISHED, Results, Study};

const ENVIRONMENT: &str = "Environment";

/// The sections of all studies that have readings, in order.
pub fn stack_sections(results: &Results) -> Vec<Section> {
    Study::ALL.into_iter().filter_map(|study| section(results, study)).collect()
}

/// Provenance line of figures, and of the text.
pub fn stack_provenance(results: &Results) -> String {
    let on = if results.processor.is_empty() { "unknown processor" } else { &results.processor };
    let (place, requests) = (&results.environment, results.requests);
    let cpus = place.used.switch.zip(place.used.generator);
    let cpus = cpus.map_or_else(String::new, |(one, other)| format!(", CPUs {one} and {other}"));
    format!("Measured: {on}{cpus}, {} requests a reading, {}", count(requests), place.date)
}

/// The whole page.
pub fn stack_page(results: &Results) -> String {
    let sections = stack_sections(results);
    let links = sections.iter().map(|section| (section.id.to_owned(), section.title.clone()));
    let links: Vec<_> = links.chain([("where".to_owned(), ENVIRONMENT.to_owned())]).collect();
    let parts = html! {
        @if sections.is_empty() { (absent(crate::page::NOTHING)) }
        @for section in &sections { (usage::study("", section, &section.figures)) }
        section id="where" { h2 { (ENVIRONMENT) } (environment("", results)) }
    };
    page::document("Studies of the TCP/IP stack", &links, &parts)
}

/// Heading of the `number`-th set of the laboratory's page.
pub(super) fn heading(number: usize, results: &Results) -> String {
    format!("{number}. Studies of the TCP/IP stack: {}", results.processor)
}

/// That set.
pub(super) fn part(number: usize, results: &Results) -> Markup {
    let environment = environment(&format!("{number}-"), results);
    usage::set(number, &heading(number, results), &stack_sections(results), &environment)
}

fn environment(before: &str, results: &Results) -> Markup {
    let rows = rfc2544::page::place(&results.environment).into_iter();
    let rows = rows.filter(|(_, value)| !value.is_empty()).map(|(name, value)| vec![name.to_owned(), value]);
    html! {
        p class="make" { (stack_provenance(results)) "." }
        (table(Some(&format!("table-{before}where")), &["Property", "Value"], rows))
    }
}

fn section(results: &Results, study: Study) -> Option<Section> {
    let cells = results.cells(study);
    if cells.is_empty() {
        return None;
    }
    let tables = [measured(results, study, &cells), published(study)];
    Some(Section {
        id: study.name(),
        title: study.title().to_owned(),
        kind: Kind::Real,
        text: [Some(study.about().to_owned()), crossing(results, study), distances(results, study)]
            .into_iter()
            .flatten()
            .collect(),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        figures: figure(results, study, &cells).into_iter().collect(),
    })
}

/// Medians of the cells, and ratios to the first variant.
fn measured(results: &Results, study: Study, cells: &[Cell]) -> Table {
    let (axis, unit) = (right(study.axis()), right(study.unit()));
    let more = study.more().iter().map(|name| right(name));
    let ratios = [">Ratio", ">From and to", ">Published ratio", ">Rounds"].map(str::to_owned);
    let titles: Vec<_> = [axis, "Variant".to_owned(), unit].into_iter().chain(more).chain(ratios).collect();
    let rows = cells.iter().map(|cell| {
        let ratio = results.ratio(cell);
        let more = (0..study.more().len()).map(|n| results.more(cell, n).map_or_else(dash, number));
        let published = ratio.and_then(|_| published_ratio(cell));
        let ratios = [
            ratio.map_or_else(dash, |ratio| format!("{:.2}", ratio.median)),
            ratio.map_or_else(dash, |ratio| format!("{:.2} to {:.2}", ratio.range.0, ratio.range.1)),
            published.map_or_else(dash, |ratio| format!("{ratio:.2}")),
            results.of(cell).count().to_string(),
        ];
        let median = results.median(cell).map_or_else(dash, number);
        [cell.at.to_string(), cell.variant.to_owned(), median].into_iter().chain(more).chain(ratios).collect()
    });
    let heading = format!("Measured: medians, and ratios to `{}` of the same round", study.variants()[0]);
    Table::new(&heading, &titles, rows)
}

/// The title of a column of numbers, with a capital letter unless it begins with a symbol: nanoseconds or a percentile.
fn right(name: &str) -> String {
    let mut title = format!(">{name}");
    let is_symbol = ["ns/", "p50 ", "p99 "].iter().any(|symbol| name.starts_with(symbol));
    if let Some(first) = title.get_mut(1..2).filter(|_| !is_symbol) {
        first.make_ascii_uppercase();
    }
    title
}

fn dash() -> String {
    "-".to_owned()
}

fn published_ratio(cell: &Cell) -> Option<f64> {
    let of = PUBLISHED.iter().filter(|published| published.study == cell.study);
    of.filter_map(|published| published.ratio)
        .find(|(variant, _)| *variant == cell.variant)
        .map(|found| found.1)
}

/// Published results.
fn published(study: Study) -> Table {
    let of = PUBLISHED.iter().filter(|published| published.study == study);
    let row = |text: &studies::stack::Published| {
        [text.system, text.figure, text.conditions].map(str::to_owned).to_vec()
    };
    let titles = ["System", "Published", "Conditions"];
    Table::new("Published by the authors of other systems, on other machines", &titles, of.map(row))
}

/// The size from which on each variant is better than the first one.
fn crossing(results: &Results, study: Study) -> Option<String> {
    let variants = study.variants();
    if variants.len() < 2 || results.cells(study).len() <= variants.len() {
        return None;
    }
    let first = variants[0];
    let each = variants[1..].iter().map(|variant| match results.better_from(study, variant) {
        Some(at) => format!("`{variant}` is better than `{first}` from {at} {} on", study.axis()),
        None => format!("`{variant}` is not better than `{first}` at the largest point"),
    });
    Some(format!("Measured here: {}.", each.collect::<Vec<_>>().join("; ")))
}

/// How near the two CPUs were.
fn distances(results: &Results, study: Study) -> Option<String> {
    let readings = results.readings.iter().filter(|reading| reading.study == study);
    let found: Vec<f64> = readings.filter_map(|reading| reading.distance_ns).collect();
    let (least, most) = (found.iter().copied().reduce(f64::min)?, found.iter().copied().reduce(f64::max)?);
    let class = Class::of(most).name();
    Some(format!(
        "Round trip of a cache line between the CPUs: {least:.0} to {most:.0} ns ({class} at most)."
    ))
}

/// Values by position; bars if there is only one position.
fn figure(results: &Results, study: Study, cells: &[Cell]) -> Option<Figure> {
    let mut positions: Vec<u64> = cells.iter().map(|cell| cell.at).collect();
    positions.dedup();
    let from = stack_provenance(results);
    let drawing = if positions.len() > 1 {
        let axes = Axes {
            across: study.axis(),
            up: study.unit(),
            ticks: ticks(positions.iter().map(u64::to_string)),
            decades: true,
            by_end: true,
        };
        plot(&axes, &lines(results, study, &positions))
    } else {
        bars(&Bars {
            axis: study.unit(),
            bars: cells.iter().filter_map(|cell| bar(results, cell)).collect(),
            ..Bars::default()
        })
    };
    let caption = "Medians of interleaved rounds. Whiskers are the least and the largest reading.";
    let id = figure::id(Kind::Real, &format!("stack-{}", study.name()));
    Some(Figure::new(id, study.title(), caption, drawing?, &from))
}

fn lines(results: &Results, study: Study, positions: &[u64]) -> Vec<Line> {
    let line = |variant: &&'static str| {
        let point = |(n, at): (usize, &u64)| {
            let cell = Cell { study, variant, at: *at };
            let (y, [low, high]) = (results.median(&cell)?, range(results, &cell));
            let interval = Some(Estimate { median: y, low, high });
            Some(Point { x: place(n), y, interval, tip: tip(&cell, y) })
        };
        let points = positions.iter().enumerate().filter_map(point).collect();
        Line { name: (*variant).to_owned(), points, aside: false }
    };
    study.variants().iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn bar(results: &Results, cell: &Cell) -> Option<Bar> {
    let (value, [low, high]) = (results.median(cell)?, range(results, cell));
    let parts = vec![Part::new("rx", value, tip(cell, value))];
    Some(Bar {
        name: cell.variant.to_owned(),
        parts,
        interval: Some((low, high)),
        label: format!("{} {}", number(value), cell.study.unit()),
        ..Bar::default()
    })
}

/// Least and largest reading.
fn range(results: &Results, cell: &Cell) -> [f64; 2] {
    let ends = results.of(cell).map(|reading| reading.value);
    ends.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
}

fn tip(cell: &Cell, value: f64) -> String {
    let Cell { study, variant, at } = cell;
    format!("{variant}, {at} {}: {} {}", study.axis(), number(value), study.unit())
}
