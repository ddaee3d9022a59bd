//! Text and number formatting for pages and terminals.

use measure::Kind;

/// Replaces control characters except line feeds and tabs, which XML cannot represent.
pub(crate) fn without_controls(markup: &str) -> String {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    markup.chars().map(shown).collect()
}

/// Replaces control characters, so that text is safe on a terminal.
pub fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Formats with three significant digits; larger numbers without decimals.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    match size {
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ if size >= 0.0005 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Formats with thousands separators.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The label of a set: simulated or measured.
pub fn kind(memory: Kind) -> &'static str {
    match memory {
        Kind::Simulated => "Simulated",
        Kind::Real => "Measured",
        Kind::Counted => "Measured with hardware counters",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 0.01234, 1.2345, 12.345, 1234.5, 0.00001, f64::NAN].map(number);
        assert_eq!(shown, ["0.00", "0.012", "1.23", "12.3", "1234", "1.0e-5", "-"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    proptest! {
        #[test]
        fn text_is_escaped(text in any::<String>()) {
            let mut drawing = crate::svg::Drawing::new(1.0, 1.0);
            drawing.text(0.0, 0.0, crate::svg::Anchor::Start, &text, &text);
            let drawing = drawing.finish(&text);
            prop_assert_eq!(drawing.matches(['<', '>']).count(), if text.is_empty() { 4 } else { 8 });
            prop_assert_eq!(drawing.matches('"').count(), if text.is_empty() { 8 } else { 16 });
            prop_assert!(!drawing.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
