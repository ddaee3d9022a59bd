//! Crossings of two curves.

use serde::{Deserialize, Serialize};

/// Relation of two curves over their common points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// Crossings, interpolated linearly between neighbouring points; empty if the curves never cross.
    pub at: Vec<f64>,
    /// Whether the first curve is higher before the first crossing; `None` if the curves never differ.
    pub first_leads: Option<bool>,
}

/// Compares two curves, given as `(x, y)` with ascending `x`, at their common `x`. Curves that only touch do not cross;
/// an interval of equality before a crossing counts as its middle.
pub fn crossing(first: &[(f64, f64)], second: &[(f64, f64)]) -> Crossing {
    let of = |x: f64| second.iter().find(|point| point.0.total_cmp(&x).is_eq()).map(|point| point.1);
    let ahead = first.iter().filter_map(|&(x, y)| Some((x, y - of(x)?)));
    // Neither curve leads where they are equal; the last leader counts.
    let ahead: Vec<(f64, f64)> = ahead.filter(|(_, by)| by.is_finite()).collect();
    let mut at = Vec::new();
    let mut last: Option<(usize, f64)> = None;
    for (n, &(x, by)) in ahead.iter().enumerate() {
        if by == 0.0 {
            continue;
        }
        if let Some((before, was)) = last.filter(|(_, was)| (*was > 0.0) != (by > 0.0)) {
            at.push(if before + 1 == n {
                let from = ahead[before].0;
                from + (x - from) * was / (was - by)
            } else {
                f64::midpoint(ahead[before + 1].0, ahead[n - 1].0)
            });
        }
        last = Some((n, by));
    }
    let first_leads = ahead.iter().find(|(_, by)| *by != 0.0).map(|(_, by)| *by > 0.0);
    Crossing { at, first_leads }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &[f64], second: &[f64]) -> Crossing {
        let curve =
            |ys: &[f64]| ys.iter().enumerate().map(|(n, y)| (n as f64 * 100.0, *y)).collect::<Vec<_>>();
        crossing(&curve(first), &curve(second))
    }

    #[test]
    fn curves_cross_where_the_lines_between_their_points_do() {
        let Crossing { at, first_leads } = found(&[10.0, 4.0], &[8.0, 8.0]);
        assert_eq!((at, first_leads), (vec![100.0 / 3.0], Some(true)));
        let Crossing { at, first_leads } = found(&[8.0, 8.0], &[10.0, 4.0]);
        assert_eq!((at, first_leads), (vec![100.0 / 3.0], Some(false)));
    }

    #[test]
    fn curves_that_never_meet_do_not_cross() {
        assert_eq!(
            found(&[3.0, 2.0, 1.0], &[2.0, 1.0, 0.5]),
            Crossing { at: vec![], first_leads: Some(true) }
        );
        assert_eq!(found(&[1.0, 1.0], &[1.0, 1.0]), Crossing { at: vec![], first_leads: None });
        assert_eq!(found(&[], &[1.0]), Crossing { at: vec![], first_leads: None });
    }

    #[test]
    fn touching_curves_do_not_cross_and_equal_curves_cross_in_the_middle() {
        assert!(found(&[3.0, 2.0, 3.0], &[2.0, 2.0, 2.0]).at.is_empty());
        assert_eq!(found(&[3.0, 2.0, 1.0], &[2.0, 2.0, 2.0]).at, [100.0], "at a point");
        assert_eq!(found(&[3.0, 2.0, 2.0, 1.0], &[2.0; 4]).at, [150.0]);
        assert_eq!(found(&[2.0, 3.0], &[2.0, 2.0]), Crossing { at: vec![], first_leads: Some(true) });
    }

    #[test]
    fn every_crossing_is_reported_and_points_of_one_curve_alone_are_ignored() {
        assert_eq!(found(&[2.0, 0.0, 2.0], &[1.0; 3]).at, [50.0, 150.0]);
        let (first, second) = ([(0.0, 2.0), (50.0, 0.0), (100.0, 0.0)], [(0.0, 1.0), (100.0, 1.0)]);
        assert_eq!(crossing(&first, &second).at, [50.0]);
        assert!(crossing(&[(0.0, f64::NAN), (1.0, 1.0)], &[(0.0, 1.0), (1.0, 2.0)]).at.is_empty());
    }
}
