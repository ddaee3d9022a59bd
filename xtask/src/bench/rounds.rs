//! Measures several subjects in turn, round by round, and provides medians and per-round ratios. The type of a reading
//! and the way to take it belong to each bench.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::progress::Progress;
use super::report::median;

/// A subject of the measurement.
pub(super) trait Subject: Copy + Ord {
    /// Title for readers.
    fn title(self) -> &'static str;
}

/// The readings of each subject by round; `None` if a reading failed.
pub(super) struct Rounds<S, R> {
    readings: BTreeMap<S, Vec<Option<R>>>,
}

impl<S: Subject, R: std::fmt::Display> Rounds<S, R> {
    /// Takes a reading of each of `subjects`, then starts the next round, so that the readings of a round are taken
    /// within minutes. Prints each reading. A signal ends the measurement; the result then has complete rounds and
    /// possibly a partial one.
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
    /// Returns an error if the measurement was interrupted, or if a subject has no reading.
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

    /// A field of all readings of a subject.
    pub(super) fn all(&self, subject: S, field: fn(&R) -> f64) -> Vec<f64> {
        self.of_subject(subject).map(field).collect()
    }

    /// The median of an optional field of a subject's readings.
    pub(super) fn median_of(&self, subject: S, field: impl Fn(&R) -> Option<f64>) -> Option<f64> {
        median(self.of_subject(subject).filter_map(field).collect())
    }

    /// The median of a field of a subject's readings.
    pub(super) fn median(&self, subject: S, field: fn(&R) -> f64) -> Option<f64> {
        median(self.all(subject, field))
    }

    /// All measured subjects.
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

    /// Ratios of ours to theirs in each round that has both.
    pub(super) fn ratios(&self, ours: S, theirs: S, field: fn(&R) -> f64) -> Vec<f64> {
        self.both(ours, theirs).map(|(a, b)| field(a) / field(b)).collect()
    }

    /// The median of the per-round ratios.
    pub(super) fn ratio(&self, ours: S, theirs: S, field: fn(&R) -> f64) -> Option<f64> {
        median(self.ratios(ours, theirs, field))
    }
}

#[cfg(test)]
impl<S: Subject, R> Rounds<S, R> {
    /// Synthetic readings.
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
            // The third reading of subject 2 fails.
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
