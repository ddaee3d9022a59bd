//! Generated reference: pages of `docs/reference`, from the definitions that the program itself uses.

use crate::api::routes;
use console::Diagnostic;
use std::path::Path;

/// A page: its file name, and its text or the reason why it cannot be generated.
type Page = (&'static str, anyhow::Result<String>);

/// All pages.
fn pages() -> [Page; 1] {
    [("openapi.json", openapi())]
}

/// Writes all pages to `dir`.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    for (name, text) in pages() {
        let (path, text) = (dir.join(name), text?);
        std::fs::write(&path, text).map_err(|e| {
            Diagnostic::failed(path.display(), e, "name an existing directory that you may write to")
        })?;
    }
    Ok(())
}

fn openapi() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&routes::document())? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_the_generated_ones() {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"));
        for (name, text) in pages() {
            let committed = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
            let is_current = committed == text.unwrap();
            assert!(
                is_current,
                "docs/reference/{name} is stale: run `cargo run -- reference docs/reference`"
            );
        }
    }
}
