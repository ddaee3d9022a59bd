//! The studies of use, as people read them: for each a section with its tables and figures, from which the page and the text of a
//! terminal are both made, so that they never say different things.
//!
//! A section is measured or simulated, and says which; a study that is both has two. It must not read a clock or a file.

mod batching;
mod budget;
mod mistake;
mod placement;
mod scaling;

use super::figures::Figure;
use crate::cache::results::Kind;
use crate::usage::Results;

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
    sections.extend(batching::section(results));
    sections.extend(mistake::section(results));
    sections.extend(placement::measured(results));
    sections.extend(placement::simulated(results));
    sections.extend(scaling::measured(results));
    sections.extend(scaling::simulated(results));
    sections.extend(results.budget.as_ref().map(budget::section));
    sections
}
