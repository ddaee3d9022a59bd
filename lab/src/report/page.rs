//! The page: one file that opens from disk and asks for nothing.

use super::figures;
use super::svg::style;
use super::text::{escape, kind, make, provenance};
use super::{Report, Set, copies, paths, tables, usage};
use crate::cache::results::Kind;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("script.js");

/// What the browser may do: nothing but what stands in the file.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// In the place of figures.
pub(super) const NOTHING: &str = "<p class=\"absent\">This set has no results yet.</p>\n";

/// The whole file.
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

/// A page with this heading, these list items to lead through it, and these sections; all are markup.
pub(super) fn document(heading: &str, links: &str, sections: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{heading}</title>\n<style>\n{}{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{heading}</h1>\n<button id=\"theme\" type=\"button\">Theme: as the system</button>\n\
         <nav><ul>\n{links}</ul></nav>\n</header>\n\
         <main>\n{sections}</main>\n<div id=\"tip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        style()
    )
}

/// Such as `1. Simulated: Intel Core i9-7940X`.
fn heading(set: &Set) -> String {
    escape(&format!("{}. {}: {}", set.number, kind(set.results.memory), set.results.processor))
}

fn link(number: usize, heading: &str) -> String {
    format!("<li><a href=\"#set-{number}\">{heading}</a></li>\n")
}

/// What kind of truth a part has, said of all of it.
pub(super) fn truth(memory: Kind) -> &'static str {
    match memory {
        Kind::Simulated => "Everything in this part was computed by a simulator; nothing was measured.",
        Kind::Real => "Everything in this part was measured by the clock; nothing was simulated.",
        Kind::Counted => {
            "Everything in this part was measured with hardware counters; nothing was simulated."
        }
    }
}

/// The class of a part's element.
pub(super) fn class(memory: Kind) -> &'static str {
    if memory == Kind::Simulated { "simulated" } else { "measured" }
}

/// One set of results.
fn part(set: &Set) -> String {
    let (what, class) = (truth(set.results.memory), class(set.results.memory));
    let figures: String = figures::all(set).iter().map(figure).collect();
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

pub(super) fn figure(figure: &figures::Figure) -> String {
    format!(
        "<figure id=\"figure-{}\">\n<div class=\"wide\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
        escape(&figure.id),
        figure.inline(),
        escape(&figure.caption)
    )
}

pub(super) fn notes(notes: &[String]) -> String {
    let notes: Vec<String> = notes.iter().map(|note| escape(note)).collect();
    if notes.is_empty() {
        return String::new();
    }
    format!("<h3>What to mind</h3>\n<ul>\n<li>{}</li>\n</ul>\n", notes.join("</li>\n<li>"))
}

/// Says which figures are not there, and why.
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
