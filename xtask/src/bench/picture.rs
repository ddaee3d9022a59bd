//! The ratios as bars, drawn by `tools/figure`.

use figure::bars::{Bar, Part, bars};
use figure::{Sketch, of_use};
use measure::Kind;
use measure::distance::Class;

use super::comparison::Comparison;
use super::report::Ratio;

/// CSS classes of a ratio whose goal is missed, and of any other.
const MISSED: &str = "loss";
const OTHER: &str = "gain";

/// The whole file; `None` without ratios.
pub(super) fn svg(comparison: &Comparison, ratios: &[Ratio]) -> Option<String> {
    let rows: Vec<_> = ratios.iter().map(|ratio| bar(comparison, ratio)).collect();
    let drawing = bars("ratio", &[(OTHER, "ratio"), (MISSED, "goal missed")], &rows)?;
    let (title, caption) = (comparison.title.to_owned(), String::new());
    let sketch = Sketch { name: "ratios", title, caption, drawing };
    Some(of_use(Kind::Real, "Medians of the ratios of interleaved rounds.", sketch).file())
}

fn bar(comparison: &Comparison, ratio: &Ratio) -> Bar {
    let class = if ratio.is_met() == Some(false) { MISSED } else { OTHER };
    let goal = ratio.goal().map_or(String::new(), |goal| format!(", goal {goal}"));
    let cpus = ratio.class.map_or(String::new(), |class: Class| format!(" {}", class.name()));
    let tip = comparison.columns[ratio.pair.column].heading.to_owned();
    Bar {
        name: comparison.pair_name(&ratio.pair),
        label: format!("{:.2} {tip}{cpus}{goal}", ratio.median),
        parts: vec![Part { class, value: ratio.median, tip }],
    }
}
