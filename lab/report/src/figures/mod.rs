//! Figures, one module per kind, and the selection of figures for a set.

mod batching;
mod budget;
pub(super) mod comparison;
pub(super) mod copies;
mod cycles;
mod lines;
mod mistake;
pub(super) mod models;
mod paths;
pub(super) mod placement;
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
use super::text::provenance;
use figure::{Figure, Sketch, finish};
use studies::analysis::waterfall::best;
use studies::analysis::{Axis, cells_of};
use studies::factors::{FACTORS, cell, cells};
use studies::results::Row;

/// All figures for which a set has data.
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

/// The configurations shown in figures with limited space: the base, the six factors, the headline pair, the steps to
/// the best, and the best; if there are none of them, the first twelve.
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
