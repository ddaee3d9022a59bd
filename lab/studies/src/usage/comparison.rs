//! Comparison of switches: linerate in each of its execution models and other common switches, all measured from
//! outside by the same generator in the same session.
//!
//! This module decides the participants and the order of turns, not the execution of a benchmark (`Benches`). A switch
//! that is not installed, crashes or forwards nothing is recorded with its reason, and the others are still measured.
//! Rounds are interleaved, so drift affects all alike. The distance between the two CPUs is measured before and after
//! each turn, because on a virtual machine it changes by more than switches differ: only turns with near CPUs are
//! compared.

use super::budget::BudgetError;
use super::journal::Journal;
use rfc2544;
use serde::{Deserialize, Serialize};

/// Number of turns of each switch.
pub const ROUNDS: u32 = 3;

/// Maximum ratio to the smallest measured distance at which CPUs count as near. Two threads of one core that alternate
/// on one line take one or two times the smallest distance.
const NEAR: f64 = 4.0;

/// A switch of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// linerate with one worker.
    RunToCompletion,
    /// linerate with its three stages on one CPU.
    Pipeline,
    /// linerate with one worker in the stealing model.
    Stealing,
    /// linerate within the generator's thread.
    Inline,
    /// DPDK's vhost library, port to port without look-up.
    Testpmd,
    /// Open vSwitch with DPDK.
    OvsDpdk,
    /// linerate over kernel interfaces.
    Interfaces,
    /// Open vSwitch in user space over kernel interfaces.
    OvsUserspace,
    /// The Linux bridge.
    LinuxBridge,
}

/// Type of the generator's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// virtio-user, connected to vhost-user.
    Sockets,
    /// A pair of rings within one process.
    Memory,
    /// TAP interfaces, with the kernel at the other end.
    Interfaces,
}

impl Over {
    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Over::Sockets => "vhost-user",
            Over::Memory => "memory",
            Over::Interfaces => "TAP",
        }
    }
}

impl Subject {
    /// All switches, in the order of their turns.
    pub const ALL: [Subject; 9] = [
        Subject::RunToCompletion,
        Subject::OvsDpdk,
        Subject::Testpmd,
        Subject::Pipeline,
        Subject::Stealing,
        Subject::Inline,
        Subject::Interfaces,
        Subject::OvsUserspace,
        Subject::LinuxBridge,
    ];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Subject::RunToCompletion => "linerate, run to completion",
            Subject::Pipeline => "linerate, pipeline on one CPU",
            Subject::Stealing => "linerate, stealing (one worker)",
            Subject::Inline => "linerate, inline",
            Subject::Testpmd => "testpmd, no look-up",
            Subject::OvsDpdk => "Open vSwitch with DPDK",
            Subject::Interfaces => "linerate, packet sockets",
            Subject::OvsUserspace => "Open vSwitch in user space",
            Subject::LinuxBridge => "Linux bridge",
        }
    }

    /// Type of its ports.
    pub fn over(self) -> Over {
        match self {
            Subject::Inline => Over::Memory,
            Subject::Interfaces | Subject::OvsUserspace | Subject::LinuxBridge => Over::Interfaces,
            _ => Over::Sockets,
        }
    }

    /// Returns linerate's reference over the same ports; `None` for the references themselves.
    pub fn ours(self) -> Option<Subject> {
        match self {
            Subject::RunToCompletion | Subject::Interfaces => None,
            other if other.over() == Over::Interfaces => Some(Subject::Interfaces),
            _ => Some(Subject::RunToCompletion),
        }
    }
}

/// Result of one switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The switch.
    pub subject: Subject,
    /// Results of `linerate bench`; `None` if it never forwarded a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<rfc2544::Results>,
    /// Reason for missing results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Round-trip time of a line between the CPUs in nanoseconds, before and after each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<[Option<f64>; 2]>,
}

impl Entry {
    /// Returns the rounds, from 0, in which the CPUs were near. Rounds without a measured distance count, as do all
    /// rounds of a switch without its own CPU.
    pub fn near(&self, entries: &[Entry]) -> Vec<usize> {
        let rounds = self.results.as_ref().map_or(0, |results| results.plan.rounds as usize);
        let limit = limit(entries).filter(|_| self.subject.over() == Over::Sockets).unwrap_or(f64::INFINITY);
        let near = |distance: &Option<f64>| distance.is_none_or(|distance| distance <= limit);
        let is_near = |round: &usize| self.distances.get(*round).is_none_or(|both| both.iter().all(near));
        (0..rounds).filter(is_near).collect()
    }
}

/// Returns the largest distance that counts as near; `None` if none was measured.
pub fn limit(entries: &[Entry]) -> Option<f64> {
    let all = entries.iter().flat_map(|entry| &entry.distances).flatten().flatten();
    all.copied().reduce(f64::min).map(|nearest| nearest * NEAR)
}

/// Runs benchmarks of switches.
pub trait Benches: Send {
    /// Benchmarks `subject` until it has `rounds` rounds; returns `None` if the run was stopped.
    fn bench(&mut self, subject: Subject, rounds: u32) -> Option<Entry>;

    /// Measures the distance between the two CPUs; with a limit, waits a while for the distance to be within it.
    fn distance(&mut self, limit: Option<f64>) -> Option<f64>;
}

/// Runs one more round of a switch, and measures the CPU distance before and after.
fn turn(benches: &mut dyn Benches, field: &mut Vec<Entry>, subject: Subject, round: u32) -> Option<()> {
    let before = benches.distance(limit(field));
    let mut entry = benches.bench(subject, round)?;
    let there = field.iter().position(|other| other.subject == subject);
    entry.distances = there.map(|at| field.remove(at).distances).unwrap_or_default();
    entry.distances.resize(round as usize - 1, [None; 2]);
    entry.distances.push([before, benches.distance(None)]);
    field.insert(there.unwrap_or(field.len()), entry);
    Some(())
}

