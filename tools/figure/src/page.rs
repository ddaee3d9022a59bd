//! Parts of a page: one HTML file that opens from disk and loads no other resource.

use super::Figure;
use super::svg::style;
use super::text::escape;
use measure::Kind;

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("script.js");

/// Content security policy: only inline styles and scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// A page with this heading, these navigation items and these sections; all arguments are markup.
pub fn document(heading: &str, links: &str, sections: &str) -> String {
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

/// A table; cells are escaped here. A title that begins with `>` marks a column of numbers.
pub fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let class = |n: usize| {
        if titles.get(n).is_some_and(|title| title.starts_with('>')) { " class=\"n\"" } else { "" }
    };
    let line = |tag: &str, cells: &[String]| {
        let cells = cells.iter().enumerate().map(|(n, cell)| {
            let class = class(n);
            format!("<{tag}{class}>{}</{tag}>", escape(cell))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let titles: Vec<String> = titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
    let body: String = rows.into_iter().map(|row| line("td", &row)).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody></table></div>\n",
        line("th", &titles)
    )
}

/// A figure with its caption.
pub fn figure(figure: &Figure) -> String {
    format!(
        "<figure id=\"figure-{}\">\n<div class=\"wide\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
        escape(&figure.id),
        figure.inline(),
        escape(&figure.caption)
    )
}

/// Notes under a heading; empty if there are none.
pub fn notes(notes: &[String]) -> String {
    let notes: Vec<String> = notes.iter().map(|note| escape(note)).collect();
    if notes.is_empty() {
        return String::new();
    }
    format!("<h3>Caveats</h3>\n<ul>\n<li>{}</li>\n</ul>\n", notes.join("</li>\n<li>"))
}
