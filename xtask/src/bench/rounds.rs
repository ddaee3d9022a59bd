//! Several subjects measured in turn, round by round: the readings that stand beside each other in one round, their
//! medians and their ratios. What a reading is and how it is taken, each bench knows itself.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::progress::Progress;
use super::report::median;

/// One of those that are measured beside each other.
pub(super) trait Subject: Copy + Ord {
    /// What people read.
    fn title(self) -> &'static str;
}

/// The readings of each subject by round; none where a round gave none.
pub(super) struct Rounds<S, R> {
    readings: BTreeMap<S, Vec<Option<R>>>,
}

impl<S: Subject, R: std::fmt::Display> Rounds<S, R> {
    /// Takes a reading of each of `subjects` and then the next round, so that what stands in one round was measured
    /// within minutes. Each reading is told as it comes. A signal ends it: what there is by then is whole rounds and the
    /// beginning of one.
    pub(super) fn take(
        rounds: usize,
        subjects: &[S],
        progress: &Progress,
        read: impl Fn(S) -> Result<R>,
    ) -> Result<Self> {
        if rounds == 0 {
            bail!("no round, no reading: --rounds starts at 1");
        }
        let mut readings = BTreeMap::<S, Vec<Option<R>>>::new();
        for (round, &subject) in (1..=rounds).flat_map(|round| subjects.iter().map(move |s| (round, s))) {
            if progress.is_interrupted() {
                break;
            }
            let title = format!("round {round}, {}", subject.title());
            progress.begin(&title);
            let reading = read(subject);
            if progress.is_interrupted() {
                break;
            }
            match &reading {
                Ok(reading) => progress.end(&format!("{title}: {reading}")),
                Err(error) => progress.end(&format!("{title}: no reading: {error:#}")),
            }
            readings.entry(subject).or_default().push(reading.ok());
        }
        Ok(Self { readings })
    }
}

impl<S: Subject, R> Rounds<S, R> {
    /// An error if it was cancelled, or if a subject gave no reading at all.
    pub(super) fn validate(&self, progress: &Progress) -> Result<()> {
        if progress.is_interrupted() {
            bail!("interrupted after {}: the result is of what was measured by then", progress.done());
        }
        for (subject, readings) in &self.readings {
            if readings.iter().all(Option::is_none) {
                bail!("no reading of {}", subject.title());
            }
        }
        Ok(())
    }

    /// A field of a subject's readings.
    pub(super) fn all(&self, subject: S, field: fn(&R) -> f64) -> Vec<f64> {
        self.of_subject(subject).map(field).collect()
    }

    /// The median of what some of a subject's readings have.
    pub(super) fn median_of(&self, subject: S, field: impl Fn(&R) -> Option<f64>) -> Option<f64> {
        median(self.of_subject(subject).filter_map(field).collect())
    }

    /// The median of a subject's readings.
    pub(super) fn median(&self, subject: S, field: fn(&R) -> f64) -> Option<f64> {
        median(self.all(subject, field))
    }

    /// Everything that was measured.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &S> {
        self.readings.keys()
    }

    /// The readings of a subject.
    pub(super) fn of_subject(&self, subject: S) -> impl Iterator<Item = &R> {
        self.readings.get(&subject).into_iter().flatten().flatten()
    }

    /// The readings of two subjects in each round that has both.
    pub(super) fn both(&self, ours: S, theirs: S) -> impl Iterator<Item = (&R, &R)> {
        let of = |subject| self.readings.get(&subject).into_iter().flatten();
        of(ours).zip(of(theirs)).filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)))
    }

    /// Ours over theirs in each round that has both.
    pub(super) fn ratios(&self, ours: S, theirs: S, field: fn(&R) -> f64) -> Vec<f64> {
        self.both(ours, theirs).map(|(a, b)| field(a) / field(b)).collect()
    }

    /// The median of the rounds' ratios: what was read in the same round is compared.
    pub(super) fn ratio(&self, ours: S, theirs: S, field: fn(&R) -> f64) -> Option<f64> {
        median(self.ratios(ours, theirs, field))
    }
}

#[cfg(test)]
impl<S: Subject, R> Rounds<S, R> {
    /// Readings that were made up.
    pub(super) fn of(readings: impl IntoIterator<Item = (S, Vec<Option<R>>)>) -> Self {
        Self { readings: readings.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Subject for u8 {
        fn title(self) -> &'static str {
            "a number"
        }
    }

    #[test]
    fn subjects_take_turns_and_a_round_without_both_gives_no_ratio() {
        let progress = Progress::new(6).unwrap();
        let turn = std::cell::Cell::new(0.0);
        let read = |subject: u8| {
            turn.set(turn.get() + 1.0);
            // The third round of 2 fails.
            anyhow::ensure!(subject != 2 || turn.get() < 5.0, "it fell over");
            Ok(turn.get())
        };
        let rounds = Rounds::take(3, &[1, 2], &progress, read).unwrap();
        assert_eq!(rounds.all(1, |r| *r), [1.0, 3.0, 5.0]);
        assert_eq!(rounds.all(2, |r| *r), [2.0, 4.0]);
        assert_eq!(rounds.ratios(1, 2, |r| *r), [0.5, 0.75]);
        assert_eq!(rounds.median(1, |r| *r), Some(3.0));
        assert!(rounds.validate(&progress).is_ok());
    }

    #[test]
    fn a_subject_without_any_reading_is_an_error() {
        let progress = Progress::new(1).unwrap();
        let rounds = Rounds::<u8, f64>::of([(1, vec![Some(1.0)]), (2, vec![None])]);
        assert!(rounds.validate(&progress).is_err() && rounds.ratio(1, 2, |r| *r).is_none());
        assert!(Rounds::take(0, &[1_u8], &progress, |_| Ok(1.0)).is_err());
    }
}
