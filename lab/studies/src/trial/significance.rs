//! Significance: the smallest effect that the controls permit, and the configurations without a resolved effect.

use crate::results::Row;
use measure::Estimate;

/// Significance of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// There is an effect of this sign
    Resolved,
    /// The interval contains 1
    ContainsOne,
    /// The interval does not contain 1, but the median lies within the null band of the controls
    InNullBand,
}

/// Half the width of the null band, as a factor of at least 1: the largest distance from 1 of a control's interval
/// bound.
pub fn null_band(rows: &[Row], controls: &[&str]) -> Option<f64> {
    let far = |ratio: Estimate| ratio.low.ln().abs().max(ratio.high.ln().abs());
    rows.iter()
        .filter(|row| controls.contains(&row.name.as_str()))
        .filter_map(|row| row.ratio.map(far))
        .max_by(f64::total_cmp)
        .map(f64::exp)
}

/// Returns the significance of an estimate, given the band.
pub fn significance(ratio: Estimate, band: f64) -> Significance {
    if ratio.low <= 1.0 && ratio.high >= 1.0 {
        Significance::ContainsOne
    } else if ratio.median >= 1.0 / band && ratio.median <= band {
        Significance::InNullBand
    } else {
        Significance::Resolved
    }
}

/// Returns notes on the effects for the reader.
pub fn notes(rows: &[Row], controls: &[&str]) -> Vec<String> {
    let Some(band) = null_band(rows, controls) else {
        return vec![
            "the controls that change nothing could not be measured, so no effect can be told from noise"
                .to_owned(),
        ];
    };
    let mut notes = vec![format!(
        "controls that change nothing ({}) lie within a factor {band:.3} of the base: smaller effects are not worth naming",
        controls.join(", ")
    )];
    let named = |wanted: Significance| {
        let rows = rows.iter().filter(|row| !controls.contains(&row.name.as_str()));
        let found: Vec<_> = rows
            .filter(|row| row.ratio.is_some_and(|ratio| significance(ratio, band) == wanted))
            .map(|row| row.name.as_str())
            .collect();
        (!found.is_empty()).then(|| found.join(", "))
    };
    notes.extend(
        named(Significance::ContainsOne)
            .map(|names| format!("not resolved, because the interval holds 1: {names}")),
    );
    notes
        .extend(named(Significance::InNullBand).map(|names| {
            format!("not resolved, because the controls differ from the base as much: {names}")
        }));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, low: f64, high: f64) -> Row {
        let ratio = Some(Estimate { median: f64::midpoint(low, high), low, high });
        Row {
            name: name.to_owned(),
            mpps: 1.0,
            ratio,
            threads: Vec::new(),
            lines: Vec::new(),
            events: Vec::new(),
        }
    }

    #[test]
    fn controls_set_the_smallest_effect() {
        let rows = [row("base-again", 0.98, 1.01), row("demote", 0.99, 1.04), row("a", 1.3, 1.4)];
        let band = null_band(&rows, &["base-again", "demote"]).expect("two controls");
        assert!((band - 1.04).abs() < 1e-9);
        assert_eq!(null_band(&rows[2..], &["demote"]), None);
    }

    #[test]
    fn an_unresolved_order_is_named_with_the_reason() {
        let rows = [
            row("base-again", 0.97, 1.02),
            row("a", 1.3, 1.4),
            row("b", 0.99, 1.2),
            row("c", 1.005, 1.02),
            row("d", 0.5, 0.6),
        ];
        let notes = notes(&rows, &["base-again"]);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[1].ends_with("holds 1: b"), "{notes:?}");
        assert!(notes[2].ends_with("as much: c"), "{notes:?}");
    }
}
