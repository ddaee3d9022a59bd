//! Definition of a comparison: subjects, the columns of a reading, and pairs of subjects with goals of their ratios.

use std::fmt;

use anyhow::Result;

use super::Options;
use super::progress::Progress;
use super::report;
use super::rounds::{Rounds, Values};
use crate::hugepages::HugePages;

/// A value of a reading.
pub(super) struct Column {
    /// Key in JSON.
    pub(super) key: &'static str,
    /// Heading in tables.
    pub(super) heading: &'static str,
    /// Digits after the point.
    pub(super) digits: usize,
    /// Limit of a subject's median.
    pub(super) most: Option<f64>,
}

impl Column {
    pub(super) const fn new(key: &'static str, heading: &'static str, digits: usize) -> Self {
        Self { key, heading, digits, most: None }
    }

    pub(super) const fn at_most(self, most: f64) -> Self {
        Self { most: Some(most), ..self }
    }

    /// A value as text.
    pub(super) fn shown(&self, value: Option<f64>) -> String {
        value.map_or("-".to_owned(), |value| format!("{value:.*}", self.digits))
    }
}

/// The goal of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(super) fn is_met(self, ratio: f64) -> bool {
        match self {
            Goal::AtLeast(goal) => ratio >= goal,
            Goal::AtMost(goal) => ratio <= goal,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, goal) = match self {
            Goal::AtLeast(goal) => ("at least", goal),
            Goal::AtMost(goal) => ("at most", goal),
        };
        // At most three digits, such as for a third.
        write!(f, "{bound} {}", (goal * 1e3).round() / 1e3)
    }
}

/// The ratio of one subject's readings to another's, by the numbers of subjects and column. The goal applies to near
/// CPUs, and to those whose distance is not measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) ours: usize,
    pub(super) theirs: usize,
    pub(super) column: usize,
    pub(super) goal: Option<Goal>,
}

/// A bench.
pub(super) struct Comparison {
    /// Heading of the picture.
    pub(super) title: &'static str,
    /// Names of the subjects' labels.
    pub(super) labels: &'static [&'static str],
    pub(super) columns: &'static [Column],
    /// The labels of each subject.
    pub(super) subjects: Vec<Vec<String>>,
    pub(super) pairs: Vec<Pair>,
    /// Number of huge pages that the other software needs.
    pub(super) huge_pages: u64,
}

impl Comparison {
    /// The subject's labels as one name.
    pub(super) fn name(&self, subject: usize) -> String {
        self.subjects[subject].join(" ")
    }

    /// The pair's name, such as `split 64 linerate over testpmd`: labels that both have are not repeated.
    pub(super) fn pair_name(&self, pair: &Pair) -> String {
        let (ours, theirs) = (&self.subjects[pair.ours], &self.subjects[pair.theirs]);
        let differ: Vec<_> =
            theirs.iter().zip(ours).filter_map(|(a, b)| (a != b).then_some(a.as_str())).collect();
        format!("{} over {}", ours.join(" "), differ.join(" "))
    }

    /// Takes all readings by `read`, which gets the number of a subject, and prints each. At the end, or after an
    /// interruption, prints the result of the readings so far.
    pub(super) fn run(&self, options: &Options, read: impl Fn(usize) -> Result<Values>) -> Result<()> {
        let pages = (self.huge_pages > 0).then(|| HugePages::reserve(self.huge_pages)).transpose()?;
        let progress = Progress::new(self.subjects.len() * options.rounds)?;
        let rounds = Rounds::take(self, options, &progress, |subject| {
            let values = read(subject);
            pages.iter().for_each(HugePages::sweep);
            values
        });
        report::publish(self, options, &rounds)?;
        rounds.validate(self, &progress)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two switches, with a rate and a silence of at most 5.
    pub(in super::super) fn comparison(goal: Goal) -> Comparison {
        const COLUMNS: [Column; 2] =
            [Column::new("mpps", "Mpps", 2), Column::new("silence_ms", "silence ms", 1).at_most(5.0)];
        Comparison {
            title: "rates",
            labels: &["ring", "switch"],
            columns: &COLUMNS,
            subjects: ["linerate", "ovs"].map(|switch| vec!["split".to_owned(), switch.to_owned()]).to_vec(),
            pairs: vec![Pair { ours: 0, theirs: 1, column: 0, goal: Some(goal) }],
            huge_pages: 0,
        }
    }

    #[test]
    fn the_name_of_a_pair_repeats_no_label() {
        let comparison = comparison(Goal::AtLeast(2.0));
        assert_eq!(comparison.pair_name(&comparison.pairs[0]), "split linerate over ovs");
    }

    #[test]
    fn a_goal_is_a_lower_or_an_upper_bound() {
        assert!(Goal::AtLeast(2.0).is_met(2.0) && !Goal::AtLeast(2.0).is_met(1.9));
        assert!(Goal::AtMost(2.0).is_met(2.0) && !Goal::AtMost(2.0).is_met(2.1));
        let shown = [Goal::AtMost(1.0 / 3.0), Goal::AtLeast(2.0)].map(|goal| goal.to_string());
        assert_eq!(shown, ["at most 0.333", "at least 2"]);
        assert!(!Goal::AtLeast(2.0).is_met(f64::NAN) && !Goal::AtMost(2.0).is_met(f64::NAN));
    }
}
