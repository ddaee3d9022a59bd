//! Figures of a set of the model, and the selection of configurations for them.

mod caches;
mod factors;

use super::Set;
use super::text::provenance;
use figure::Figure;
use figure::svg::Drawing;
use studies::analysis::waterfall::best;
use studies::analysis::{Axis, cells_of};
use studies::factors::{FACTORS, cell, cells};
use studies::results::Row;

/// A drawing with its texts, before provenance and number are known.
struct Described {
    name: &'static str,
    title: String,
    caption: String,
    drawing: Drawing,
}

/// All figures for which a set has data.
pub(super) fn all(set: &Set) -> Vec<Figure> {
    let scatter = Axis::ALL.iter().map(|axis| caches::scatter_plot(set, *axis));
    let ratios = factors::ratios(set).into_iter().map(Some);
    let others = [factors::synergy(set), factors::waterfall(set), caches::cycles(set), caches::lines(set)];
    let from = provenance(&set.results);
    let figure = |Described { name, title, caption, drawing }| {
        let id = figure::id(set.results.memory, name);
        Figure::new(id, title, caption, drawing, &from).numbered(set.number)
    };
    scatter.chain(ratios).chain(others).flatten().map(figure).collect()
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
