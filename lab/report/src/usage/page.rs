//! Usage studies as a page, or as a part of the laboratory's page.

use super::{Section, Table, usage_provenance, usage_sections};
use figure::Figure;
use figure::page::{self, absent, table};
use maud::{Markup, html};
use rfc2544::page::place;

use studies::usage::Results;

/// The whole page.
pub fn usage_page(results: &Results) -> String {
    let sections = usage_sections(results);
    let links = sections.iter().map(|section| (section.id.to_owned(), section.title.clone()));
    let links: Vec<_> = links.chain([("where".to_owned(), ENVIRONMENT.to_owned())]).collect();
    let parts = html! {
        @if sections.is_empty() { (absent(crate::page::NOTHING)) }
        @for section in &sections { (study("", section, &section.figures)) }
        section id="where" { h2 { (ENVIRONMENT) } (environment("", results)) }
    };
    page::document("Usage studies", &links, &parts)
}

const ENVIRONMENT: &str = "Environment";

/// The `number`-th set of the laboratory's page.
pub(crate) fn part(number: usize, results: &Results) -> Markup {
    let environment = environment(&format!("{number}-"), results);
    set(number, &heading(number, results), &usage_sections(results), &environment)
}

/// A set of studies of the laboratory's page.
pub(crate) fn set(number: usize, heading: &str, sections: &[Section], environment: &Markup) -> Markup {
    let before = format!("{number}-");
    let numbered = |section: &Section| -> Vec<Figure> {
        section.figures.iter().map(|figure| figure.clone().numbered(number)).collect()
    };
    html! {
        section id={ "set-" (number) } {
            h2 { (heading) }
            @if sections.is_empty() { (absent(crate::page::NOTHING)) }
            (environment)
        }
        @for section in sections { (study(&before, section, &numbered(section))) }
    }
}

/// Heading of that set.
pub(crate) fn heading(number: usize, results: &Results) -> String {
    format!("{number}. Usage studies: {}", results.processor)
}

/// The section of a study; `before` is the prefix of its ids.
pub(crate) fn study(before: &str, section: &Section, figures: &[Figure]) -> Markup {
    let kind = figure::text::kind(section.kind).to_lowercase();
    html! {
        section id={ (before) (section.id) } class=(page::class(section.kind)) {
            h2 { (section.title) " (" (kind) ")" }
            p { (page::truth(section.kind)) }
            @for text in &section.text { p { (text) } }
            (page::figures(figures))
            @for (n, part) in section.tables.iter().enumerate() {
                (named(&format!("table-{before}{}-{}", section.id, n + 1), part))
            }
        }
    }
}

fn named(id: &str, part: &Table) -> Markup {
    html! {
        @if !part.heading.is_empty() { h3 { (part.heading) } }
        (table(Some(id), &part.titles, part.rows.iter().cloned()))
    }
}

/// The table of the environment of measured results.
fn environment(before: &str, results: &Results) -> Markup {
    let from = html! { p class="make" { (usage_provenance(results)) "." } };
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let used = &results.environment.used;
    let mut rows = place(&results.environment);
    rows.insert(
        2,
        ("CPU under test, and of the other side", [used.switch, used.generator].map(cpu).join(", ")),
    );
    rows.push(("Each reading", format!("{} ms", results.slice_ms)));
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    html! { (from) (table(Some(&format!("table-{before}where")), &["Property", "Value"], rows)) }
}
