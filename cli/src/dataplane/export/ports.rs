//! Ports of bridges with export, by number.

use ::export::sample::{Counts, Sampling};
use port::PortId;
use std::collections::BTreeMap;

/// Interface number (`ifIndex`) of a port: 0 is none.
pub(super) fn interface(port: PortId) -> u32 {
    u32::from(port.0) + 1
}

/// A port.
pub(super) struct ExportedPort {
    pub(super) name: String,
    /// Index of its bridge.
    pub(super) bridge: usize,
    /// VLAN of untagged packets; 0 if there is none.
    pub(super) vlan: u16,
    /// Bits per second; 0 if it is not known.
    pub(super) speed: u64,
    /// Counts of its number before it was added.
    pub(super) before: Counts,
}

/// All ports, and the counts of removed ones by bridge.
pub(super) struct Ports {
    pub(super) all: BTreeMap<PortId, ExportedPort>,
    removed: Vec<Counts>,
}

impl Ports {
    pub(super) fn new(bridges: usize) -> Self {
        Self { all: BTreeMap::new(), removed: vec![Counts::default(); bridges] }
    }

    pub(super) fn vlan(&self, port: PortId) -> u16 {
        self.all.get(&port).map_or(0, |port| port.vlan)
    }

    /// Counts of a port; `None` if it is not exported.
    pub(super) fn counts(&self, port: PortId, sampling: &Sampling) -> Option<Counts> {
        Some(sampling.counts(port) - self.all.get(&port)?.before)
    }

    /// Counts of all ports that a bridge has or had.
    pub(super) fn sum(&self, bridge: usize, sampling: &Sampling) -> Counts {
        let own = self.all.iter().filter(|(_, port)| port.bridge == bridge);
        let counts = own.map(|(id, port)| sampling.counts(*id) - port.before);
        counts.fold(self.removed[bridge], |sum, counts| sum + counts)
    }

    /// Removes a port, whose counts stay in the sum of its bridge.
    pub(super) fn remove(&mut self, port: PortId, sampling: &Sampling) -> Option<ExportedPort> {
        let counts = self.counts(port, sampling)?;
        let removed = self.all.remove(&port)?;
        self.removed[removed.bridge] = self.removed[removed.bridge] + counts;
        Some(removed)
    }
}
