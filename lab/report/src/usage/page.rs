//! Usage studies as a page, or as a part of the laboratory's page.

use super::{Section, Table, usage_provenance, usage_sections};
use figure::Figure;
use figure::page::{self, table};
use figure::text::escape;
use rfc2544::page::place;

use studies::usage::Results;

/// The whole page.
pub fn usage_page(results: &Results) -> String {
    let sections = usage_sections(results);
    let link =
        |section: &Section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, escape(&section.title));
    let links: String = sections.iter().map(link).collect();
    let shown: String = sections.iter().map(|section| study("", section, &section.figures)).collect();
    let nothing = if sections.is_empty() { crate::page::NOTHING } else { "" };
    let parts = format!(
        "{nothing}{shown}<section id=\"where\"><h2>Where and how</h2>\n{}</section>\n",
        environment("", results)
    );
    let links = format!("{links}<li><a href=\"#where\">Where and how</a></li>\n");
    page::document("Studies of use", &links, &parts)
}

/// The `number`-th set of the laboratory's page.
pub(crate) fn part(number: usize, results: &Results) -> String {
    let sections = usage_sections(results);
    let nothing = if sections.is_empty() { crate::page::NOTHING } else { "" };
    let before = format!("{number}-");
    let shown = sections.iter().map(|section| {
        let figures: Vec<Figure> =
            section.figures.iter().map(|figure| figure.clone().numbered(number)).collect();
        study(&before, section, &figures)
    });
    format!(
        "<section id=\"set-{number}\">\n<h2>{}</h2>\n{nothing}{}</section>\n{}",
        escape(&heading(number, results)),
        environment(&before, results),
        shown.collect::<String>()
    )
}

/// The entry in the navigation list of that page.
pub(crate) fn link(number: usize, results: &Results) -> String {
    format!("<li><a href=\"#set-{number}\">{}</a></li>\n", escape(&heading(number, results)))
}

fn heading(number: usize, results: &Results) -> String {
    format!("{number}. Studies of use: {}", results.processor)
}

/// The section of a study; `before` is the prefix of its ids.
fn study(before: &str, section: &Section, figures: &[Figure]) -> String {
    let title = format!("{} ({})", section.title, figure::text::kind(section.kind).to_lowercase());
    let words: Vec<String> =
        section.words.iter().map(|words| format!("<p>{}</p>\n", escape(words))).collect();
    let figures: String = figures.iter().map(page::figure).collect();
    let tables = section.tables.iter().enumerate().map(|(n, part)| {
        let id = format!("table-{before}{}-{}", section.id, n + 1);
        named(&id, part)
    });
    format!(
        "<section id=\"{before}{}\" class=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n{}{figures}{}</section>\n",
        section.id,
        page::class(section.kind),
        escape(&title),
        page::truth(section.kind),
        words.concat(),
        tables.collect::<String>()
    )
}

fn named(id: &str, part: &Table) -> String {
    let heading =
        if part.heading.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(&part.heading)) };
    let table = table(&part.titles, part.rows.iter().cloned());
    format!("{heading}{}", table.replacen("<table>", &format!("<table id=\"{id}\">"), 1))
}

/// The table of the environment of measured results.
fn environment(before: &str, results: &Results) -> String {
    let from = format!("<p class=\"make\">{}.</p>\n", escape(&usage_provenance(results)));
    let Some(environment) = &results.environment else {
        return format!(
            "{from}<p class=\"absent\">More of where and how is not told in these results.</p>\n"
        );
    };
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let mut rows = place(environment);
    let used = &environment.used;
    rows.insert(
        2,
        ("CPU of what is measured, and of the other side", [used.switch, used.generator].map(cpu).join(", ")),
    );
    rows.push((
        "Each reading",
        results.slice_ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms} ms")),
    ));
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let table = table(&["What", "Value"], rows.map(|(what, value)| vec![what.to_owned(), value]));
    format!("{from}{}", table.replacen("<table>", &format!("<table id=\"table-{before}where\">"), 1))
}
