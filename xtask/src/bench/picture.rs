//! The ratios as bars, drawn by `tools/figure`.

use figure::bars::{Bar, Bars, Part, bars};
use figure::svg::Key;
use figure::{Figure, id};
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
    let keys = vec![Key::new(OTHER, "ratio"), Key::new(MISSED, "goal missed")];
    let drawing = bars(&Bars { axis: "ratio", keys, bars: rows, ..Bars::default() })?;
    let from = "Measured: medians of the ratios of interleaved rounds.";
    Some(Figure::new(id(Kind::Real, "ratios"), comparison.title, "", drawing, from).file())
}

fn bar(comparison: &Comparison, ratio: &Ratio) -> Bar {
    let class = if ratio.is_met() == Some(false) { MISSED } else { OTHER };
    let goal = ratio.goal().map_or(String::new(), |goal| format!(", goal {goal}"));
    let cpus = ratio.class.map_or(String::new(), |class: Class| format!(" {}", class.name()));
    let tip = comparison.columns[ratio.pair.column].heading.to_owned();
    Bar {
        name: comparison.pair_name(&ratio.pair),
        label: format!("{:.2} {tip}{cpus}{goal}", ratio.median),
        parts: vec![Part::new(class, ratio.median, tip)],
        ..Bar::default()
    }
}
