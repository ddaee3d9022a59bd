//! Interleaved readings: one of each case, then the next round, because a shared machine changes within minutes.

use crate::statistics::median;

/// Takes `rounds` readings of each of `cases` in turn. Returns the readings of each case, round by round.
pub fn interleaved<E>(
    rounds: usize,
    cases: usize,
    mut read: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let mut readings = vec![Vec::with_capacity(rounds); cases];
    for _ in 0..rounds {
        for (case, readings) in readings.iter_mut().enumerate() {
            readings.push(read(case)?);
        }
    }
    Ok(readings)
}

/// The median of the rounds' ratios of `a` to `b`; `None` without a round.
pub fn median_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    median(&mut a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_take_turns_and_ratios_are_of_one_round() {
        let mut turn = 0.0;
        let taken = interleaved(3, 2, |_| {
            turn += 1.0;
            Ok::<_, ()>(turn)
        });
        let readings = taken.unwrap();
        assert_eq!(readings, [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]);
        assert_eq!(median_ratio(&readings[0], &readings[1]), Some(0.75));
        assert_eq!((interleaved(1, 2, Err::<f64, _>), median_ratio(&[], &[])), (Err(0), None));
    }
}
