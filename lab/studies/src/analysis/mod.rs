//! What a set of results means: pure functions over numbers, and one value that holds all that they find.
//!
//! Nothing here runs an experiment or draws a picture. Where a set lacks the configurations that an analysis needs, that
//! analysis is absent from [`Analysis`]; it is never filled in.

pub mod factorial;
mod fits;
pub mod rank;
mod ratios;
pub mod regression;
pub mod shapley;
pub mod synergy;
pub mod waterfall;

pub use fits::{Axis, Fit, Level, fits, points};
pub use ratios::{Band, Ratio, null_band, ratios};

use serde::Serialize;

use super::factors::{LETTERS, cells};
use super::results::Results;
use measure::Kind;
use measure::provenance::Provenance;

/// Throughput of each of the 64 cells of a to f that was run, in millions of packets a second, numbered as
/// [`cells`] has them.
pub type Cells = [Option<f64>; 64];

/// All that one set of results shows.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// Which memory the set comes from
    pub memory: Kind,
    /// On what
    pub processor: String,
    /// By which build, with which profile or on which machine
    pub provenance: Provenance,
    /// Packets that count in each run
    pub packets: u64,
    /// Misses against throughput
    pub fits: Vec<Fit>,
    /// Each configuration over the base
    pub ratios: Vec<Ratio>,
    /// What differs from the base by nothing
    pub null_band: Band,
    /// Pairs of factors
    pub synergy: Vec<synergy::Synergy>,
    /// The fastest of the 64 cells
    pub best: Option<String>,
    /// From the base to it
    pub waterfall: Vec<waterfall::Step>,
    /// Effects and interactions, where all 64 cells were run
    pub factorial: Option<Vec<factorial::Effect>>,
    /// Shares of ln(all six / base), where all 64 cells were run
    pub shapley: Option<[shapley::Share; 6]>,
}

impl Analysis {
    /// Of a set of results.
    pub fn of(results: &Results) -> Analysis {
        let some = cells_of(results);
        let all = complete(&some);
        Analysis {
            memory: results.memory,
            processor: results.processor.clone(),
            provenance: results.provenance.clone(),
            packets: results.packets,
            fits: fits(results),
            ratios: ratios(results),
            null_band: null_band(results),
            synergy: synergy::pairs(&some),
            best: some[0].map(|_| name_of(waterfall::best(&some), "+")),
            waterfall: waterfall::greedy(&some),
            factorial: all.as_ref().map(factorial::effects),
            shapley: all.as_ref().map(shapley::shares),
        }
    }
}

/// The cells that a set holds.
pub fn cells_of(results: &Results) -> Cells {
    let cells = cells();
    std::array::from_fn(|bits| results.row(&cells[bits].name).map(|row| row.mpps))
}

fn complete(cells: &Cells) -> Option<[f64; 64]> {
    let mut all = [0.0; 64];
    for (all, cell) in all.iter_mut().zip(cells) {
        *all = (*cell)?;
    }
    Some(all)
}

/// The letters of a cell's number; `base` for none.
pub(crate) fn name_of(bits: usize, between: &str) -> String {
    let letters = (0..LETTERS.len()).filter(|n| bits & (1 << n) != 0).map(|n| LETTERS[n].to_string());
    let letters: Vec<String> = letters.collect();
    if letters.is_empty() { "base".to_owned() } else { letters.join(between) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cells_number_and_its_name_agree_with_the_list() {
        for (bits, named) in cells().iter().enumerate() {
            assert_eq!(name_of(bits, "+"), named.name);
        }
    }
}
