//! Usage studies for readers: a section per study with tables and figures. Page and terminal text are both generated
//! from the sections, so they always agree.
//!
//! A section is either measured or simulated, and says which; a study with both kinds has two sections. A section must
//! not read a clock or a file.

mod batching;
mod budget;
mod burst_mismatch;
mod comparison;
mod entries;
mod models;
mod page;
mod placement;
mod scaling;

pub use page::usage_page;
pub(super) use page::{heading, part, set, study};

use figure::Figure;
use measure::Kind;
use studies::usage::{Results, Study};

/// A study, or its measured or simulated part.
#[derive(Clone, Debug)]
pub struct Section {
    /// Element id, such as `batching`.
    pub id: &'static str,
    /// Heading.
    pub title: String,
    /// Measured or simulated.
    pub kind: Kind,
    /// Description and caveats; one paragraph per element.
    pub text: Vec<String>,
    /// Tables, in order.
    pub tables: Vec<Table>,
    /// Figures of the same data.
    pub figures: Vec<Figure>,
}

/// A table; a title that begins with `>` marks a column of numbers.
#[derive(Clone, Debug)]
pub struct Table {
    /// Heading; empty if the heading of the section suffices.
    pub heading: String,
    /// Column titles.
    pub titles: Vec<String>,
    /// Cells, as displayed.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(
        heading: &str,
        titles: &[impl AsRef<str>],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Table {
        let titles = titles.iter().map(|title| title.as_ref().to_owned()).collect();
        Table { heading: heading.to_owned(), titles, rows: rows.into_iter().collect() }
    }
}

/// The sections of all studies that were run, in order.
pub fn usage_sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(whole(results, Study::Batching, batching::section(results)));
    sections.extend(whole(results, Study::BurstMismatch, burst_mismatch::section(results)));
    sections.extend(whole(results, Study::Placement, placement::measured(results)));
    sections.extend(whole(results, Study::Placement, placement::simulated(results)));
    sections.extend(whole(results, Study::Scaling, scaling::measured(results)));
    sections.extend(whole(results, Study::Scaling, scaling::simulated(results)));
    sections.extend(whole(results, Study::Models, models::sections(results)));
    sections.extend(whole(results, Study::Budget, budget::section(results)));
    sections.extend(whole(results, Study::Entries, entries::section(results)));
    sections.extend(whole(results, Study::Comparison, comparison::section(results)));
    sections
}

/// Adds a note to the sections of a study that ended early.
fn whole(
    results: &Results,
    study: Study,
    sections: impl IntoIterator<Item = Section>,
) -> impl Iterator<Item = Section> {
    let partial =
        results.is_partial(study).then(|| "This study was ended before its last reading.".to_owned());
    sections.into_iter().map(move |mut section| {
        section.text.extend(partial.clone());
        section
    })
}

/// Provenance line of measured figures, and of the text.
pub fn usage_provenance(results: &Results) -> String {
    let on = if results.processor.is_empty() { "unknown processor" } else { &results.processor };
    let place = &results.environment;
    let cpus = place.used.switch.zip(place.used.generator);
    let cpus = cpus.map_or_else(String::new, |(one, other)| format!(", CPUs {one} and {other}"));
    format!("Measured: {on}{cpus}, {} ms a reading, {}", results.slice_ms, place.date)
}

/// Formats with `digits` decimals; a value that is not finite is shown as a dash.
fn decimals(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

/// Formats as `decimals` does, with a sign.
fn signed(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:+.digits$}") } else { "-".to_owned() }
}
