//! The figures: one file for each kind, and here which of them a set has.

mod bars;
mod batching;
pub(super) mod bench;
mod budget;
pub(super) mod comparison;
pub(super) mod copies;
mod cycles;
mod groups;
mod lines;
mod mistake;
pub(super) mod models;
mod paths;
pub(super) mod placement;
mod plot;
mod ratios;
pub(super) mod scaling;
mod scatter;
mod synergy;
mod waterfall;

pub(super) use batching::batching;
pub(super) use budget::budget;
pub(super) use mistake::mistake;
pub(super) use paths::lines_of_paths;

use super::Set;
use super::svg::{Anchor, Drawing, standalone};
use super::text::{kind, provenance};
use crate::cache::analysis::{Axis, cells_of, waterfall::best};
use crate::cache::factors::{FACTORS, cell, cells};
use crate::cache::results::{Kind, Row};

/// A drawing with what must be said about it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Such as `1-simulated-scatter-packet`: an element's id, and a file's name
    pub id: String,
    /// Its heading
    pub title: String,
    /// What is seen, and what to mind
    pub caption: String,
    drawing: String,
}

impl Figure {
    /// As an element of a page.
    pub fn inline(&self) -> &str {
        &self.drawing
    }

    /// With a number in front of its id, for a page of several sets.
    #[must_use]
    pub(super) fn numbered(self, number: usize) -> Figure {
        Figure { id: format!("{number}-{}", self.id), ..self }
    }

    /// As a file.
    pub fn file(&self) -> String {
        standalone(&self.drawing)
    }
}

/// What each kind of figure hands in: its name, heading, caption and drawing.
struct Sketch {
    name: &'static str,
    title: String,
    caption: String,
    drawing: Drawing,
}

/// All that a set has data for.
pub(super) fn all(set: &Set) -> Vec<Figure> {
    let mut sketches: Vec<Sketch> = Axis::ALL.iter().filter_map(|axis| scatter::draw(set, *axis)).collect();
    sketches.extend(ratios::draw(set));
    sketches.extend(synergy::draw(set));
    sketches.extend(waterfall::draw(set));
    sketches.extend(cycles::draw(set));
    sketches.extend(lines::draw(set));
    let from = provenance(&set.results);
    sketches.into_iter().map(|sketch| finish(set.number, set.results.memory, &from, sketch)).collect()
}

/// Height that every figure leaves free at its top, for its heading, and at its bottom, for where it comes from.
const TOP: f64 = 34.0;
const FOOT: f64 = 24.0;

fn finish(number: usize, memory: Kind, from: &str, sketch: Sketch) -> Figure {
    of_use(memory, from, sketch).numbered(number)
}

/// A figure of a study of use, whose id has no number yet.
fn of_use(memory: Kind, from: &str, sketch: Sketch) -> Figure {
    let Sketch { name, title, caption, mut drawing } = sketch;
    drawing.text(8.0, 20.0, Anchor::Start, "title", &title);
    let foot = drawing.height() - 8.0;
    drawing.text(8.0, foot, Anchor::Start, "muted", from);
    let memory = kind(memory).split(' ').next().unwrap_or_default().to_lowercase();
    Figure {
        id: format!("{memory}-{name}"),
        drawing: drawing.finish(&format!("{title}. {from}")),
        title,
        caption,
    }
}

/// The configurations that a figure with room for few shows: the base, the six factors, the headline pair, the way to
/// the best, and the best; if there are none of them, the first dozen.
pub(super) fn headline(set: &Set) -> Vec<&Row> {
    let mut names: Vec<String> = vec!["base".to_owned()];
    names
        .extend(FACTORS.iter().filter(|factor| factor.letter.is_some()).map(|factor| factor.name.to_owned()));
    names.push(cell(['a', 'd']).name);
    names.extend(set.analysis.waterfall.iter().map(|step| step.name.clone()));
    names.push(cells()[best(&cells_of(&set.results))].name.clone());
    let mut rows: Vec<&Row> = Vec::new();
    for name in names {
        let row = set.results.row(&name).filter(|row| rows.iter().all(|other| other.name != row.name));
        rows.extend(row);
    }
    if rows.is_empty() { set.results.rows.iter().take(12).collect() } else { rows }
}
