//! Analysis of a result set: pure functions over numbers, and one value that holds all findings.
//!
//! This module runs no experiment and draws nothing. An analysis whose configurations are missing from the set is
//! absent from [`Analysis`]; it is never estimated.

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

/// Throughput of each of the 64 cells of a to f in millions of packets per second, numbered as in [`cells`]; `None` if
/// the cell was not run.
pub type Cells = [Option<f64>; 64];

/// All findings from one result set.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// Memory kind of the set
    pub memory: Kind,
    /// Processor name
    pub processor: String,
    /// Build, and profile or host
    pub provenance: Provenance,
    /// Packets counted in each run
    pub packets: u64,
    /// Fits of throughput against misses
    pub fits: Vec<Fit>,
    /// Throughput of each configuration relative to the base
    pub ratios: Vec<Ratio>,
    /// Range of ratios of configurations that are equivalent to the base
    pub null_band: Band,
    /// Synergy of pairs of factors
    pub synergy: Vec<synergy::Synergy>,
    /// Fastest of the 64 cells
    pub best: Option<String>,
    /// Steps from the base to the fastest cell
    pub waterfall: Vec<waterfall::Step>,
    /// Effects and interactions; `None` unless all 64 cells were run
    pub factorial: Option<Vec<factorial::Effect>>,
    /// Shares of ln(all six / base); `None` unless all 64 cells were run
    pub shapley: Option<[shapley::Share; 6]>,
}

impl Analysis {
    /// Analyzes a result set.
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

/// Returns the cells of a result set.
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

/// Returns the letters of a cell's number; `base` for none.
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
