//! The studies of use, as people read them: for each a section with its tables and figures, from which the page and the text of a
//! terminal are both made, so that they never say different things.
//!
//! A section is measured or simulated, and says which; a study that is both has two. It must not read a clock or a file.

mod batching;
mod budget;
mod comparison;
mod mistake;
mod models;
mod page;
mod placement;
mod scaling;

pub use page::usage_page;
pub(super) use page::{link, part};

use figure::Figure;
use measure::Kind;
use studies::usage::{Results, Study};

/// One study, or its measured or its simulated part.
#[derive(Clone, Debug)]
pub struct Section {
    /// An element's id, such as `batching`.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// What kind of truth it is.
    pub kind: Kind,
    /// What was done and what to mind, a sentence or some; each a paragraph.
    pub words: Vec<String>,
    /// In the order in which they are read.
    pub tables: Vec<Table>,
    /// The same drawn.
    pub figures: Vec<Figure>,
}

/// A table; titles that begin with `>` are columns of numbers.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows; empty where the section's heading says it.
    pub heading: String,
    /// One for each column.
    pub titles: Vec<&'static str>,
    /// Cells, as they are shown.
    pub rows: Vec<Vec<String>>,
}

/// What was run, in the order of the studies.
pub fn usage_sections(results: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(whole(results, Study::Batching, batching::section(results)));
    sections.extend(whole(results, Study::Mistake, mistake::section(results)));
    sections.extend(whole(results, Study::Placement, placement::measured(results)));
    sections.extend(whole(results, Study::Placement, placement::simulated(results)));
    sections.extend(whole(results, Study::Scaling, scaling::measured(results)));
    sections.extend(whole(results, Study::Scaling, scaling::simulated(results)));
    sections.extend(whole(results, Study::Models, models::sections(results)));
    sections.extend(whole(results, Study::Budget, budget::section(results)));
    sections.extend(whole(results, Study::Comparison, comparison::section(results)));
    sections
}

/// Says of a study that was ended before its last reading that it was.
fn whole(
    results: &Results,
    study: Study,
    sections: impl IntoIterator<Item = Section>,
) -> impl Iterator<Item = Section> {
    let partial =
        results.is_partial(study).then(|| "This study was ended before its last reading.".to_owned());
    sections.into_iter().map(move |mut section| {
        section.words.extend(partial.clone());
        section
    })
}

/// What every figure of what was measured says under itself, and the text above all of them.
pub fn usage_provenance(results: &Results) -> String {
    let on = if results.processor.is_empty() { "a processor that is not named" } else { &results.processor };
    let mut text = format!("Measured: {on}");
    let cpus = results.environment.as_ref().and_then(|place| place.used.switch.zip(place.used.generator));
    text.extend(cpus.map(|(one, other)| format!(", CPUs {one} and {other}")));
    text.extend(results.slice_ms.map(|ms| format!(", {ms} ms a reading")));
    text.extend(results.environment.as_ref().map(|place| format!(", {}", place.date)));
    text
}

/// With so many digits behind the point; what is no number is a stroke.
fn decimals(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

/// The same with its sign.
fn signed(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:+.digits$}") } else { "-".to_owned() }
}
