//! The page: one HTML file that opens from disk and loads no other resource.

use super::figures;
use super::text::{make, provenance};
use super::{Report, Set, copies, paths, tables, usage};
use figure::page::{class, document, notes, truth};
use figure::text::escape;
use figure::text::kind;
use measure::Kind;

/// Replaces the figures of an empty set.
pub(super) const NOTHING: &str = "<p class=\"absent\">This set has no results yet.</p>\n";

/// The whole page.
pub fn page(report: &Report) -> String {
    let published = tables::published(&report.sets);
    let copies = report.copies.iter().map(copies::part);
    let sets: String = report.sets.iter().map(part).chain(copies).collect();
    let copies = report.copies.iter().map(|set| link(set.number, &copies::heading(set)));
    let links: String = report.sets.iter().map(|set| link(set.number, &heading(set))).chain(copies).collect();
    let before = report.sets.len() + report.copies.len();
    let numbered = || report.paths.iter().enumerate().map(|(n, results)| (before + n + 1, results));
    let path_links: String = numbered().map(|(n, results)| paths::link(n, results)).collect();
    let paths: String = numbered().map(|(n, results)| paths::section(n, results)).collect();
    let before = before + report.paths.len();
    let numbered = || report.usage.iter().enumerate().map(|(n, results)| (before + n + 1, results));
    let usage_links: String = numbered().map(|(n, results)| usage::link(n, results)).collect();
    let usage: String = numbered().map(|(n, results)| usage::part(n, results)).collect();
    let links = format!(
        "<li><a href=\"#published\">Published reference points</a></li>\n{links}{path_links}{usage_links}"
    );
    document("Cache laboratory", &links, &format!("{published}{sets}{paths}{usage}"))
}

/// Heading such as `1. Simulated: Intel Core i9-7940X`.
fn heading(set: &Set) -> String {
    escape(&format!("{}. {}: {}", set.number, kind(set.results.memory), set.results.processor))
}

fn link(number: usize, heading: &str) -> String {
    format!("<li><a href=\"#set-{number}\">{heading}</a></li>\n")
}

/// The section of a set.
fn part(set: &Set) -> String {
    let (what, class) = (truth(set.results.memory), class(set.results.memory));
    let figures: String = figures::all(set).iter().map(figure::page::figure).collect();
    let figures = if set.results.rows.is_empty() { NOTHING.to_owned() } else { figures };
    format!(
        "<section id=\"set-{}\" class=\"{class}\">\n<h2>{}</h2>\n<p>{what} {}; {} configurations, seed {}.</p>\n\
         <p class=\"make\">{}.</p>\n{}\
         {figures}{}{}<h3>What each factor is worth</h3>\n{}{}{}</section>\n",
        set.number,
        heading(set),
        escape(&provenance(&set.results)),
        set.results.rows.len(),
        set.results.seed,
        escape(&make(&set.results)),
        notes(&set.results.notes),
        absent(set),
        tables::events(set),
        tables::factors(set),
        tables::rows(set),
        tables::constants(&set.results.constants),
    )
}

/// Lists the missing figures and the reasons.
fn absent(set: &Set) -> String {
    let mut reasons = Vec::new();
    if set.analysis.ratios.is_empty() {
        reasons.push("Ratios need the base and another configuration.");
    }
    if set.analysis.synergy.is_empty() {
        reasons
            .push("Synergy needs the base, two factors alone and both together, such as base, a, d and a+d.");
    }
    if set.analysis.waterfall.len() < 2 {
        reasons.push("The way to the best needs the base and cells that lead there one factor at a time.");
    }
    if set.results.memory != Kind::Real && set.results.rows.iter().all(|row| row.lines.is_empty()) {
        reasons.push("Nobody counted by line.");
    }
    if reasons.is_empty() {
        return String::new();
    }
    format!("<p class=\"absent\">{}</p>\n", reasons.join("</p>\n<p class=\"absent\">"))
}
