//! `configuration.md`: every section and key of a configuration file.

use super::values;
use crate::settings::description::{self, Section};
use console::markdown;

const INTRODUCTION: &str = "`linerate run FILE` reads a TOML file. An unknown key, a wrong type and a value out of \
    range are errors; `linerate check FILE` prints all of them. A key `table.key` belongs to the table `table` of its \
    section. A time is a string with a unit, such as `\"1ms\"` or `\"2s\"`. Examples are in the \
    [guide](../README.md) and in `examples`.";

/// The page.
pub(super) fn page() -> String {
    let mut page = super::page("Configuration file", INTRODUCTION);
    for section in description::sections() {
        let (heading, about) = match section.kind {
            None => (format!("## `{}`", section.title), section.about.to_owned()),
            Some(kind) => (format!("### `kind = \"{kind}\"`"), format!("{}.", section.about)),
        };
        markdown::section(&mut page, &heading, &about);
        keys(&mut page, section);
    }
    markdown::finish(&page)
}

fn keys(page: &mut String, section: &Section) {
    if section.keys.is_empty() {
        return markdown::paragraph(page, "This kind has no keys of its own.");
    }
    let rows = section.keys.iter().map(|typed| {
        let (key, shapes) = (typed.key, &typed.shapes);
        [
            format!("`{}`", key.name),
            values::types(shapes),
            values::default(key),
            values::allowed(shapes),
            key.about.to_owned(),
        ]
    });
    markdown::table(page, ["key", "type", "default", "values", "meaning"], rows);
}
