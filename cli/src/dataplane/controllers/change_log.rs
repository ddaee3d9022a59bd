//! Log lines of the changes that a session makes, with its peer. Controllers may change flows all the time, so that a
//! session writes its first line after [`FIRST`] and further ones after [`INTERVAL`]; its last changes at its end.

use flow::tables::Modification;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tracing::info;

/// Time from the first change of a session to its line.
const FIRST: Duration = Duration::from_secs(1);
/// Shortest time between two lines of a session.
const INTERVAL: Duration = Duration::from_mins(1);

/// Numbers of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeCounts {
    pub(super) flows: u64,
    pub(super) groups: u64,
    pub(super) meters: u64,
    /// Modifications of ports.
    pub(super) ports: u64,
    /// Of the map of options, settings of tables, and tracked connections.
    pub(super) others: u64,
}

impl ChangeCounts {
    pub(super) fn count(&mut self, changes: &[Modification]) {
        for change in changes {
            match change {
                Modification::Flow(_) => self.flows += 1,
                Modification::Group(_) => self.groups += 1,
                Modification::Meter(_) => self.meters += 1,
                Modification::Options(_) => self.others += 1,
                Modification::Packet(_) => {}
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.flows += other.flows;
        self.groups += other.groups;
        self.meters += other.meters;
        self.ports += other.ports;
        self.others += other.others;
    }
}

/// The changes of a session. Dropping it writes the rest.
pub(super) struct ChangeLog {
    bridge: String,
    /// User and process, or address of the other end.
    peer: String,
    unwritten: RefCell<Unwritten>,
}

#[derive(Default)]
struct Unwritten {
    counts: ChangeCounts,
    /// When the next line is due; `None` without changes.
    due: Option<Instant>,
    /// When the last line was written.
    written: Option<Instant>,
}

impl Drop for ChangeLog {
    fn drop(&mut self) {
        self.write();
    }
}

impl ChangeLog {
    pub(super) fn new(bridge: &str, peer: &str) -> Self {
        Self { bridge: bridge.to_owned(), peer: peer.to_owned(), unwritten: RefCell::default() }
    }

    /// The session has made changes.
    pub(super) fn changed(&self, counts: ChangeCounts, now: Instant) {
        if counts != ChangeCounts::default() {
            let mut unwritten = self.unwritten.borrow_mut();
            unwritten.counts.add(counts);
            let next = unwritten.written.map_or(now + FIRST, |at| at + INTERVAL);
            unwritten.due.get_or_insert(next);
        }
    }

    /// Writes a line if one is due.
    pub(super) fn turn(&self, now: Instant) {
        let is_due = self.unwritten.borrow().due.is_some_and(|due| now >= due);
        if is_due {
            self.write();
            self.unwritten.borrow_mut().written = Some(now);
        }
    }

    fn write(&self) {
        let mut unwritten = self.unwritten.borrow_mut();
        if unwritten.due.take().is_none() {
            return;
        }
        let counts = std::mem::take(&mut unwritten.counts);
        let [flows, groups, meters, ports, others] =
            [counts.flows, counts.groups, counts.meters, counts.ports, counts.others].map(shown);
        let (bridge, peer) = (&self.bridge, &self.peer);
        info!(bridge, peer, flows, groups, meters, ports, others, "changed over OpenFlow");
    }
}

/// A number that is left out of a line if it is 0.
fn shown(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::recorded;

    #[test]
    fn a_session_that_changes_flows_all_the_time_writes_few_lines() {
        let start = Instant::now();
        let events = recorded(|| {
            let log = ChangeLog::new("br0", "user 7");
            // Half a minute after the second line.
            for tenth in 0..910 {
                let now = start + tenth * Duration::from_millis(100);
                log.changed(ChangeCounts { flows: 2, ..ChangeCounts::default() }, now);
                log.turn(now);
            }
        });
        let flows = |event: &crate::event_log::Event| event.fields["flows"].as_u64().unwrap();
        let events = events.after(0, 9).events;
        assert_eq!(events.iter().map(flows).collect::<Vec<_>>(), [22, 1200, 598]);
        assert!(events.iter().all(|event| event.fields["peer"] == "user 7"), "{events:?}");
    }
}
