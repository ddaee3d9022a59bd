//! Flows of the configuration file: `[[flow]]` and `[[acl]]`.
//!
//! The flows that each bridge has from the file are remembered with the numbers that its ports had, so that they can be
//! removed after these ports.

use super::{Flows, Names, refused};
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::state::{Continued, Numbers};
use crate::settings::flows::{FileFlows, differences};
use crate::settings::topology::Topology;
use console::Diagnostic;
use flow::PortNo;
use std::sync::PoisonError;

/// What the flows of a file on one bridge depend on.
#[derive(Debug, Default)]
pub(super) struct FlowsOfFile {
    file: FileFlows,
    /// Zone of the connections of the access list.
    zone: u16,
    names: Names,
}

impl FlowsOfFile {
    fn new(bridge: &str, topology: &Topology, names: Names) -> Self {
        Self { file: topology.flows.clone(), zone: topology.acl_zone(bridge), names }
    }

    /// Numbers of the ports.
    pub(super) fn numbers(&self) -> Numbers {
        self.names.by_name.iter().map(|(name, number)| (name.clone(), number.0)).collect()
    }
}

impl Flows {
    /// Adds the flows of a file to each bridge, all of a bridge or none. Must be called before the first port is added,
    /// so that no packet passes without them. Ports get their numbers in the order of the file, from 1. A
    /// bridge that another process had gets the flows and numbers of that one before the first packet.
    pub(in crate::dataplane) fn load(
        &self,
        topology: &Topology,
        continued: &Continued,
    ) -> Result<(), Diagnostic> {
        let remedy = "correct the [[flow]] and [[acl]] sections; see `linerate check`";
        for bridge in &self.bridges {
            let failed = |reason: &dyn std::fmt::Display| {
                Diagnostic::failed(format!("flows of bridge \"{bridge}\""), reason, remedy)
            };
            let changes = topology.flow_changes(bridge).map_err(|bad| {
                let reasons: Vec<_> = bad.into_iter().map(|bad| bad.reason).collect();
                failed(&reasons.join("; "))
            })?;
            if !changes.is_empty() {
                self.switch.modify(bridge, &changes, self.now()).map_err(|e| failed(&e))?;
            }
            let mut names = Names::default();
            match continued.of_file.get(bridge) {
                Some(known) => known.iter().for_each(|(name, number)| names.insert(name, PortNo(*number))),
                None => topology.numbers_on(bridge).into_iter().for_each(|(name, no)| names.insert(name, no)),
            }
            self.remember(bridge, FlowsOfFile::new(bridge, topology, names));
        }
        Ok(())
    }

    /// Replaces the flows that one bridge has from a file by those of `topology`, with the numbers that its ports have.
    pub(in crate::dataplane) fn replace_file(
        &self,
        bridge: &str,
        topology: &Topology,
        names: Names,
    ) -> Result<(), DataPlaneError> {
        let mut new = FlowsOfFile::new(bridge, topology, names);
        let changes = {
            let of_file = self.of_file.lock().unwrap_or_else(PoisonError::into_inner);
            let none = FlowsOfFile::default();
            let known = of_file.get(bridge);
            // Connections stay in the zone they have, although bridges before this one come and go.
            new.zone = known.map_or(new.zone, |known| known.zone);
            let old = known.unwrap_or(&none);
            let (old, new) = ((&old.file, &old.names, old.zone), (&new.file, &new.names, new.zone));
            differences(bridge, old, new).map_err(|e| refused(bridge, &e))?
        };
        if !changes.is_empty() {
            self.modify(bridge, &changes)?;
        }
        self.remember(bridge, new);
        Ok(())
    }

    fn remember(&self, bridge: &str, flows: FlowsOfFile) {
        // A poisoned lock is valid: an entry changes in one step.
        let mut of_file = self.of_file.lock().unwrap_or_else(PoisonError::into_inner);
        of_file.insert(bridge.to_owned(), flows);
    }
}
