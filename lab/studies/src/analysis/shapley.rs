//! Shares of the six factors in their joint gain: exact Shapley values over all 64 coalitions.
//!
//! A factor's share is its mean contribution to ln throughput over all orders of adding the six (L. Shapley, A value
//! for n-person games, 1953). The shares add up to the whole gain for any interactions.

use serde::Serialize;

use crate::factors::LETTERS;

/// Share of one factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Factor letter
    pub letter: char,
    /// Value in ln throughput
    pub value: f64,
    /// Fraction of the whole gain; `None` if the gain is zero
    pub part: Option<f64>,
}

/// Returns shares of ln(all six / base) from the cells' throughputs in the order of [`crate::factors::cells`].
pub fn shares(mpps: &[f64; 64]) -> [Share; 6] {
    let worth = mpps.map(f64::ln);
    let gain = worth[63] - worth[0];
    std::array::from_fn(|player| {
        let value = share(&worth, player);
        Share { letter: LETTERS[player], value, part: (gain.abs() > 1e-12).then(|| value / gain) }
    })
}

fn share(worth: &[f64; 64], player: usize) -> f64 {
    let bit = 1 << player;
    let without = (0..64_usize).filter(|set| set & bit == 0);
    without.map(|set| weight(set.count_ones()) * (worth[set | bit] - worth[set])).sum()
}

/// Fraction of the 720 orders in which exactly a given set of size s precedes the player: s! (5 - s)! / 6!.
fn weight(before: u32) -> f64 {
    const ORDERS: [f64; 6] = [120.0, 24.0, 12.0, 12.0, 24.0, 120.0];
    ORDERS[before as usize] / 720.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn independent_factors_have_their_own_effect_as_share() {
        let brings = [0.3, 0.0, -0.1, 0.5, 0.2, 0.05];
        let cells = std::array::from_fn(|set: usize| {
            (0..6).filter(|n| set & (1 << n) != 0).map(|n| brings[n]).sum::<f64>().exp()
        });
        for (share, brought) in shares(&cells).iter().zip(brings) {
            assert!((share.value - brought).abs() < 1e-12, "{share:?}");
        }
    }

    #[test]
    fn a_gain_of_two_factors_together_is_shared_by_halves() {
        let cells = std::array::from_fn(|set| if set & 0b1001 == 0b1001 { 1_f64.exp() } else { 1.0 });
        let values = shares(&cells).map(|share| share.value);
        for (value, expected) in values.iter().zip([0.5, 0.0, 0.0, 0.5, 0.0, 0.0]) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn no_gain_has_no_parts() {
        assert!(shares(&[7.0; 64]).iter().all(|share| share.part.is_none() && share.value == 0.0));
    }

    proptest! {
        #[test]
        fn shares_add_up_and_are_the_mean_over_all_orders(values in prop::collection::vec(0.1..60.0_f64, 64)) {
            let cells: [f64; 64] = values.try_into().unwrap();
            let found = shares(&cells);
            let gain = (cells[63] / cells[0]).ln();
            prop_assert!((found.iter().map(|s| s.value).sum::<f64>() - gain).abs() < 1e-9);
            let mut sums = [0.0; 6];
            let mut orders = Vec::new();
            permute(&mut (0..6).collect::<Vec<_>>(), 0, &mut orders);
            for order in &orders {
                let mut set = 0;
                for player in order {
                    sums[*player] += (cells[set | 1 << player] / cells[set]).ln();
                    set |= 1 << player;
                }
            }
            for (share, sum) in found.iter().zip(sums) {
                prop_assert!((share.value - sum / 720.0).abs() < 1e-9);
            }
        }
    }

    fn permute(players: &mut Vec<usize>, from: usize, orders: &mut Vec<Vec<usize>>) {
        if from == players.len() {
            orders.push(players.clone());
        }
        for other in from..players.len() {
            players.swap(from, other);
            permute(players, from + 1, orders);
            players.swap(from, other);
        }
    }
}
