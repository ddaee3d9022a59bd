//! The page: one HTML file that opens from disk and loads no other resource.

use super::figures;
use super::text::{provenance, provenance_line};
use super::{Report, Set, copies, paths, stack, tables, usage};
use figure::page::{self, absent, class, document, notes, truth};
use figure::text::kind;
use maud::{Markup, html};
use measure::Kind;

/// Replaces the figures of an empty set.
pub(super) const NOTHING: &str = "This set has no results yet.";

/// The whole page.
pub fn page(report: &Report) -> String {
    let number = |n: usize| report.sets.len() + report.copies.len() + n + 1;
    let paths = || report.paths.iter().enumerate().map(|(n, results)| (number(n), results));
    let number = |n: usize| number(n) + report.paths.len();
    let usage = || report.usage.iter().enumerate().map(|(n, results)| (number(n), results));
    let number = |n: usize| number(n) + report.usage.len();
    let stack = || report.stack.iter().enumerate().map(|(n, results)| (number(n), results));
    let set = |number: usize, heading: String| (format!("set-{number}"), heading);
    let mut links = vec![("published".to_owned(), "Published reference points".to_owned())];
    links.extend(report.sets.iter().map(|found| set(found.number, heading(found))));
    links.extend(report.copies.iter().map(|found| set(found.number, copies::heading(found))));
    links.extend(paths().map(|(n, results)| (format!("paths-{n}"), paths::heading(results))));
    links.extend(usage().map(|(n, results)| set(n, usage::heading(n, results))));
    links.extend(stack().map(|(n, results)| set(n, stack::heading(n, results))));
    let sections = html! {
        (tables::published(&report.sets))
        @for set in &report.sets { (part(set)) }
        @for set in &report.copies { (copies::part(set)) }
        @for (n, results) in paths() { (paths::section(n, results)) }
        @for (n, results) in usage() { (usage::part(n, results)) }
        @for (n, results) in stack() { (stack::part(n, results)) }
    };
    document("Cache laboratory", &links, &sections)
}

/// Heading such as `1. Simulated: Intel Core i9-7940X`.
fn heading(set: &Set) -> String {
    format!("{}. {}: {}", set.number, kind(set.results.memory), set.results.processor)
}

/// The section of a set.
fn part(set: &Set) -> Markup {
    let results = &set.results;
    html! {
        section id={ "set-" (set.number) } class=(class(results.memory)) {
            h2 { (heading(set)) }
            p {
                (truth(results.memory)) " " (provenance(results)) "; " (results.rows.len())
                " configurations, seed " (results.seed) "."
            }
            p class="make" { (provenance_line(results)) "." }
            (notes(&results.notes))
            @if results.rows.is_empty() { (absent(NOTHING)) } @else { (page::figures(&figures::all(set))) }
            @for reason in missing(set) { (absent(reason)) }
            (tables::events(set))
            h3 { "Effect of each factor" }
            (tables::factors(set))
            (tables::rows(set))
            (tables::constants(&results.constants))
        }
    }
}

/// Reasons for missing figures.
fn missing(set: &Set) -> Vec<&'static str> {
    let uncounted =
        set.results.memory != Kind::Real && set.results.rows.iter().all(|row| row.lines.is_empty());
    let reasons = [
        (set.analysis.ratios.is_empty(), "Ratios need the base and another configuration."),
        (
            set.analysis.synergy.is_empty(),
            "Synergy needs the base, two factors alone and both together, such as base, a, d and a+d.",
        ),
        (
            set.analysis.waterfall.len() < 2,
            "The steps to the best need the base and cells that lead to it one factor at a time.",
        ),
        (uncounted, "Transfers were not counted by line."),
    ];
    reasons.into_iter().filter_map(|(is_missing, reason)| is_missing.then_some(reason)).collect()
}
