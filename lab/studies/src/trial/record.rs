//! What a trial has so far: every finished round, as a file keeps it, and what all of them together say.
//!
//! A round is kept whole or not at all, so the rounds of a trial that was ended and gone on with are those of one that
//! never stopped: the order of a round follows from the seed and its number. Nothing here runs anything.

use serde::{Deserialize, Serialize};

use crate::counted::Counts;
use crate::results::{EventRow, Row};
use measure::statistics::{FEWEST, median, ratio};

/// A trial's finished rounds, and what the next ones must have in common with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// About how long a slice takes, in milliseconds
    pub slice: u64,
    /// The configurations, the base first: a round has one slice of each
    pub slices: Vec<SliceRow>,
    /// Who measured which rounds
    pub sessions: Vec<Session>,
    /// In the order in which they ran
    pub rounds: Vec<Round>,
}

/// One configuration of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// As results call it
    pub name: String,
    /// Packets that count in a slice of it; none before the first round
    pub packets: u64,
}

/// Rounds that one process measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The first of them, from 1
    pub first: usize,
    /// On which pages, by which clock
    pub conditions: String,
}

/// A finished round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Millions of packets a second of each configuration; none where every try was disturbed
    pub mpps: Vec<Option<f64>>,
    /// What was run again
    pub repeated: Repeated,
    /// Events of each configuration; empty where nothing was counted
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Vec<EventRow>>,
}

/// Slices that were disturbed and run again, and by what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// Slices
    pub slices: usize,
    /// Stolen time, in ticks of 10 ms
    pub ticks: u64,
    /// Involuntary switches
    pub switches: u64,
}

impl Record {
    /// Packets of a slice of the base.
    pub fn packets(&self) -> u64 {
        self.slices.first().map_or(0, |slice| slice.packets)
    }

    /// Whether every round has a place for each configuration, and no number that cannot be.
    pub fn is_whole(&self) -> bool {
        let possible = |mpps: &Option<f64>| mpps.is_none_or(|mpps| mpps.is_finite() && mpps > 0.0);
        self.rounds.iter().all(|round| {
            let events = round.events.is_empty() || round.events.len() == self.slices.len();
            events && round.mpps.len() == self.slices.len() && round.mpps.iter().all(possible)
        })
    }

    /// One row for each configuration that had a slice to itself; intervals where there are rounds enough.
    pub fn rows(&self, seed: u64) -> Vec<Row> {
        let row = |(place, slice): (usize, &SliceRow)| {
            let mut mpps: Vec<f64> = self.rounds.iter().filter_map(|round| round.mpps[place]).collect();
            Some(Row {
                name: slice.name.clone(),
                mpps: median(&mut mpps)?,
                ratio: if place == 0 { None } else { ratio(&self.pairs(place), seed) },
                events: self.events(place),
                ..Row::default()
            })
        };
        self.slices.iter().enumerate().filter_map(row).collect()
    }

    fn events(&self, place: usize) -> Vec<EventRow> {
        let mut counts = Counts::default();
        let rows = self.rounds.iter().filter_map(|round| round.events.get(place));
        rows.flatten().for_each(|row| counts.take(row));
        counts.rows()
    }

    /// Logarithms of the ratios to the base of the same round.
    fn pairs(&self, place: usize) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| Some((round.mpps[place]? / round.mpps[0]?).ln())).collect()
    }

    /// How it was measured, what was run again or left out, and who has too few rounds. `tries` is how often a slice was
    /// tried.
    pub fn notes(&self, seed: u64, tries: usize) -> Vec<String> {
        let mut notes: Vec<String> = self.sessions.iter().map(|session| self.session(session)).collect();
        notes.push(format!(
            "{} rounds of {} configurations, each once a round in an order that follows from seed {seed}; slices of about {} ms",
            self.rounds.len(),
            self.slices.len(),
            self.slice
        ));
        notes.extend(self.repeated(tries));
        notes.extend(self.too_few());
        notes
    }

    fn session(&self, session: &Session) -> String {
        if self.sessions.len() == 1 {
            return session.conditions.clone();
        }
        format!("from round {} on: {}", session.first, session.conditions)
    }

    fn repeated(&self, tries: usize) -> Vec<String> {
        let sum = |read: fn(&Repeated) -> u64| -> u64 {
            self.rounds.iter().map(|round| read(&round.repeated)).sum()
        };
        let slices = self.slices.len() * self.rounds.len();
        let missing = self.rounds.iter().flat_map(|round| &round.mpps).filter(|mpps| mpps.is_none()).count();
        let repeats = sum(|repeated| repeated.slices as u64) as usize;
        let mut notes = vec![format!(
            "{repeats} of {} slices were discarded and run again: {} ticks (10 ms) of stolen time, {} involuntary context switches",
            slices + repeats - missing.min(repeats),
            sum(|repeated| repeated.ticks),
            sum(|repeated| repeated.switches)
        )];
        if missing > 0 {
            notes.push(format!(
                "{missing} of {slices} slices were disturbed in each of {tries} tries and are left out of their rounds"
            ));
        }
        notes
    }

    fn too_few(&self) -> Vec<String> {
        let note = |(place, slice): (usize, &SliceRow)| {
            let pairs = self.pairs(place).len();
            (pairs < FEWEST).then(|| {
                format!(
                    "{}: only {pairs} rounds without disturbance in it and in the base, which give no interval; run it on a quieter machine, with shorter slices or for more rounds",
                    slice.name
                )
            })
        };
        self.slices.iter().enumerate().filter_map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rounds: Vec<Vec<Option<f64>>>) -> Record {
        let slices = ["base", "a"].map(|name| SliceRow { name: name.to_owned(), packets: 1000 }).to_vec();
        let rounds = rounds.into_iter().map(|mpps| Round { mpps, ..Round::default() }).collect();
        Record { slice: 40, slices, sessions: Vec::new(), rounds }
    }

    #[test]
    fn ratios_are_paired_within_a_round_and_need_enough_of_them() {
        // Rounds drift by a factor of ten; pairs do not see it.
        let rounds: Vec<_> = (1..=8).map(|n| vec![Some(f64::from(n)), Some(2.0 * f64::from(n))]).collect();
        let rows = record(rounds.clone()).rows(1);
        let ratio = rows[1].ratio.expect("eight pairs");
        assert!((ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 2.0).abs() < 1e-9, "{ratio:?}");
        assert!(rows[0].ratio.is_none());
        let few = record(rounds[..FEWEST - 1].to_vec());
        assert!(few.rows(1).iter().all(|row| row.ratio.is_none()));
        assert!(few.notes(1, 6).iter().any(|note| note.starts_with("a: only 5 rounds")));
    }

    #[test]
    fn a_slice_that_was_always_disturbed_is_left_out_and_counted() {
        let record = record(vec![vec![Some(1.0), None], vec![Some(3.0), Some(6.0)]]);
        let rows = record.rows(1);
        assert_eq!((rows[0].mpps, rows[1].mpps), (2.0, 6.0));
        assert!(record.notes(1, 6).iter().any(|note| note.starts_with("1 of 4 slices")));
        assert!(record.is_whole());
    }

    #[test]
    fn a_round_that_lacks_a_configuration_is_not_whole() {
        assert!(!record(vec![vec![Some(1.0)]]).is_whole());
        assert!(!record(vec![vec![Some(1.0), Some(-1.0)]]).is_whole());
    }
}
