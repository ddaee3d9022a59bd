//! Spearman's rank correlation: measures a monotonic relation of any form.

/// Returns the correlation of the ranks, -1 to 1; ties share the mean of their ranks. Returns `None` for fewer than
/// three points, for values that are not finite, or if all values of one side are equal.
pub fn spearman(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let x = ranks(&points.iter().map(|(x, _)| *x).collect::<Vec<_>>());
    let y = ranks(&points.iter().map(|(_, y)| *y).collect::<Vec<_>>());
    pearson(&x, &y)
}

/// Returns each value's rank, from 1; equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let alike = order[from..].iter().take_while(|n| values[**n] <= values[order[from]]).count();
        let mean = (from + 1 + from + alike) as f64 / 2.0;
        for n in &order[from..from + alike] {
            ranks[*n] = mean;
        }
        from += alike;
    }
    ranks
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (x0, y0) = (mean(x), mean(y));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - x0, y - y0);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn orders_that_agree_are_one_and_orders_that_oppose_minus_one() {
        let up: Vec<_> = (1..9).map(|n| (f64::from(n), f64::from(n * n))).collect();
        let down: Vec<_> = up.iter().map(|(x, y)| (*x, -y)).collect();
        assert_eq!((spearman(&up), spearman(&down)), (Some(1.0), Some(-1.0)));
    }

    #[test]
    fn rank_correlation_matches_a_textbook_example() {
        // d = 1, -1, 0, 0: 1 - 6 * 2 / (4 * 15).
        let points = [(1.0, 20.0), (2.0, 10.0), (3.0, 30.0), (4.0, 40.0)];
        assert!((spearman(&points).unwrap() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn ties_share_their_ranks() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(spearman(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
        assert_eq!(spearman(&[(1.0, 2.0), (2.0, 3.0)]), None);
    }

    proptest! {
        #[test]
        fn rank_correlation_is_invariant_under_monotonic_maps(points in prop::collection::vec((-9.0..9.0, -9.0..9.0), 3..30)) {
            let points: Vec<(f64, f64)> = points;
            let bent: Vec<_> = points.iter().map(|(x, y): &(f64, f64)| (x.exp(), y * 3.0 - 1.0)).collect();
            let (straight, bent) = (spearman(&points), spearman(&bent));
            prop_assert_eq!(straight.is_some(), bent.is_some());
            if let (Some(a), Some(b)) = (straight, bent) {
                prop_assert!((a - b).abs() < 1e-9 && (-1.0..=1.0).contains(&a));
            }
        }
    }
}
