//! Generated page of `docs/reference`: the commands of this program.

use crate::args::Cli;
use clap::CommandFactory;
use console::reference::{self, Page};
use std::path::Path;

/// Command that writes the page.
const GENERATOR: &str = "cargo run -p linerate-lab -- reference docs/reference";

/// Writes the page to `dir`.
pub(super) fn write(dir: &Path) -> anyhow::Result<()> {
    reference::write(dir, [page()])
}

fn page() -> Page {
    ("lab-commands.md", reference::commands("Commands of the laboratory", Cli::command(), GENERATOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_the_generated_one() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference"));
        reference::check(dir, [page()], GENERATOR).unwrap();
    }
}
