//! Counters of a [`Report`] with their names and meanings: those of the loop, of the stack, and of a shared port.

use crate::{DistributorCounts, Report};
use stack::Counters;

/// Names and meanings of the counters of the loop.
const LOOP: [(&str, &str); 5] = [
    ("rounds_busy", "Rounds of the loop with work."),
    ("rounds_idle", "Rounds of the loop without work."),
    ("sleeps", "Times that the loop slept until something arrived."),
    ("dropped_by_port", "Frames that the ports accepted and lost."),
    ("port_faults", "Faults of ports."),
];

impl Report {
    /// Names and values of all counters.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let (busy, idle, sleeps) = self.rounds;
        let of_loop = LOOP.into_iter().zip([busy, idle, sleeps, self.dropped, self.faults]);
        let of_loop = of_loop.map(|((name, _), value)| (name, value));
        of_loop.chain(self.counters.named()).chain(self.distributor.named())
    }

    /// Names and meanings of the counters of a host's loop.
    pub fn loop_meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
        LOOP.into_iter()
    }

    /// Names and meanings of all counters.
    pub fn meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
        Self::loop_meanings().chain(Counters::meanings()).chain(DistributorCounts::meanings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn counters_have_different_names_that_are_explained() {
        let names: Vec<&str> = Report::default().named().map(|(name, _)| name).collect();
        let explained: Vec<&str> = Report::meanings().map(|(name, _)| name).collect();
        assert_eq!(names, explained);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(Report::meanings().all(|(_, meaning)| meaning.ends_with('.')));
    }

    #[test]
    fn values_have_the_names_of_their_counters() {
        let distributor = DistributorCounts { taken: 6, ..DistributorCounts::default() };
        let counters = Counters { tcp_in: 7, ..Counters::default() };
        let report = Report { rounds: (1, 2, 3), dropped: 4, faults: 5, distributor, counters, ended: None };
        let values: Vec<_> = report.named().filter(|(_, value)| *value > 0).collect();
        let of_loop = [
            ("rounds_busy", 1),
            ("rounds_idle", 2),
            ("sleeps", 3),
            ("dropped_by_port", 4),
            ("port_faults", 5),
        ];
        assert_eq!(values, [&of_loop[..], &[("TcpInSegs", 7), ("taken_over", 6)]].concat());
    }
}