/// Returns the number of an entry's rounds, or `ROUNDS` if it needs no more.
fn done(entries: &[Entry], subject: Subject) -> u32 {
    let entry = entries.iter().find(|entry| entry.subject == subject);
    let rounds = |entry: &Entry| match (&entry.why, &entry.results) {
        (Some(_), _) => ROUNDS,
        (None, Some(results)) => results.plan.rounds,
        (None, None) => 0,
    };
    entry.map_or(0, rounds)
}

/// Runs the turns of all switches, round by round, without those that have results.
pub(super) fn measure(benches: &mut dyn Benches, journal: &mut Journal<'_>) -> Result<(), BudgetError> {
    for round in 1..=ROUNDS {
        for subject in Subject::ALL {
            if done(&journal.results.comparison, subject) >= round {
                journal.skip();
                continue;
            }
            journal.next(&format!("round {round}, {}", subject.name()))?;
            turn(benches, &mut journal.results.comparison, subject, round).ok_or(BudgetError::Ended)?;
            journal.keep()?;
        }
    }
    Ok(())
}

/// Number of readings.
pub(super) fn steps() -> usize {
    Subject::ALL.len() * ROUNDS as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Results, Watch};
    use std::ops::ControlFlow;

    /// Every switch forwards, except one that is not installed.
    #[derive(Default)]
    struct Nine {
        turns: Vec<(Subject, u32)>,
    }

    impl Benches for Nine {
        fn bench(&mut self, subject: Subject, rounds: u32) -> Option<Entry> {
            self.turns.push((subject, rounds));
            let why = (subject == Subject::Testpmd).then(|| "it is not installed".to_owned());
            let course = rfc2544::TestRun::new(rfc2544::Plan {
                tests: vec![rfc2544::Test::Throughput],
                sizes: vec![generator::Sizes::Fixed(64)],
                loss: 0.0,
                precision: 0.01,
                trial: 1.0,
                tries: 1,
                agree: 0.5,
                rounds,
                loads: vec![50.0],
                ceiling: None,
            });
            let results =
                rfc2544::Results::of(&course, rfc2544::Setup::default(), rfc2544::Environment::default());
            Some(Entry { subject, results: why.is_none().then_some(results), why, distances: Vec::new() })
        }

        /// Near before each turn; far after every fourth.
        fn distance(&mut self, limit: Option<f64>) -> Option<f64> {
            let far = limit.is_none() && self.turns.len() % 4 == 3;
            Some(if far { 700.0 } else { 100.0 })
        }
    }

    struct Until(usize);

    impl Watch for Until {
        fn step(&mut self, done: usize, _: usize, _: &str) -> ControlFlow<()> {
            if done < self.0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }

        fn keep(&mut self, _: &Results) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
    }

    fn run(results: &mut Results, until: usize) -> (Vec<(Subject, u32)>, Result<(), BudgetError>) {
        let (mut benches, mut watch) = (Nine::default(), Until(until));
        let mut journal = Journal::new(results, &mut watch, steps());
        let measured = measure(&mut benches, &mut journal);
        (benches.turns, measured)
    }

    #[test]
    fn each_subject_has_a_turn_per_round_and_an_unavailable_one_is_tried_once() {
        let mut results = Results::default();
        let (turns, measured) = run(&mut results, usize::MAX);
        measured.unwrap();
        assert_eq!(turns.len(), steps() - 2);
        assert_eq!(turns[..2], [(Subject::RunToCompletion, 1), (Subject::OvsDpdk, 1)]);
        assert_eq!(turns.iter().filter(|(subject, _)| *subject == Subject::Testpmd).count(), 1);
        assert_eq!(results.comparison.len(), Subject::ALL.len());
        let absent = results.comparison.iter().find(|entry| entry.subject == Subject::Testpmd).unwrap();
        assert_eq!((absent.why.as_deref(), absent.results.is_none()), (Some("it is not installed"), true));
    }

    #[test]
    fn rounds_with_distant_cpus_are_distinguished_from_others() {
        let mut results = Results::default();
        run(&mut results, usize::MAX).1.unwrap();
        let of = |subject| results.comparison.iter().find(|entry| entry.subject == subject).unwrap();
        let [ours, theirs] = [Subject::RunToCompletion, Subject::Testpmd].map(of);
        assert_eq!(limit(&results.comparison), Some(400.0));
        // Its turns are the 1st, the 10th and the 18th, because one switch had only one turn; the 3rd, the 7th and so
        // on were far.
        assert_eq!(ours.distances, [[Some(100.0); 2]; 3]);
        assert_eq!(ours.near(&results.comparison), [0, 1, 2]);
        assert_eq!(theirs.distances, [[Some(100.0), Some(700.0)]]);
        let pipeline = of(Subject::Pipeline);
        assert_eq!(
            pipeline.distances.iter().filter(|both| both[1] == Some(700.0)).count(),
            3 - pipeline.near(&results.comparison).len()
        );
        // A switch that shares the generator's CPU is not affected.
        assert_eq!(of(Subject::Inline).near(&results.comparison), [0, 1, 2]);
    }

    #[test]
    fn an_interrupted_run_continues_with_the_next_turn() {
        let mut results = Results::default();
        let (before, ended) = run(&mut results, 11);
        assert!(matches!(ended, Err(BudgetError::Ended)));
        let (after, measured) = run(&mut results, usize::MAX);
        measured.unwrap();
        assert_eq!(before.len() + after.len(), steps() - 2);
        assert_eq!(before.last().unwrap().0, Subject::OvsDpdk);
        assert_eq!(after[0], (Subject::Pipeline, 2));
    }
}
