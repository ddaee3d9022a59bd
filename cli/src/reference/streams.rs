//! `streams.md`: keys of the streams that `linerate gen` and `linerate bench` send.

use console::markdown;
use generator::{Description, FIELDS, Key, Outer, PATTERNS};

const ABOUT: &str = "Keys of a `[[stream]]` section in a file of `linerate gen`, of the `[stream]` section of `linerate \
    bench`, and of `--set`. An unknown key, a wrong type and a value out of range are errors.";

/// The page.
pub(super) fn page() -> String {
    let mut page = super::page("Streams", ABOUT);
    markdown::section(&mut page, "## `[[stream]]`", "A stream of frames with a rate.");
    keys(&mut page, &Description::keys());
    markdown::section(&mut page, "## `vxlan`", "The outer headers of a stream, as a table.");
    keys(&mut page, &Outer::keys());
    let about =
        "Each key is a field, and its value the pattern of the values that it has from frame to frame.";
    markdown::section(&mut page, "## `vary`", about);
    let fields = FIELDS.map(|row| [row.0, row.1].map(str::to_owned));
    markdown::table(&mut page, ["field", "frames"], fields);
    let patterns = PATTERNS.map(|(shape, about)| [format!("`{shape}`"), about.to_owned()]);
    markdown::table(&mut page, ["pattern", "values"], patterns);
    markdown::finish(&page)
}

fn keys(page: &mut String, keys: &[Key]) {
    let row = |key: &Key| {
        let Key { name, values, default, about } = key;
        [format!("`{name}`"), (*values).to_owned(), default.clone(), (*about).to_owned()]
    };
    markdown::table(page, ["key", "values", "default", "meaning"], keys.iter().map(row));
}
