//! Flows of the configuration file: `[[flow]]` and `[[acl]]`.

use super::Flows;
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
}
