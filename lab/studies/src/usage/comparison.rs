//! The field on one page: linerate in each of its models and the switches that people use today, all measured from outside by the
//! same generator in the same minutes.
//!
//! Who takes part is decided here, and when whose turn is; how a benchmark is run is not (`Benches`). A switch that is not installed,
//! dies or carries nothing is an entry with its reason, and the others are measured all the same. Rounds are interleaved, so what
//! drifts meets all alike. How far the two CPUs are from each other is read before and behind each turn, because on a virtual machine
//! that changes, and more than any switch does: rates are set side by side from turns in which they were near.

use super::budget::BudgetError;
use super::journal::Journal;
use rfc2544;
use serde::{Deserialize, Serialize};

/// Times that everybody has a turn.
pub const ROUNDS: u32 = 3;

/// CPUs that are within so many times of the nearest that they have been are near. Two threads of one core that take turns at one line
/// do so in one time or in twice that.
const NEAR: f64 = 4.0;

/// A switch of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// linerate with one worker.
    RunToCompletion,
    /// linerate with its three stages on one CPU.
    Pipeline,
    /// linerate with a worker that others could steal from.
    Stealing,
    /// linerate within the generator's thread.
    Inline,
    /// DPDK's vhost library, from port to port without any look-up.
    Testpmd,
    /// Open vSwitch with DPDK.
    OvsDpdk,
    /// linerate over interfaces of the kernel.
    Interfaces,
    /// Open vSwitch in user space over interfaces of the kernel.
    OvsUserspace,
    /// The kernel's bridge.
    LinuxBridge,
}

/// What the generator's ports are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Virtio-user, opposite to vhost-user.
    Sockets,
    /// A pair of rings in one process.
    Memory,
    /// TAP interfaces, whose other end is the kernel's.
    Interfaces,
}

impl Over {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Over::Sockets => "vhost-user",
            Over::Memory => "memory",
            Over::Interfaces => "TAP",
        }
    }
}

impl Subject {
    /// All of them, in the order in which they have their turns.
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

    /// As people read it.
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

    /// What its ports are.
    pub fn over(self) -> Over {
        match self {
            Subject::Inline => Over::Memory,
            Subject::Interfaces | Subject::OvsUserspace | Subject::LinuxBridge => Over::Interfaces,
            _ => Over::Sockets,
        }
    }

    /// Ours over the same ports: what others are compared with; none for ours.
    pub fn ours(self) -> Option<Subject> {
        match self {
            Subject::RunToCompletion | Subject::Interfaces => None,
            other if other.over() == Over::Interfaces => Some(Subject::Interfaces),
            _ => Some(Subject::RunToCompletion),
        }
    }
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Who.
    pub subject: Subject,
    /// As `linerate bench` found it; none: it never carried anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<rfc2544::Results>,
    /// Why there is no more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// By round: nanoseconds that a line took from CPU to CPU and back, before and behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<[Option<f64>; 2]>,
}

impl Entry {
    /// Rounds in which the CPUs were near, from 0. A round whose distance nobody read counts, as does one of a switch that has no CPU to
    /// itself.
    pub fn near(&self, entries: &[Entry]) -> Vec<usize> {
        let rounds = self.results.as_ref().map_or(0, |results| results.plan.rounds as usize);
        let limit = limit(entries).filter(|_| self.subject.over() == Over::Sockets).unwrap_or(f64::INFINITY);
        let near = |distance: &Option<f64>| distance.is_none_or(|distance| distance <= limit);
        let is_near = |round: &usize| self.distances.get(*round).is_none_or(|both| both.iter().all(near));
        (0..rounds).filter(is_near).collect()
    }
}

/// The longest distance that is near; none where none was read.
pub fn limit(entries: &[Entry]) -> Option<f64> {
    let all = entries.iter().flat_map(|entry| &entry.distances).flatten().flatten();
    all.copied().reduce(f64::min).map(|nearest| nearest * NEAR)
}

/// Whoever can run a benchmark of a switch.
pub trait Benches: Send {
    /// Has it measured until it has so many rounds; none: it was ended, because nobody wants it any more.
    fn bench(&mut self, subject: Subject, rounds: u32) -> Option<Entry>;

    /// How far the two CPUs are from each other; with a limit, it waits a while for them to be within it.
    fn distance(&mut self, limit: Option<f64>) -> Option<f64>;
}

/// One more round of a switch, with how far the CPUs were.
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

/// Rounds that an entry has, or needs no more.
fn done(entries: &[Entry], subject: Subject) -> u32 {
    let entry = entries.iter().find(|entry| entry.subject == subject);
    let rounds = |entry: &Entry| match (&entry.why, &entry.results) {
        (Some(_), _) => ROUNDS,
        (None, Some(results)) => results.plan.rounds,
        (None, None) => 0,
    };
    entry.map_or(0, rounds)
}

/// Gives each its turn, round by round; what is there already is not measured again.
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

/// Readings that it takes.
pub(super) fn steps() -> usize {
    Subject::ALL.len() * ROUNDS as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Results, Watch};
    use std::ops::ControlFlow;

    /// Everybody carries, but for one that is not there.
    #[derive(Default)]
    struct Nine {
        turns: Vec<(Subject, u32)>,
    }

    impl Benches for Nine {
        fn bench(&mut self, subject: Subject, rounds: u32) -> Option<Entry> {
            self.turns.push((subject, rounds));
            let why = (subject == Subject::Testpmd).then(|| "it is not installed".to_owned());
            let course = rfc2544::Course::new(rfc2544::Plan {
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

        /// Near before each turn; behind every fourth one they are far.
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
    fn everybody_has_a_turn_in_each_round_and_who_cannot_run_is_asked_once() {
        let mut results = Results::default();
        let (turns, measured) = run(&mut results, usize::MAX);
        measured.unwrap();
        assert_eq!(turns.len(), steps() - 2);
        assert_eq!(turns[..2], [(Subject::RunToCompletion, 1), (Subject::OvsDpdk, 1)]);
        assert_eq!(turns.iter().filter(|(subject, _)| *subject == Subject::Testpmd).count(), 1);
        assert_eq!(results.comparison.len(), Subject::ALL.len());
    }

    #[test]
    fn rounds_in_which_the_cpus_were_far_are_told_from_others() {
        let mut results = Results::default();
        run(&mut results, usize::MAX).1.unwrap();
        let of = |subject| results.comparison.iter().find(|entry| entry.subject == subject).unwrap();
        let [ours, theirs] = [Subject::RunToCompletion, Subject::Testpmd].map(of);
        assert_eq!(limit(&results.comparison), Some(400.0));
        // Its turns are the 1st, the 10th and the 18th, since one switch had a turn only once; far were the 3rd, the 7th and so on.
        assert_eq!(ours.distances, [[Some(100.0); 2]; 3]);
        assert_eq!(ours.near(&results.comparison), [0, 1, 2]);
        assert_eq!(theirs.distances, [[Some(100.0), Some(700.0)]]);
        let pipeline = of(Subject::Pipeline);
        assert_eq!(
            pipeline.distances.iter().filter(|both| both[1] == Some(700.0)).count(),
            3 - pipeline.near(&results.comparison).len()
        );
        // Who shares the generator's CPU is not concerned.
        assert_eq!(of(Subject::Inline).near(&results.comparison), [0, 1, 2]);
    }

    #[test]
    fn what_was_ended_goes_on_with_the_turn_that_is_next() {
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
