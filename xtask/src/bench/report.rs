//! Results: medians of each subject and ratios of each pair, by class of distances, as tables, as JSON and as a
//! picture.

use std::fs;

use anyhow::{Context, Result};
use measure::distance::Class;
use serde_json::{Map, Value, json};

use super::comparison::{Comparison, Goal, Pair};
use super::picture;
use super::rounds::{Rounds, median};
use super::{Options, Output};

/// Medians of a subject.
struct Row {
    subject: usize,
    class: Option<Class>,
    rounds: usize,
    medians: Vec<Option<f64>>,
}

/// The ratio of a pair.
pub(super) struct Ratio {
    pub(super) pair: Pair,
    pub(super) class: Option<Class>,
    /// Of each round, ascending.
    each: Vec<f64>,
    pub(super) median: f64,
}

/// Prints the result, and draws the ratios if `--out` is given.
pub(super) fn publish(comparison: &Comparison, options: &Options, rounds: &Rounds) -> Result<()> {
    let (rows, ratios) = (rows(comparison, rounds), ratios(comparison, rounds));
    match options.output {
        Output::Table => print!("{}", table(comparison, &rows, &ratios)),
        Output::Json => println!("{:#}", json(comparison, &rows, &ratios)),
    }
    let picture = options.out.as_ref().zip(picture::svg(comparison, &ratios));
    picture.map_or(Ok(()), |(file, text)| {
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    })
}

fn rows(comparison: &Comparison, rounds: &Rounds) -> Vec<Row> {
    let row = |(class, subject)| {
        let of = |column| median(rounds.values(subject, column, class));
        let medians = (0..comparison.columns.len()).map(of).collect();
        Row { subject, class, rounds: rounds.count(subject, class), medians }
    };
    let subjects = comparison.subjects.len();
    let all =
        rounds.classes().into_iter().flat_map(|class| (0..subjects).map(move |subject| (class, subject)));
    all.map(row).filter(|row| row.rounds > 0).collect()
}

fn ratios(comparison: &Comparison, rounds: &Rounds) -> Vec<Ratio> {
    let of = |pair: &Pair, class| {
        let mut each = rounds.ratios(pair, class);
        let median = median(each.clone())?;
        each.sort_by(f64::total_cmp);
        Some(Ratio { pair: *pair, class, each, median })
    };
    let classes = rounds.classes().into_iter();
    classes.flat_map(|class| comparison.pairs.iter().filter_map(move |pair| of(pair, class))).collect()
}

impl Row {
    /// Whether all medians are within their limits; `None` without limits.
    fn is_within(&self, comparison: &Comparison) -> Option<bool> {
        let limits = comparison.columns.iter().zip(&self.medians);
        let within = limits.filter_map(|(column, value)| Some((*value)? <= column.most?));
        within.reduce(|all, each| all && each)
    }

    fn cells(&self, comparison: &Comparison) -> Vec<String> {
        let labels = comparison.subjects[self.subject].iter().cloned();
        let columns = comparison.columns.iter().zip(&self.medians);
        let values = columns.map(|(column, value)| column.shown(*value));
        let limits = has_limits(comparison).then(|| result(self.is_within(comparison)));
        let class = [class_name(self.class).to_owned(), self.rounds.to_string()];
        labels.chain(class).chain(values).chain(limits).collect()
    }

    fn json(&self, comparison: &Comparison) -> Value {
        let mut row = labels(comparison, self.subject);
        row.insert("distance".to_owned(), json!(self.class.map(Class::name)));
        row.insert("rounds".to_owned(), json!(self.rounds));
        let columns = comparison.columns.iter().zip(&self.medians);
        row.extend(columns.map(|(column, value)| (column.key.to_owned(), json!(value))));
        if has_limits(comparison) {
            row.insert("within_limits".to_owned(), json!(self.is_within(comparison)));
        }
        row.into()
    }
}

impl Ratio {
    /// The goal at this class of distances.
    pub(super) fn goal(&self) -> Option<Goal> {
        self.pair.goal.filter(|_| self.class.is_none_or(|class| class == Class::Near))
    }

    /// Whether the goal is met; `None` without goal.
    pub(super) fn is_met(&self) -> Option<bool> {
        self.goal().map(|goal| goal.is_met(self.median))
    }

    fn cells(&self, comparison: &Comparison) -> Vec<String> {
        let (name, of) = (comparison.pair_name(&self.pair), comparison.columns[self.pair.column].heading);
        let each: Vec<_> = self.each.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let goal = self.goal().map_or("-".to_owned(), |goal| goal.to_string());
        let class = class_name(self.class).to_owned();
        vec![
            name,
            of.to_owned(),
            class,
            format!("{:.2}", self.median),
            goal,
            result(self.is_met()),
            each.join(" "),
        ]
    }

