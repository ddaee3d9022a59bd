//! Generated reference: pages of `docs/reference` and the man page of the configuration file, from the definitions that
//! the program itself uses.

mod api;
mod commands;
mod configuration;
mod counters;
pub(crate) mod manual;
mod markdown;
mod schema;
mod values;

use crate::api::routes;
use console::Diagnostic;
use std::path::Path;

/// Writes all pages to `dir`.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    for (name, text) in pages()? {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|e| {
            Diagnostic::failed(path.display(), e, "name an existing directory that you may write to")
        })?;
    }
    Ok(())
}

/// All pages, by file name.
fn pages() -> anyhow::Result<[(&'static str, String); 7]> {
    Ok([
        ("configuration.md", configuration::page()),
        ("commands.md", commands::page()),
        ("drop-reasons.md", counters::drop_reasons()),
        ("counters.md", counters::counters()?),
        ("exit-codes.md", counters::exit_codes()),
        ("api.md", api::page()?),
        ("openapi.json", serde_json::to_string_pretty(&routes::document())? + "\n"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_the_generated_ones() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"));
        for (name, text) in pages().unwrap() {
            let is_current = std::fs::read_to_string(dir.join(name)).is_ok_and(|committed| committed == text);
            assert!(
                is_current,
                "docs/reference/{name} is stale: run `cargo run -- reference docs/reference`"
            );
        }
    }
}
