//! Hardware counters around a slice on real memory: events, groups and counts per packet.
//!
//! Events are counted by `perf_event_open(2)` in the running thread, in user mode only. A processor counts a few events
//! at a time; more would be multiplexed, that is, extrapolated. Events are therefore split into groups, one group
//! counts per round, and groups alternate over the rounds. A reading whose group did not count all the time is
//! discarded, and later groups are smaller.
//!
//! Events that were not counted are absent; values are never estimated.

mod events;

use std::collections::BTreeMap;

use perf_event::{Counter, Group};

use super::results::EventRow;
use crate::slice;
pub use events::{Event, generic, skylake_x};
use measure::Processor;
use measure::statistics::median;

/// The machine has no hardware counters, or this process may not use them.
#[derive(Debug, thiserror::Error)]
#[error(
    "hardware counters are not available ({reason}): a virtual machine needs a virtual PMU from its host, and a user /proc/sys/kernel/perf_event_paranoid of 2 or less; `--memory real` and `--memory simulated` need none"
)]
pub struct NoCounters {
    reason: std::io::Error,
}

/// Events of this processor, in groups.
#[derive(Clone, Debug)]
pub struct Events {
    list: Vec<Event>,
    /// Events counted at once
    at_once: usize,
    refused: Vec<&'static str>,
}

impl Events {
    /// Returns the study's events on a processor that has them, else generic ones; an error if cycles cannot be
    /// counted.
    pub fn here(processor: &Processor) -> Result<Events, NoCounters> {
        let known = if processor.is_skylake_x() { skylake_x() } else { generic() };
        let (cycles, others) = known.split_at(1);
        cycles[0].builder().build().map_err(|reason| NoCounters { reason })?;
        let (events, refused): (Vec<_>, Vec<_>) =
            others.iter().cloned().partition(|event| event.builder().build().is_ok());
        let events = cycles.iter().cloned().chain(events).collect();
        Ok(Events::of(events, refused.iter().map(|event| event.name).collect()))
    }

    fn of(list: Vec<Event>, refused: Vec<&'static str>) -> Events {
        // A core with hyper-threads enabled has four general counters.
        Events { list, at_once: 4, refused }
    }

    fn groups(&self) -> usize {
        self.list.len().div_ceil(self.at_once)
    }

    /// Returns the group that counts in a round.
    pub fn group(&self, round: usize) -> usize {
        round % self.groups()
    }

    /// Returns a watch that counts a group. Must be called in the thread to be counted.
    pub fn watch(&self, group: usize) -> Watch {
        // A group number from before `narrow` may be out of range.
        let group = group % self.groups();
        let events = self.list.iter().skip(group * self.at_once).take(self.at_once);
        Watch { counters: open(events).ok() }
    }

    /// Halves the group size after a multiplexed reading.
    pub fn narrow(&mut self) {
        self.at_once = (self.at_once / 2).max(1);
    }

    /// Returns a note on events and groups for the reader.
    pub fn note(&self) -> String {
        let refused = match self.refused.as_slice() {
            [] => String::new(),
            names => format!("; not to be had here: {}", names.join(", ")),
        };
        format!(
            "hardware counters: {} events in user mode, {} at once, groups in turn over rounds{refused}",
            self.list.len(),
            self.at_once
        )
    }
}

fn open<'a>(events: impl Iterator<Item = &'a Event>) -> std::io::Result<Counters> {
    let mut group = Group::new()?;
    let members =
        events.map(|event| Ok((event.name, group.add(&event.builder())?))).collect::<std::io::Result<_>>()?;
    Ok(Counters { group, members })
}

struct Counters {
    group: Group,
    members: Vec<(&'static str, Counter)>,
}

/// Counts the thread's events between `begin` and `end`.
pub struct Watch {
    counters: Option<Counters>,
}

impl slice::Watch for Watch {
    fn begin(&mut self) {
        // A group that cannot be enabled counts nothing and is discarded when it is read.
        if let Some(counters) = &mut self.counters {
            let _ = counters.group.enable();
        }
    }

