//! State of a trial: its finished rounds, as stored in a file, and their combined results.
//!
//! A round is stored completely or not at all, so an interrupted and resumed trial has the same rounds as an
//! uninterrupted one: the order of a round depends only on the seed and its number. This module runs nothing.

use serde::{Deserialize, Serialize};

use crate::counted::Counts;
use crate::results::{EventRow, Row};
use measure::statistics::{MIN_SAMPLES, median, ratio};

/// A trial's finished rounds, and the settings that later rounds must share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Approximate duration of a slice in milliseconds
    pub slice: u64,
    /// Configurations, the base first: a round has one slice of each
    pub slices: Vec<SliceRow>,
    /// Processes that measured the rounds
    pub sessions: Vec<Session>,
    /// Rounds in execution order
    pub rounds: Vec<Round>,
}

/// One configuration of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// Name in results
    pub name: String,
    /// Packets counted per slice; 0 before the first round
    pub packets: u64,
}

/// Rounds measured by one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Number of the first round, from 1
    pub first: usize,
    /// Page sizes and clock
    pub conditions: String,
}

/// A finished round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Throughput of each configuration in millions of packets per second; `None` if every try was disturbed
    pub mpps: Vec<Option<f64>>,
    /// Slices that were run again
    pub repeated: Repeated,
    /// Events of each configuration; empty if not counted
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Vec<EventRow>>,
}

/// Disturbed slices that were run again, with their disturbances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// Number of slices
    pub slices: usize,
    /// Stolen time, in ticks of 10 ms
    pub ticks: u64,
    /// Involuntary context switches
    pub switches: u64,
}

impl Record {
    /// Packets of a slice of the base.
    pub fn packets(&self) -> u64 {
        self.slices.first().map_or(0, |slice| slice.packets)
    }

    /// Whether every round has a valid entry for each configuration.
    pub fn is_whole(&self) -> bool {
        let possible = |mpps: &Option<f64>| mpps.is_none_or(|mpps| mpps.is_finite() && mpps > 0.0);
        self.rounds.iter().all(|round| {
            let events = round.events.is_empty() || round.events.len() == self.slices.len();
            events && round.mpps.len() == self.slices.len() && round.mpps.iter().all(possible)
        })
    }

    /// Returns one row per configuration with an undisturbed slice; with an interval if there are enough rounds.
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

    /// Returns the logarithms of the ratios to the base of the same round.
    fn pairs(&self, place: usize) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| Some((round.mpps[place]? / round.mpps[0]?).ln())).collect()
    }

    /// Returns notes on conditions, repeated and omitted slices, and configurations with too few rounds. `tries` is the
    /// maximum number of tries of a slice.
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
            (pairs < MIN_SAMPLES).then(|| {
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
        // Rounds drift by a factor of eight; paired ratios do not.
        let rounds: Vec<_> = (1..=8).map(|n| vec![Some(f64::from(n)), Some(2.0 * f64::from(n))]).collect();
        let rows = record(rounds.clone()).rows(1);
        let ratio = rows[1].ratio.expect("eight pairs");
        assert!((ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 2.0).abs() < 1e-9, "{ratio:?}");
        assert!(rows[0].ratio.is_none());
        let few = record(rounds[..MIN_SAMPLES - 1].to_vec());
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
