//! Report part of the copy study: page section, tables and terminal text.

use std::fmt::Write as _;

use super::tables;
use figure::Figure;
use figure::page::{self, table};
use figure::plot::{Axes, Line, Point, plot};
use figure::text::{kind, number};
use maud::{Markup, html};
use studies::copystudy::{
    BASE_AGAIN, Direction, Finding, MUCH, Results, Row, VARIANTS, WARM_AGAIN, is_warm, orders,
};

/// A set of results of the copy study.
#[derive(Debug)]
pub(crate) struct CopySet {
    /// Number on the page, after the sets of the model
    pub(crate) number: usize,
    pub(crate) results: Results,
    pub(crate) orders: Vec<Finding>,
}

impl CopySet {
    pub(super) fn new(number: usize, results: Results) -> CopySet {
        CopySet { number, orders: orders(&results), results }
    }
}

/// Provenance line of every figure.
pub(super) fn provenance(results: &Results) -> String {
    let on = if results.processor.is_empty() { "unknown processor" } else { &results.processor };
    format!("{}: {on}; a packet's cost in {}", kind(results.memory), unit(results))
}

/// Unit of costs.
pub(super) fn unit(results: &Results) -> String {
    if results.is_simulated() { results.unit.clone() } else { format!("ticks ({})", results.unit) }
}

/// Heading such as `3. Simulated: copies between host and guest, two sockets, Skylake cores`.
pub(super) fn heading(set: &CopySet) -> String {
    let (memory, processor) = (kind(set.results.memory), &set.results.processor);
    format!("{}. {memory}: copies between host and guest, {processor}", set.number)
}

/// The page section.
pub(super) fn part(set: &CopySet) -> Markup {
    let results = &set.results;
    let (what, class) = (page::truth(results.memory), page::class(results.memory));
    html! {
        section id={ "set-" (set.number) } class=(class) {
            h2 { (heading(set)) }
            p { (what) " " (provenance(results)) "; seed " (results.seed) "." }
            (page::notes(&results.notes))
            (found(set))
            (page::figures(&figures(set)))
            @for direction in Direction::ALL { (costs(set, direction)) }
            (variants(set))
            (tables::constants(&results.constants))
        }
    }
}

/// The table of expected orders and their results.
fn found(set: &CopySet) -> Markup {
    let rows = set.orders.iter().map(|finding| {
        let [claim, direction, words] = line(finding);
        vec![claim, direction, words, range(finding), band(finding)]
    });
    let titles = ["Order", "Copy", "Here", ">Ratio over sizes", ">Repeated runs"];
    html! {
        h3 { "The study's orders" }
        p {
            "The ratio is the left side of the order over the right side (for the last order, the right over the left), \
             smallest and largest median over the sizes; " em { "much more" } " means at least " (MUCH) " times. A size is not \
             resolved if its difference is not larger than that between repeated runs, or if its interval contains 1. For \
             measurements in rounds, ratios are of costs of the same round, and not of the medians below."
        }
        (table(Some(&format!("table-orders-{}", set.number)), &titles, rows))
    }
}

/// Order, copy direction and status of a finding.
fn line(finding: &Finding) -> [String; 3] {
    [finding.claim.to_owned(), finding.direction.name().to_owned(), finding.words()]
}

fn range(finding: &Finding) -> String {
    finding.range().map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"))
}

fn band(finding: &Finding) -> String {
    finding.band().map_or_else(|| "not run".to_owned(), |band| format!("within {band:.3}"))
}

/// The table of costs by variant and size.
fn costs(set: &CopySet, direction: Direction) -> Markup {
    let results = &set.results;
    let sizes = results.sizes();
    let mut titles = vec!["Variant".to_owned()];
    titles.extend(sizes.iter().map(|size| format!(">{size}")));
    let rows = results.variants().into_iter().map(|variant| {
        let cell = |size: &u64| results.row((variant, direction, *size)).map_or_else(String::new, cost);
        let mut row = vec![variant.to_owned()];
        row.extend(sizes.iter().map(cell));
        row
    });
    let id = format!("table-copies-{}-{}", set.number, direction.name().replace(' ', "-"));
    html! {
        h4 { (direction.name()) ": " (unit(results)) " a packet, by bytes" }
        (table(Some(&id), &titles, rows))
    }
}

/// Median cost, with its interval if there is one.
fn cost(row: &Row) -> String {
    let interval = row.interval.map(|found| format!(" ({}-{})", number(found.low), number(found.high)));
    format!("{}{}", number(row.cost), interval.unwrap_or_default())
}

