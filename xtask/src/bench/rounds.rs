//! Interleaved readings: one of each subject, then the next round. The distance of the two CPUs is measured before and
//! after each reading, because a hypervisor may move them, and only readings at the same class of distance are
//! compared.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use measure::distance::{self, Class};
use measure::statistics;

use super::Options;
use super::comparison::{Comparison, Pair};
use super::progress::Progress;

/// The values of a reading, by column.
pub(super) type Values = Vec<Option<f64>>;

/// A reading, with the greater class of its distances. The class is `None` if the distance cannot be measured, such as
/// on a single CPU.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) values: Values,
    pub(super) class: Option<Class>,
}

/// The readings of each subject by round; `None` if a reading failed.
pub(super) struct Rounds(pub(super) Vec<Vec<Option<Reading>>>);

impl Rounds {
    /// Takes all readings and prints each. A signal ends the measurement; the last round is then possibly incomplete.
    pub(super) fn take(
        comparison: &Comparison,
        options: &Options,
        progress: &Progress,
        read: impl Fn(usize) -> Result<Values>,
    ) -> Self {
        let count = comparison.subjects.len();
        let mut readings = vec![Vec::new(); count];
        for (round, subject) in (1..=options.rounds).flat_map(|round| (0..count).map(move |s| (round, s))) {
            if progress.is_interrupted() {
                break;
            }
            let title = format!("round {round}, {}", comparison.name(subject));
            progress.begin(&title);
            let taken = one(comparison, [options.switch_cpu, options.guest_cpu], || read(subject));
            if progress.is_interrupted() {
                break;
            }
            readings[subject].push(match taken {
                Ok((reading, shown)) => {
                    progress.end(&format!("{title}: {shown}"));
                    Some(reading)
                }
                Err(error) => {
                    progress.end(&format!("{title}: no reading: {error:#}"));
                    None
                }
            });
        }
        Self(readings)
    }

    /// Returns an error if the measurement was interrupted, or if a subject has no reading.
    pub(super) fn validate(&self, comparison: &Comparison, progress: &Progress) -> Result<()> {
        if progress.is_interrupted() {
            bail!("interrupted after {}: the result is of what was measured by then", progress.done());
        }
        match self.0.iter().position(|readings| readings.iter().all(Option::is_none)) {
            Some(subject) => bail!("no reading of {}: see the messages above", comparison.name(subject)),
            None => Ok(()),
        }
    }

    /// The classes of distances that occur.
    pub(super) fn classes(&self) -> BTreeSet<Option<Class>> {
        self.0.iter().flatten().flatten().map(|reading| reading.class).collect()
    }

    /// The values of a subject's column at one class of distances.
    pub(super) fn values(&self, subject: usize, column: usize, class: Option<Class>) -> Vec<f64> {
        let readings = self.0[subject].iter().flatten().filter(|reading| reading.class == class);
        readings.filter_map(|reading| reading.values[column]).collect()
    }

    /// Number of a subject's readings at one class of distances.
    pub(super) fn count(&self, subject: usize, class: Option<Class>) -> usize {
        self.0[subject].iter().flatten().filter(|reading| reading.class == class).count()
    }

    /// The ratios of a pair in each round that has both readings at this class of distances. A cost is a difference, and
    /// there is no ratio to one that is not above 0.
    pub(super) fn ratios(&self, pair: &Pair, class: Option<Class>) -> Vec<f64> {
        let value = |reading: &Option<Reading>| {
            reading.as_ref().filter(|reading| reading.class == class)?.values[pair.column]
        };
        let both = self.0[pair.ours].iter().zip(&self.0[pair.theirs]);
        let ratio = |(ours, theirs)| Some(value(ours)? / value(theirs).filter(|theirs| *theirs > 0.0)?);
        both.filter_map(ratio).collect()
    }
}

/// Takes one reading. Returns it, and its values as text.
fn one(
    comparison: &Comparison,
    cpus: [usize; 2],
    read: impl Fn() -> Result<Values>,
) -> Result<(Reading, String)> {
    let before = distance::wait_while_far(cpus);
    let values = read()?;
    let distances = before.zip(distance::between(cpus));
    let shown = comparison.columns.iter().zip(&values);
    let mut shown: Vec<_> =
        shown.map(|(column, value)| format!("{} {}", column.heading, column.shown(*value))).collect();
    if let Some((before, after)) = distances {
        shown.push(format!("distance {before:.0} and {after:.0} ns"));
    }
    let class = distances.map(|(before, after)| Class::of(before.max(after)));
    Ok((Reading { values, class }, shown.join(", ")))
}

/// The median. Of pairs it is the median of the rounds' ratios and not the ratio of medians, because a round is
/// measured within minutes.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    statistics::median(&mut values)
}

#[cfg(test)]
mod tests {
    use super::super::comparison::Goal;
    use super::super::comparison::tests::comparison;
    use super::*;

    #[test]
    fn subjects_take_turns_and_a_round_without_both_gives_no_ratio() {
        let (comparison, progress) = (comparison(Goal::AtLeast(2.0)), Progress::new(6).unwrap());
        let turn = std::cell::Cell::new(0.0);
        let rounds = Rounds::take(&comparison, &Options::of_test(3), &progress, |subject| {
            turn.set(turn.get() + 1.0);
            anyhow::ensure!((turn.get() - 4.0_f64).abs() > 0.5, "no frame arrived");
            Ok(vec![Some(turn.get()), (subject == 0).then_some(1.0)])
        });
        assert_eq!((rounds.values(0, 0, None), rounds.count(1, None)), (vec![1.0, 3.0, 5.0], 2));
        assert_eq!(rounds.ratios(&comparison.pairs[0], None), [1.0 / 2.0, 5.0 / 6.0]);
        assert!(rounds.values(1, 1, None).is_empty() && rounds.validate(&comparison, &progress).is_ok());
    }

    #[test]
    fn a_cost_that_is_not_above_0_gives_no_ratio() {
        let read = |value| Some(Reading { values: vec![Some(value), None], class: None });
        let rounds =
            Rounds(vec![vec![read(3.0), read(3.0), read(-1.0)], vec![read(-2.0), read(0.0), read(2.0)]]);
        assert_eq!(rounds.ratios(&comparison(Goal::AtLeast(2.0)).pairs[0], None), [-0.5]);
    }

    #[test]
    fn a_subject_without_any_reading_is_an_error() {
        let (comparison, progress) = (comparison(Goal::AtLeast(2.0)), Progress::new(2).unwrap());
        let reading = Reading { values: vec![Some(1.0), None], class: None };
        let rounds = Rounds(vec![vec![Some(reading)], vec![None]]);
        let error = rounds.validate(&comparison, &progress).unwrap_err().to_string();
        assert!(error.starts_with("no reading of split ovs"), "{error}");
    }

    #[test]
    fn readings_of_different_classes_are_not_compared() {
        let read = |class| Some(Reading { values: vec![Some(4.0), None], class: Some(class) });
        let rounds = Rounds(vec![
            vec![read(Class::Near), read(Class::Far), read(Class::Near)],
            vec![read(Class::Near), read(Class::Near), read(Class::Far)],
        ]);
        let pair = comparison(Goal::AtLeast(2.0)).pairs[0];
        let classes = [Some(Class::Near), Some(Class::Far)];
        assert!(rounds.classes().into_iter().eq(classes));
        assert_eq!(classes.map(|class| rounds.ratios(&pair, class).len()), [1, 0]);
    }
}