    fn end(&mut self) {
        if let Some(counters) = &mut self.counters {
            let _ = counters.group.disable();
        }
    }
}

/// Counts of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Events with their counts
    Counted(Vec<(&'static str, u64)>),
    /// The group did not count all the time
    Multiplexed,
    /// The group could not be opened or read
    Nothing,
}

impl Watch {
    /// Returns the counts.
    pub fn read(&mut self) -> Reading {
        let Some(counters) = &mut self.counters else { return Reading::Nothing };
        let Ok(data) = counters.group.read() else { return Reading::Nothing };
        if data.time_enabled() != data.time_running() {
            return Reading::Multiplexed;
        }
        if data.time_running().is_none_or(|time| time.is_zero()) {
            return Reading::Nothing;
        }
        let count = |(name, counter): &(&'static str, Counter)| Some((*name, data.get(counter)?.value()));
        Reading::Counted(counters.members.iter().filter_map(count).collect())
    }
}

/// Counts per packet of one configuration, by thread and event, one per slice.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<(String, String), Vec<f64>>);

impl Counts {
    /// Adds a slice's counts; returns whether the reading was multiplexed and therefore discarded.
    pub fn add(&mut self, thread: &str, reading: Reading, packets: u64) -> bool {
        match reading {
            Reading::Counted(counts) => {
                for (event, count) in counts {
                    let per_packet = count as f64 / packets as f64;
                    self.take(&EventRow { thread: thread.to_owned(), event: event.to_owned(), per_packet });
                }
                false
            }
            Reading::Multiplexed => true,
            Reading::Nothing => false,
        }
    }

    /// Adds an earlier count.
    pub fn take(&mut self, row: &EventRow) {
        self.0.entry((row.thread.clone(), row.event.clone())).or_default().push(row.per_packet);
    }

    /// Returns the medians.
    pub fn rows(&self) -> Vec<EventRow> {
        let row = |((thread, event), counts): (&(String, String), &Vec<f64>)| {
            let per_packet = median(&mut counts.clone())?;
            Some(EventRow { thread: thread.clone(), event: event.clone(), per_packet })
        };
        self.0.iter().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::Watch as _;

    #[test]
    fn events_are_medians_and_uncounted_events_are_absent() {
        let mut counts = Counts::default();
        for count in [320, 640, 64_000] {
            assert!(!counts.add("rx", Reading::Counted(vec![("cycles", count)]), 32));
        }
        assert!(counts.add("rx", Reading::Multiplexed, 32));
        assert!(!counts.add("guest", Reading::Nothing, 32));
        let wanted = EventRow { thread: "rx".to_owned(), event: "cycles".to_owned(), per_packet: 20.0 };
        assert_eq!(counts.rows(), [wanted]);
    }

    #[test]
    fn every_event_has_its_turn_and_groups_become_smaller() {
        let mut events = Events::of(skylake_x(), Vec::new());
        for _ in 0..3 {
            let groups: Vec<_> = (0..events.groups()).map(|round| events.group(round)).collect();
            assert_eq!(groups, (0..events.list.len().div_ceil(events.at_once)).collect::<Vec<_>>());
            events.narrow();
        }
        assert_eq!(events.at_once, 1);
    }

    /// Software events need no hardware, so the path from opening to reading is tested where the kernel allows it.
    #[test]
    fn software_events_are_counted_in_a_group() {
        let events = Events::of(events::software(), Vec::new());
        let mut watch = events.watch(0);
        if watch.counters.is_none() {
            // The kernel has no perf events, or denies them to this process.
            assert_eq!(watch.read(), Reading::Nothing);
            return;
        }
        watch.begin();
        // A new mapping causes page faults in any state of the process.
        let arena = real::Arena::new(8 << 20);
        watch.end();
        let Reading::Counted(counts) = watch.read() else { unreachable!("software is not multiplexed") };
        assert!(arena.is_ok());
        let of = |wanted: &str| counts.iter().find(|(name, _)| *name == wanted).map(|(_, count)| *count);
        assert!(of("page-faults").expect("it was asked for") > 0, "{counts:?}");
        assert!(of("task-clock").expect("it was asked for") > 0, "{counts:?}");
    }
}
