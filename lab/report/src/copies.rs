//! Report part of the copy study: page section, tables and terminal text.

use std::fmt::Write as _;

use super::figures;
use super::tables;
use figure::page::table;
use figure::text::kind;
use figure::text::{escape, number};
use studies::copystudy::{Direction, Finding, MUCH, Results, Row, VARIANTS, orders};

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
    escape(&format!("{}. {memory}: copies between host and guest, {processor}", set.number))
}

/// The page section.
pub(super) fn part(set: &CopySet) -> String {
    let what = if set.results.is_simulated() {
        "Everything in this part was computed by a simulator; nothing was measured."
    } else {
        "Everything in this part was measured by the clock; nothing was simulated."
    };
    let class = if set.results.is_simulated() { "simulated" } else { "measured" };
    let figures: String = figures::copies::all(set).iter().map(figure::page::figure).collect();
    let costs: String = Direction::ALL.into_iter().map(|direction| costs(set, direction)).collect();
    format!(
        "<section id=\"set-{}\" class=\"{class}\">\n<h2>{}</h2>\n<p>{what} {}; seed {}.</p>\n{}{}{figures}{costs}{}{}</section>\n",
        set.number,
        heading(set),
        escape(&provenance(&set.results)),
        set.results.seed,
        figure::page::notes(&set.results.notes),
        found(set),
        variants(set),
        tables::constants(&set.results.constants),
    )
}

/// The table of expected orders and their results.
fn found(set: &CopySet) -> String {
    let rows = set.orders.iter().map(|finding| {
        let [claim, direction, words] = line(finding);
        vec![claim, direction, words, range(finding), band(finding)]
    });
    let titles = ["Order", "Copy", "Here", ">Ratio over sizes", ">Runs of the same"];
    format!(
        "<h3>The study's orders</h3>\n<p>The ratio is that of the side that the order has on the left to the other one (for the last \
         order, the right to the left), smallest and largest median over the sizes; <em>much more</em> is meant as at least {MUCH} \
         times. Sizes at which the difference is not larger than that between runs of the same, or the interval holds 1, are not \
         resolved. Where there were rounds, ratios are of costs of the same round, and not of the medians below.</p>\n{}",
        named(&table(&titles, rows), &format!("table-orders-{}", set.number))
    )
}

/// Order, copy direction and verdict of a finding.
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
fn costs(set: &CopySet, direction: Direction) -> String {
    let results = &set.results;
    let sizes = results.sizes();
    let mut titles = vec!["Variant".to_owned()];
    titles.extend(sizes.iter().map(|size| format!(">{size}")));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let rows = results.variants().into_iter().map(|variant| {
        let cell = |size: &u64| results.row((variant, direction, *size)).map_or_else(String::new, cost);
        let mut row = vec![variant.to_owned()];
        row.extend(sizes.iter().map(cell));
        row
    });
    let id = format!("table-copies-{}-{}", set.number, direction.name().replace(' ', "-"));
    format!(
        "<h4>{}: {} a packet, by bytes</h4>\n{}",
        direction.name(),
        escape(&unit(results)),
        named(&table(&titles, rows), &id)
    )
}

/// Median cost, with its interval if there is one.
fn cost(row: &Row) -> String {
    let interval = row.interval.map(|found| format!(" ({}-{})", number(found.low), number(found.high)));
    format!("{}{}", number(row.cost), interval.unwrap_or_default())
}

fn named(table: &str, id: &str) -> String {
    table.replacen("<table>", &format!("<table id=\"{id}\">"), 1)
}

/// The table of variant descriptions.
fn variants(set: &CopySet) -> String {
    let known = |name: &str| VARIANTS.iter().find(|variant| variant.name == name);
    let row = |name: &str| {
        let title = known(name).map_or("", |variant| variant.title);
        vec![name.to_owned(), title.to_owned()]
    };
    let rows = set.results.variants().into_iter().map(row);
    format!(
        "<details><summary>What the variants are</summary>\n{}</details>\n",
        table(&["Variant", "What it is"], rows)
    )
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
