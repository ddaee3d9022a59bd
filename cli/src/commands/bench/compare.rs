//! `linerate bench compare`: compares two files of results, with the significance of the difference.

use super::report::bounded;
use crate::args::bench::CompareArgs;
use console::Diagnostic;
use measure::store::{StoreError, parse};
use rfc2544::Results;
use rfc2544::checkpoint::Checkpoint;
use rfc2544::compare::{Comparison, Figure, Finding, compare};
use std::path::Path;

/// Compares the files and prints the comparison.
pub(super) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b).map_err(|error| {
        let place = format!("{} and {}", args.a.display(), args.b.display());
        Diagnostic::bad(place, error, "measure both with the same flags")
    })?;
    if comparison.figures.is_empty() {
        let place = format!("{} and {}", args.a.display(), args.b.display());
        let reason = "they have no result of a complete round in common";
        return Err(Diagnostic::bad(place, reason, "run both to the end").into());
    }
    console::print(&comparison, args.show.output, text)
}

/// Reads the output of `-o json`, or a file written by `--keep`.
fn read(path: &Path) -> Result<Results, Diagnostic> {
    let wrong = |reason: String| {
        Diagnostic::bad(path.display(), reason, "name a file of `linerate bench --out FILE.json` or `--keep`")
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let printed = serde_json::from_slice::<Results>(&bytes);
    printed.or_else(|error| match parse::<Checkpoint>(&bytes) {
        Ok(found) => Ok(found.results()),
        Err(StoreError::NoSchema(_)) => Err(wrong(format!("it holds no results of a benchmark: {error}"))),
        Err(error) => Err(wrong(error.to_string())),
    })
}

fn text(comparison: &Comparison) -> String {
    let titles = ["SIZE", "FIGURE", ">A", ">B", "UNIT", ">B/A", ">95 % FROM", ">TO", "DIFFERENCE"];
    let (a, b) = &comparison.switches;
    let mut lines = vec![console::table(&titles, comparison.figures.iter().map(row)), String::new()];
    lines.push(format!("A: {a}\nB: {b}"));
    let resolved = comparison.figures.iter().filter(|figure| figure.interval.is_some()).count();
    if resolved > 0 {
        lines.push(format!(
            "intervals contain the true ratio 19 times in 20: of {resolved} equal figures, about {:.0} \
             would differ by chance",
            resolved as f64 / 20.0
        ));
    }
    lines.extend(comparison.notes.iter().cloned());
    lines.join("\n")
}

fn row(figure: &Figure) -> Vec<String> {
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    let interval = figure.interval;
    vec![
        figure.size.clone(),
        figure.what.clone(),
        bounded(&number(figure.a), figure.bounded.a),
        bounded(&number(figure.b), figure.bounded.b),
        figure.unit.to_owned(),
        ratio(figure.ratio),
        ratio(interval.map(|found| found.low)),
        ratio(interval.map(|found| found.high)),
        words(figure),
    ]
}

fn words(figure: &Figure) -> String {
    match figure.finding {
        Finding::Differs => "beyond chance".to_owned(),
        Finding::ByChance => "not significant".to_owned(),
        Finding::TooFewRounds => {
            format!("not known: {} and {} rounds, six are needed", figure.rounds.0, figure.rounds.1)
        }
        Finding::NoRatio => "no ratio: one is zero".to_owned(),
    }
}
