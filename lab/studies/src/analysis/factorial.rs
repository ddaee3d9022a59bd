//! Effects and interactions of the six factors: a full 2^6 factorial analysis of the logarithm of throughput.
//!
//! Cells are numbered as in [`crate::factors::cells`]: bit `i` is set if letter `i` is included. An effect is the mean
//! of ln throughput with the factor minus the mean without it; an interaction is the same with the product of the
//! factors' signs (G. Box, W. Hunter, J. Hunter, Statistics for Experimenters, chapter 5).

use serde::Serialize;

use super::name_of;

/// Effect of a factor or of an interaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Letters, joined by `:` for an interaction
    pub letters: String,
    /// Number of letters
    pub order: u32,
    /// Difference in ln throughput
    pub effect: f64,
    /// Throughput ratio: e to the effect
    pub factor: f64,
    /// Share of the variation between the 64 cells, 0 to 1
    pub share: f64,
}

/// Returns all 63 effects of the cells' throughputs, largest share first.
pub fn effects(mpps: &[f64; 64]) -> Vec<Effect> {
    let mut sums = mpps.map(f64::ln);
    walsh_hadamard(&mut sums);
    let total: f64 = sums[1..].iter().map(|sum| sum * sum).sum();
    let effect = |bits: usize| {
        // The transform's sign counts the included letters, an effect's sign the excluded ones.
        let sign = if bits.count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let effect = sign * sums[bits] / 32.0;
        let share = if total > 0.0 { sums[bits] * sums[bits] / total } else { 0.0 };
        Effect { letters: name_of(bits, ":"), order: bits.count_ones(), effect, factor: effect.exp(), share }
    };
    let mut effects: Vec<Effect> = (1..64).map(effect).collect();
    effects.sort_by(|a, b| b.share.total_cmp(&a.share));
    effects
}

/// Fast Walsh-Hadamard transform in place: `out[s]` is the sum over `x` of `(-1)^|s & x| * in[x]`.
pub fn walsh_hadamard(values: &mut [f64]) {
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of<'a>(effects: &'a [Effect], letters: &str) -> &'a Effect {
        effects.iter().find(|effect| effect.letters == letters).unwrap()
    }

    #[test]
    fn factors_that_multiply_have_their_factors_and_no_interaction() {
        let cells = std::array::from_fn(|bits| {
            let times = |bit: usize, by: f64| if bits & (1 << bit) != 0 { by } else { 1.0 };
            10.0 * times(0, 1.3) * times(3, 1.5)
        });
        let effects = effects(&cells);
        assert!((of(&effects, "a").factor - 1.3).abs() < 1e-12);
        assert!((of(&effects, "d").factor - 1.5).abs() < 1e-12);
        for effect in effects.iter().filter(|effect| effect.letters != "a" && effect.letters != "d") {
            assert!(effect.effect.abs() < 1e-12, "{effect:?}");
        }
        assert_eq!(effects[0].letters, "d");
    }

    #[test]
    fn an_effect_of_two_factors_together_is_an_interaction() {
        // e^2 with both, 1 without: a, d and a:d each have half of it.
        let cells = std::array::from_fn(|bits| if bits & 0b1001 == 0b1001 { 2_f64.exp() } else { 1.0 });
        let effects = effects(&cells);
        for letters in ["a", "d", "a:d"] {
            let effect = of(&effects, letters);
            assert!((effect.effect - 1.0).abs() < 1e-12 && (effect.share - 1.0 / 3.0).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn an_effect_is_the_difference_of_two_means(
            values in prop::collection::vec(0.1..60.0_f64, 64),
            bits in 1_usize..64,
        ) {
            let cells: [f64; 64] = values.try_into().unwrap();
            // The definition: each cell's sign is the product of the factors' signs, plus if the factor is included.
            let sum: f64 = (0..64_usize)
                .map(|x| {
                    let absent = (bits & !x).count_ones();
                    if absent.is_multiple_of(2) { cells[x].ln() } else { -cells[x].ln() }
                })
                .sum();
            let effects = effects(&cells);
            let found = of(&effects, &name_of(bits, ":"));
            prop_assert!((found.effect - sum / 32.0).abs() < 1e-9);
            prop_assert!((effects.iter().map(|e| e.share).sum::<f64>() - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_transform_twice_is_the_values_times_their_number(values in prop::collection::vec(-9.0..9.0_f64, 64)) {
            let mut twice = values.clone();
            walsh_hadamard(&mut twice);
            walsh_hadamard(&mut twice);
            for (a, b) in values.iter().zip(&twice) {
                prop_assert!((a * 64.0 - b).abs() < 1e-9);
            }
        }
    }
}
