//! Parts of a page: one HTML file that opens from disk and loads no other resource.
//!
//! `maud` escapes every text; only style sheet, script and finished drawings are inserted as they are.

use super::Figure;
use super::svg::style;
use super::text::without_controls;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::Kind;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("script.js");

/// Content security policy: only inline styles and scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A page with this heading, these navigation items (element id and text) and these sections.
pub fn document(heading: &str, links: &[(String, String)], sections: &Markup) -> String {
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (heading) }
                style { (PreEscaped(style())) (PreEscaped(PAGE_STYLE)) }
            }
            body {
                header {
                    h1 { (heading) }
                    button id="theme" type="button" { "Theme: as the system" }
                    nav { ul { @for (id, text) in links { li { a href={ "#" (id) } { (text) } } } } }
                }
                main { (sections) }
                div id="tip" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    without_controls(&page.into_string())
}

/// Statement of whether a part is measured or simulated.
pub fn truth(memory: Kind) -> &'static str {
    match memory {
        Kind::Simulated => "Everything in this part was computed by a simulator; nothing was measured.",
        Kind::Real => "Everything in this part was measured by the clock; nothing was simulated.",
        Kind::Counted => {
            "Everything in this part was measured with hardware counters; nothing was simulated."
        }
    }
}

/// The CSS class of a part's element.
pub fn class(memory: Kind) -> &'static str {
    if memory == Kind::Simulated { "simulated" } else { "measured" }
}

/// A table with an optional element id. A title that begins with `>` marks a column of numbers.
pub fn table<T: AsRef<str>>(
    id: Option<&str>,
    titles: &[T],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Markup {
    let class = |n: usize| titles.get(n).is_some_and(|title| title.as_ref().starts_with('>')).then_some("n");
    html! {
        div class="wide" {
            table id=[id] {
                thead { tr {
                    @for (n, title) in titles.iter().enumerate() {
                        th class=[class(n)] { (title.as_ref().trim_start_matches('>')) }
                    }
                } }
                tbody { @for row in rows {
                    tr { @for (n, cell) in row.iter().enumerate() { td class=[class(n)] { (cell) } } } "\n"
                } }
            }
        } "\n"
    }
}

/// Figures with their captions.
pub fn figures(figures: &[Figure]) -> Markup {
    html! {
        @for figure in figures {
            figure id={ "figure-" (figure.id) } {
                div class="wide" { (PreEscaped(figure.inline())) }
                figcaption { (figure.caption) }
            }
        }
    }
}

/// Notes under a heading; empty if there are none.
pub fn notes(notes: &[String]) -> Markup {
    html! { @if !notes.is_empty() { h3 { "Caveats" } ul { @for note in notes { li { (note) } } } } }
}

/// A paragraph about missing data.
pub fn absent(text: &str) -> Markup {
    html! { p class="absent" { (text) } }
}
