//! Synergy of two factors beyond their separate effects: `ln(T_ij T_0 / (T_i T_j))`, zero if they only multiply.

use serde::Serialize;

use super::Cells;
use crate::factors::LETTERS;

/// Synergy of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Synergy {
    /// The two letters, in order
    pub pair: (char, char),
    /// In ln throughput: above zero the factors reinforce each other, below zero they overlap
    pub value: f64,
}

/// Returns all pairs for which the base, both single cells and the combined cell were run.
pub fn pairs(cells: &Cells) -> Vec<Synergy> {
    let mut found = Vec::new();
    for (i, first) in LETTERS.iter().enumerate() {
        for (j, second) in LETTERS.iter().enumerate().skip(i + 1) {
            let value = synergy(cells, 1 << i, 1 << j);
            found.extend(value.map(|value| Synergy { pair: (*first, *second), value }));
        }
    }
    found
}

fn synergy(cells: &Cells, first: usize, second: usize) -> Option<f64> {
    let [base, a, b, both] = [cells[0]?, cells[first]?, cells[second]?, cells[first | second]?];
    // Products and quotients of extreme rates are infinite or 0.
    Some(both.ln() + base.ln() - a.ln() - b.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(base: f64, a: f64, d: f64, both: f64) -> Cells {
        let mut cells = [None; 64];
        [cells[0], cells[1], cells[8], cells[9]] = [base, a, d, both].map(Some);
        cells
    }

    #[test]
    fn the_published_headline_has_synergy() {
        let found = pairs(&cells(13.5, 17.8, 20.8, 37.5));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pair, ('a', 'd'));
        assert!((found[0].value - (37.5_f64 * 13.5 / (17.8 * 20.8)).ln()).abs() < 1e-12);
    }

    #[test]
    fn a_pair_that_was_not_run_is_left_out() {
        assert_eq!(pairs(&[None; 64]), []);
    }

    /// A product of two of these rates is infinite, and their quotients are infinite and 0.
    #[test]
    fn extreme_rates_have_a_finite_synergy() {
        assert!(pairs(&cells(1e12, 1e12, 1e300, 1e300))[0].value.abs() < 1e-9);
        assert!(pairs(&cells(1e-12, 1e-12, 1e300, 1e300))[0].value.abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn factors_that_multiply_have_no_synergy(base in 1.0..50.0_f64, a in 0.5..3.0_f64, d in 0.5..3.0_f64) {
            let found = pairs(&cells(base, base * a, base * d, base * a * d));
            prop_assert!(found[0].value.abs() < 1e-9);
        }
    }
}
