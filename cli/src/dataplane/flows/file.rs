//! Flows of the configuration file: `[[flow]]` and `[[acl]]`.

use super::{Flows, Names, refused};
use crate::dataplane::interface::DataPlaneError;
use crate::settings::flows::{acl, differences};
use crate::settings::topology::Topology;
use console::Diagnostic;

impl Flows {
    /// Adds the flows of a file to each bridge, all of a bridge or none. Must be called before the first port is added,
    /// so that no packet passes without them. Ports get their numbers in the order of the file, from 1.
    pub(in crate::dataplane) fn load(&self, topology: &Topology) -> Result<(), Diagnostic> {
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
        }
        Ok(())
    }

    /// Replaces the flows of the file `old` by those of `new` on one bridge, with the numbers that its ports have.
    pub(in crate::dataplane) fn replace_file(
        &self,
        bridge: &str,
        old: &Topology,
        new: &Topology,
        names: &Names,
    ) -> Result<(), DataPlaneError> {
        let zone = |topology: &Topology| {
            let number = topology.bridges.iter().position(|other| other.name == bridge);
            acl::zone(number.unwrap_or_default())
        };
        let changes = differences((&old.flows, zone(old)), (&new.flows, zone(new)), bridge, names);
        let changes = changes.map_err(|e| refused(bridge, &e))?;
        self.modify(bridge, &changes).map(drop)
    }
}
