//! Generated reference: pages of `docs/reference` and the man page of the configuration file, from the definitions that
//! the program itself uses.

mod api;
mod configuration;
mod counters;
mod environment;
mod exit_codes;
pub(crate) mod manual;
mod results;
mod schema;
mod streams;
mod values;

use crate::args;
use console::markdown;
use console::reference::{self, Page};
use std::path::Path;

/// File of the page of the switch's API.
const API: &str = "api.md";
/// Command that writes the pages.
const GENERATOR: &str = "cargo run -- reference docs/reference";

/// Writes all pages to `dir`.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    reference::write(dir, pages()?)
}

/// Begins a page with its title and a paragraph.
fn page(title: &str, text: &str) -> String {
    markdown::page(title, text, GENERATOR)
}

/// All pages, by file name.
fn pages() -> anyhow::Result<Vec<Page>> {
    let mut pages = vec![
        ("configuration.md", configuration::page()),
        ("streams.md", streams::page()),
        ("commands.md", reference::commands("Commands", args::command(), GENERATOR)),
        ("drop-reasons.md", counters::drop_reasons()),
        ("counters.md", counters::counters()?),
        ("exit-codes.md", exit_codes::page()),
        ("environment.md", environment::page()),
        results::page()?,
    ];
    pages.extend(api::pages()?);
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_the_generated_ones() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"));
        reference::check(dir, pages().unwrap(), GENERATOR).unwrap();
    }
}
