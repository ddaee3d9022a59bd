//! `results.md`: JSON of the results of `serve` and `load`.

use super::schema::Schemas;
use crate::commands::{load, serve, sockets};
use console::markdown;
use utoipa::OpenApi;

const PAGE: &str = "results.md";
const ABOUT: &str = "JSON that `linerate serve`, `linerate serve sockets` and `linerate load` print with `-o json` when \
    they end, and that `linerate load --out FILE.json` writes. The names in `counters` are explained in \
    [counters](counters.md#programs-with-a-stack).";

/// The schemas of all results.
#[derive(OpenApi)]
#[openapi(components(schemas(serve::Summary, sockets::Summary, load::Report)))]
struct Document;

/// The page.
pub(super) fn page() -> anyhow::Result<(&'static str, String)> {
    let schemas = Schemas::new(&Document::openapi(), PAGE)?;
    let mut page = super::page("Results of servers and of load", ABOUT);
    page.push_str("## Objects\n\n");
    for (name, schema) in schemas.all() {
        schemas.describe(&mut page, name, schema);
    }
    Ok((PAGE, markdown::finish(&page)))
}