/// The table of variant descriptions.
fn variants(set: &CopySet) -> Markup {
    let known = |name: &str| VARIANTS.iter().find(|variant| variant.name == name);
    let row = |name: &str| {
        let title = known(name).map_or("", |variant| variant.title);
        vec![name.to_owned(), title.to_owned()]
    };
    let rows = set.results.variants().into_iter().map(row);
    html! { details { summary { "Variants" } (table(None, &["Variant", "Description"], rows)) } }
}

/// All figures for which the set has data.
pub(super) fn figures(set: &CopySet) -> Vec<Figure> {
    let parts = [
        ("copies-to-guest", Direction::HostToGuest, false),
        ("copies-from-guest", Direction::GuestToHost, false),
        ("copies-to-guest-warm", Direction::HostToGuest, true),
        ("copies-from-guest-warm", Direction::GuestToHost, true),
    ];
    parts.into_iter().filter_map(|(name, direction, warm)| figure(set, name, direction, warm)).collect()
}

/// Cost by packet size: one line per variant.
fn figure(set: &CopySet, name: &str, direction: Direction, warm: bool) -> Option<Figure> {
    let results = &set.results;
    let axes = Axes {
        across: "bytes",
        up: &format!("{} a packet", unit(results)),
        ticks: results.sizes().into_iter().map(|size| (size as f64, size.to_string())).collect(),
        by_end: true,
        ..Axes::default()
    };
    let drawing = plot(&axes, &lines(results, direction, warm))?;
    let which = if warm { "warm" } else { "cold" };
    let title = format!("Cost of a copy, {}, {which}", direction.name());
    let id = figure::id(results.memory, name);
    Some(Figure::new(id, title, caption(results, warm), drawing, &provenance(results)).numbered(set.number))
}

/// One line per variant, with the same colour in each figure. Controls are left out, because their lines coincide with
/// those of their base.
fn lines(results: &Results, direction: Direction, warm: bool) -> Vec<Line> {
    let point = |row: &Row| Point { x: row.size as f64, y: row.cost, interval: row.interval, tip: tip(row) };
    let line = |name: &str| Line {
        name: name.to_owned(),
        points: results
            .sizes()
            .into_iter()
            .filter_map(|size| results.row((name, direction, size)).map(point))
            .collect(),
        aside: false,
    };
    let is_control = |name: &str| [BASE_AGAIN, WARM_AGAIN].contains(&name);
    let names = results.variants().into_iter().filter(|name| is_warm(name) == warm && !is_control(name));
    names.map(line).filter(|line| !line.points.is_empty()).collect()
}

fn tip(row: &Row) -> String {
    let ratio = row.ratio.map(|found| format!(", {:.2} times its base's", found.median)).unwrap_or_default();
    format!("{}, {} bytes: {}{ratio}", row.variant, row.size, cost(row))
}

fn caption(results: &Results, warm: bool) -> String {
    let sides = if warm {
        "Both sides are in the host's first-level cache when they are copied."
    } else {
        "Lines are where the guest, the host and the source of packets left them."
    };
    let whiskers = if results.is_simulated() {
        "There are no intervals, because nothing was run in rounds."
    } else {
        "Whiskers are 95 % intervals of medians over rounds."
    };
    format!("{sides} Names are ordered by the ends of the lines; controls are in the tables. {whiskers}")
}

/// Costs, orders and notes as text for a terminal.
pub fn copies_text(results: &Results) -> String {
    let mut text = format!("{}\n", provenance(results));
    for direction in Direction::ALL {
        let _ = write!(text, "\n{}", costs_text(results, direction));
    }
    text.push_str("\nThe study's orders\n");
    text.push_str(&orders_text(&orders(results)));
    text.extend(results.notes.iter().map(|note| format!("\n- {note}")));
    text
}

fn costs_text(results: &Results, direction: Direction) -> String {
    let sizes = results.sizes();
    let mut text = format!("{:16}", direction.name());
    text.extend(sizes.iter().map(|size| format!("{size:>9}")));
    for variant in results.variants() {
        let _ = write!(text, "\n{variant:16}");
        let cell = |size: &u64| {
            let cost = results.cost(variant, direction, *size);
            cost.map_or_else(|| " ".repeat(9), |cost| format!("{cost:9.1}"))
        };
        text.extend(sizes.iter().map(cell));
    }
    text + "\n"
}

/// One line per order and direction.
fn orders_text(orders: &[Finding]) -> String {
    let lines = orders.iter().map(|finding| {
        let [claim, direction, words] = line(finding);
        let ratio = if finding.sizes.is_empty() {
            String::new()
        } else {
            format!(" (ratio {}, runs of the same {})", range(finding), band(finding))
        };
        format!("  {claim:28}{direction:15}{words}{ratio}\n")
    });
    lines.collect()
}

/// The orders, preceded by a provenance line.
pub(super) fn summary(set: &CopySet) -> String {
    format!("{}\n{}", provenance(&set.results), orders_text(&set.orders))
}
