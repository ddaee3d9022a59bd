//! Path from the base to the best cell, one factor at a time: each step adds the factor with the highest gain.

use serde::Serialize;

use super::{Cells, name_of};
use crate::factors::LETTERS;

/// One step of the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Cell that the step leads to
    pub name: String,
    /// Added factor; `None` for the base
    pub letter: Option<char>,
    /// Throughput of the cell in millions of packets per second
    pub mpps: f64,
}

/// Returns the base and each step to the best cell that was run; shorter if cells on the path were not run, and empty
/// without the base.
///
/// The best cell is the fastest; among equals the one with fewer letters. A step may lose throughput if every other
/// step loses more.
pub fn greedy(cells: &Cells) -> Vec<Step> {
    let Some(base) = cells[0] else { return Vec::new() };
    let goal = best(cells);
    let mut steps = vec![Step { name: name_of(0, "+"), letter: None, mpps: base }];
    let mut at = 0;
    while at != goal {
        let left = (0..LETTERS.len()).filter(|n| goal & !at & (1 << n) != 0);
        let options = left.filter_map(|n| Some((n, cells[at | 1 << n]?)));
        // Among equals the first letter, so that the path is deterministic.
        let Some((letter, mpps)) = options.rev().max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        at |= 1 << letter;
        steps.push(Step { name: name_of(at, "+"), letter: Some(LETTERS[letter]), mpps });
    }
    steps
}

/// Returns the fastest cell; the base if none was run.
pub fn best(cells: &Cells) -> usize {
    let run = (0..cells.len()).filter_map(|bits| Some((bits, cells[bits]?)));
    let order = |a: &(usize, f64), b: &(usize, f64)| {
        a.1.total_cmp(&b.1).then(b.0.count_ones().cmp(&a.0.count_ones())).then(b.0.cmp(&a.0))
    };
    run.max_by(order).map_or(0, |(bits, _)| bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_headline_goes_by_d_and_then_a() {
        let mut cells = [None; 64];
        [cells[0], cells[1], cells[8], cells[9]] = [13.5, 17.8, 20.8, 37.5].map(Some);
        let names: Vec<_> = greedy(&cells).into_iter().map(|step| step.name).collect();
        assert_eq!(names, ["base", "d", "a+d"]);
    }

    #[test]
    fn waterfall_ends_at_the_first_missing_cell() {
        let mut cells = [None; 64];
        (cells[0], cells[9]) = (Some(1.0), Some(2.0));
        assert_eq!(greedy(&cells).len(), 1);
        assert_eq!(greedy(&[None; 64]), []);
    }

    #[test]
    fn best_of_equal_cells_has_the_fewest_letters() {
        assert_eq!(best(&[Some(3.0); 64]), 0);
    }

    proptest! {
        #[test]
        fn with_all_cells_the_way_ends_at_the_best_and_each_step_is_the_best_of_its_kind(
            values in prop::collection::vec(0.1..60.0_f64, 64)
        ) {
            let cells: Cells = std::array::from_fn(|bits| Some(values[bits]));
            let steps = greedy(&cells);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!((steps.last().unwrap().mpps - most).abs() < 1e-12);
            let goal = best(&cells);
            let mut at = 0;
            for step in &steps[1..] {
                for n in (0..6).filter(|n| goal & !at & (1 << n) != 0) {
                    prop_assert!(values[at | 1 << n] <= step.mpps);
                }
                at |= 1 << LETTERS.iter().position(|letter| Some(*letter) == step.letter).unwrap();
            }
            prop_assert_eq!(at, goal);
        }
    }
}
