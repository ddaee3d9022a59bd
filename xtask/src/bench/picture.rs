//! Bar chart of ratios with their targets. Plain SVG 1.1 text: see `docs/decisions/0019-picture-as-plain-svg.md`.

use std::fmt::Write as _;

/// A ratio and its target.
pub(super) struct Bar {
    /// Label, such as `split, 64 B, testpmd`.
    pub(super) name: String,
    /// Median of the rounds' ratios; `None` without a reading.
    pub(super) ratio: Option<f64>,
    /// Target, if there is one.
    pub(super) target: Option<f64>,
}

const LINE: usize = 28;
const LEFT: usize = 220;
const WIDTH: usize = 480;
const RIGHT: usize = 150;
const TOP: usize = 44;
const AXIS: usize = 40;

/// The whole file.
pub(super) fn svg(title: &str, rows: &[Bar]) -> String {
    let (width, bottom) = (LEFT + WIDTH + RIGHT, TOP + rows.len() * LINE);
    let end = end(rows);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{title}</text>\n",
        height = bottom + AXIS
    );
    for tick in 0..=end {
        text += &grid(tick, x(f64::from(tick), end), bottom);
    }
    for (row, top) in rows.iter().zip((TOP..).step_by(LINE)) {
        text += &bar(row, top, end);
    }
    text + "</svg>\n"
}

/// End of the axis: the integer above all values.
fn end(rows: &[Bar]) -> u32 {
    let shown = rows.iter().flat_map(|row| [row.ratio, row.target]).flatten();
    let most = shown.fold(1.0, f64::max).min(1000.0);
    // One grid line per integer; limited to 1000, which also fits the type.
    most.floor() as u32 + 1
}

fn x(ratio: f64, end: u32) -> f64 {
    LEFT as f64 + WIDTH as f64 * ratio.min(f64::from(end)) / f64::from(end)
}

fn grid(tick: u32, x: f64, bottom: usize) -> String {
    let under = bottom + 18;
    format!(
        "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\n\
         <text x=\"{x:.1}\" y=\"{under}\" text-anchor=\"middle\">{tick}</text>\n"
    )
}

/// A row: label, bar, target mark and both as numbers.
fn bar(row: &Bar, top: usize, end: u32) -> String {
    let (base, name) = (top + 18, &row.name);
    let mut text = format!("<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>\n", LEFT - 10);
    let mut figures = "no reading".to_owned();
    if let Some(ratio) = row.ratio {
        // The result is also readable without colours, from the numbers.
        let colour = if row.target.is_some_and(|target| ratio < target) { "#c5642c" } else { "#2c6fb0" };
        let (length, upper) = (x(ratio, end) - LEFT as f64, top + 5);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<rect x=\"{LEFT}\" y=\"{upper}\" width=\"{length:.1}\" height=\"18\" fill=\"{colour}\"/>"
        );
        figures = format!("{ratio:.2}");
    }
    if let Some(target) = row.target {
        let (at, upper, lower) = (x(target, end), top + 1, top + 27);
        let _ = writeln!(
            text,
            "<line x1=\"{at:.1}\" y1=\"{upper}\" x2=\"{at:.1}\" y2=\"{lower}\" stroke=\"black\" stroke-width=\"3\"/>"
        );
        let _ = write!(figures, ", target {target:.1}");
    }
    text + &format!("<text x=\"{}\" y=\"{base}\">{figures}</text>\n", LEFT + WIDTH + 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: Option<f64>) -> Bar {
        Bar { name: "split, 64 B, testpmd".to_owned(), ratio, target: ratio.map(|_| 1.4) }
    }

    #[test]
    fn a_bar_is_as_long_as_its_ratio_and_its_target_is_marked() {
        let text = svg("title", &[row(Some(1.0))]);
        // The axis ends at 2; the target is 1.4.
        assert!(text.contains("width=\"240.0\" height=\"18\" fill=\"#c5642c\""), "{text}");
        assert!(text.contains("<line x1=\"556.0\" y1=\"45\""), "{text}");
        assert!(text.contains(">split, 64 B, testpmd</text>"), "{text}");
        assert!(text.contains(">1.00, target 1.4</text>"), "{text}");
        assert!(svg("title", &[row(Some(1.5))]).contains("#2c6fb0"));
    }

    #[test]
    fn what_has_no_reading_has_no_bar_and_says_so() {
        let text = svg("title", &[row(None)]);
        assert!(text.contains(">no reading</text>") && !text.contains("height=\"18\""), "{text}");
    }

    #[test]
    fn no_ratio_leaves_the_picture() {
        let text = svg("title", &[row(Some(1e9))]);
        assert!(text.contains("width=\"480.0\""), "{text}");
    }
}
