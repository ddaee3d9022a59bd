//! Exponential regression: `y = scale * e^(rate * x)`, by least squares on the logarithm of `y`.

use serde::Serialize;

/// An exponential law and its goodness of fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exponential {
    /// `y` at `x = 0`
    pub scale: f64,
    /// Change of ln `y` per unit of `x`
    pub rate: f64,
    /// Share of the variance of ln `y` that the law explains, 0 to 1
    pub r2: f64,
}

impl Exponential {
    /// Fits the law to `(x, y)` points; returns `None` for fewer than three points, if all have the same `x`, or if a
    /// `y` is not above 0.
    ///
    /// Two points always lie on a curve, so a fit through them has no meaning.
    pub fn fit(points: &[(f64, f64)]) -> Option<Exponential> {
        if points.len() < 3 || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite() || *y <= 0.0) {
            return None;
        }
        let count = points.len() as f64;
        let (x0, y0) = (
            points.iter().map(|(x, _)| x).sum::<f64>() / count,
            points.iter().map(|(_, y)| y.ln()).sum::<f64>() / count,
        );
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            let (x, y) = (x - x0, y.ln() - y0);
            (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
        }
        // Rounding errors of equal points do not count as spread.
        if xx <= f64::EPSILON * count * x0.abs().max(1e-12).powi(2) {
            return None;
        }
        let rate = xy / xx;
        let r2 = if yy > 0.0 { (rate * xy / yy).clamp(0.0, 1.0) } else { 1.0 };
        Some(Exponential { scale: (y0 - rate * x0).exp(), rate, r2 })
    }

    /// Value of `y` at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.scale * (self.rate * x).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn points_on_a_curve_give_the_curve() {
        let points: Vec<_> = (0..9).map(|x| (f64::from(x), 50.0 * (-0.3 * f64::from(x)).exp())).collect();
        let law = Exponential::fit(&points).unwrap();
        assert!((law.scale - 50.0).abs() < 1e-9 && (law.rate + 0.3).abs() < 1e-12, "{law:?}");
        assert!((law.r2 - 1.0).abs() < 1e-12);
        assert!((law.at(2.0) - points[2].1).abs() < 1e-9);
    }

    #[test]
    fn data_without_a_law_has_no_fit() {
        assert_eq!(Exponential::fit(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(Exponential::fit(&[(0.1, 1.0), (0.1, 2.0), (0.1, 3.0)]), None);
        assert_eq!(Exponential::fit(&[(0.0, 1.0), (1.0, 0.0), (2.0, 3.0)]), None);
        assert_eq!(Exponential::fit(&[(0.0, 1.0), (f64::NAN, 1.0), (2.0, 3.0)]), None);
    }

    #[test]
    fn r2_matches_values_computed_by_hand() {
        // ln y is 0, 1, 0: no slope, and nothing explained.
        let law = Exponential::fit(&[(0.0, 1.0), (1.0, std::f64::consts::E), (2.0, 1.0)]).unwrap();
        assert!(law.rate.abs() < 1e-12 && law.r2 < 1e-12, "{law:?}");
        // ln y is 0, 1, 1: slope 1/2, residuals -1/6, 1/3, -1/6, so R2 = 1 - (1/6) / (2/3).
        let e = std::f64::consts::E;
        let law = Exponential::fit(&[(0.0, 1.0), (1.0, e), (2.0, e)]).unwrap();
        assert!((law.rate - 0.5).abs() < 1e-12 && (law.r2 - 0.75).abs() < 1e-12, "{law:?}");
    }

    proptest! {
        #[test]
        fn fitted_exponential_has_the_smallest_error(
            points in prop::collection::vec((0.0..20.0, 0.1..60.0), 3..40),
            scale in -0.1..0.1,
            rate in -0.1..0.1,
        ) {
            let points: Vec<(f64, f64)> = points;
            if let Some(law) = Exponential::fit(&points) {
                let far = |scale: f64, rate: f64| -> f64 {
                    points.iter().map(|(x, y)| (y.ln() - scale - rate * x).powi(2)).sum()
                };
                let (a, b) = (law.scale.ln(), law.rate);
                prop_assert!(far(a, b) <= far(a + scale, b + rate) + 1e-9);
                prop_assert!((0.0..=1.0).contains(&law.r2));
            }
        }
    }
}