    fn json(&self, comparison: &Comparison) -> Value {
        json!({
            "ours": labels(comparison, self.pair.ours),
            "theirs": labels(comparison, self.pair.theirs),
            "of": comparison.columns[self.pair.column].key,
            "distance": self.class.map(Class::name),
            "rounds": self.each.len(),
            "ratio": self.median,
            "ratios": self.each,
            "goal": self.goal().map(|goal| goal.to_string()),
            "met": self.is_met(),
        })
    }
}

fn has_limits(comparison: &Comparison) -> bool {
    comparison.columns.iter().any(|column| column.most.is_some())
}

fn class_name(class: Option<Class>) -> &'static str {
    class.map_or("-", Class::name)
}

fn result(is_met: Option<bool>) -> String {
    is_met.map_or("-", |is_met| if is_met { "met" } else { "missed" }).to_owned()
}

fn labels(comparison: &Comparison, subject: usize) -> Map<String, Value> {
    let names = comparison.labels.iter().map(|name| (*name).to_owned());
    names.zip(comparison.subjects[subject].iter().map(|label| json!(label))).collect()
}

/// A table of the subjects, and one of the ratios.
fn table(comparison: &Comparison, rows: &[Row], ratios: &[Ratio]) -> String {
    let columns = comparison.columns.iter().map(|column| column.heading);
    let heading = comparison.labels.iter().copied().chain(["CPUs", "rounds"]).chain(columns);
    let heading = heading.chain(has_limits(comparison).then_some("limits")).map(str::to_owned).collect();
    let rows = std::iter::once(heading).chain(rows.iter().map(|row| row.cells(comparison)));
    let heading = ["pair", "of", "CPUs", "ratio", "goal", "result", "ratios of the rounds"];
    let heading = heading.map(str::to_owned).to_vec();
    let ratios = std::iter::once(heading).chain(ratios.iter().map(|ratio| ratio.cells(comparison)));
    format!("{}\n{}", aligned(&rows.collect::<Vec<_>>()), aligned(&ratios.collect::<Vec<_>>()))
}

/// Lines of cells; numbers are aligned to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let is_number = |at: usize| {
        let mut cells = lines.iter().skip(1).map(|line| line[at].as_str());
        lines.len() > 1 && cells.all(|cell| cell == "-" || cell.parse::<f64>().is_ok())
    };
    let shapes: Vec<_> = (0..count).map(|at| (width(at), is_number(at))).collect();
    let cell = |(cell, (width, is_number)): (&String, &(usize, bool))| {
        if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    };
    let line = |line: &Vec<String>| {
        let cells: Vec<_> = line.iter().zip(&shapes).map(cell).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

fn json(comparison: &Comparison, rows: &[Row], ratios: &[Ratio]) -> Value {
    json!({
        "subjects": rows.iter().map(|row| row.json(comparison)).collect::<Vec<_>>(),
        "ratios": ratios.iter().map(|ratio| ratio.json(comparison)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::comparison;
    use super::super::rounds::Reading;
    use super::*;

    fn rounds(class: Option<Class>, ours: &[f64], theirs: &[f64]) -> Rounds {
        let read = |values: &[f64]| {
            let reading = |value: &f64| Some(Reading { values: vec![Some(*value), Some(6.0)], class });
            values.iter().map(reading).collect()
        };
        Rounds(vec![read(ours), read(theirs)])
    }

    #[test]
    fn the_median_of_the_ratios_counts() {
        let comparison = comparison(Goal::AtLeast(2.0));
        let rounds = rounds(None, &[3.0, 1.0, 2.0], &[1.0; 3]);
        let (rows, ratios) = (rows(&comparison, &rounds), ratios(&comparison, &rounds));
        assert_eq!(
            (ratios[0].median, ratios[0].is_met(), rows[0].is_within(&comparison)),
            (2.0, Some(true), Some(false))
        );
        let text = table(&comparison, &rows, &ratios);
        assert!(
            text.contains("split linerate over ovs  Mpps     -   2.00  at least 2  met     1.00 2.00 3.00\n"),
            "{text}"
        );
        assert!(text.contains("split  ovs          -       3  1.00         6.0  missed\n"), "{text}");
        let json = json(&comparison, &rows, &ratios);
        assert_eq!(
            (&json["ratios"][0]["met"], &json["ratios"][0]["ours"]["switch"]),
            (&json!(true), &json!("linerate"))
        );
        assert_eq!(
            (&json["subjects"][1]["mpps"], &json["subjects"][1]["within_limits"]),
            (&json!(1.0), &json!(false))
        );
    }

    #[test]
    fn goals_apply_to_near_cpus() {
        let comparison = comparison(Goal::AtMost(2.0));
        let of = |class| ratios(&comparison, &rounds(Some(class), &[3.0], &[1.0])).remove(0).is_met();
        assert_eq!([Class::Near, Class::Between, Class::Far].map(of), [Some(false), None, None]);
    }

    #[test]
    fn a_pair_without_a_reading_has_no_ratio() {
        let comparison = comparison(Goal::AtLeast(2.0));
        let rounds = rounds(None, &[3.0], &[]);
        assert!(ratios(&comparison, &rounds).is_empty() && rows(&comparison, &rounds).len() == 1);
    }
}
