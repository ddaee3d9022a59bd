//! Bridges of a running switch: how they come, change and go.

use super::Switch;
use crate::dataplane::convert::bridge_config;
use crate::dataplane::interface::DataPlaneError;
use crate::settings::topology::{BridgeSettings, PortSettings};
use console::Diagnostic;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

impl Switch {
    /// Adds a bridge while the switch runs.
    pub(super) fn create_bridge(&self, bridge: &BridgeSettings) -> Result<(), DataPlaneError> {
        add_bridge(&self.bridges, bridge).map_err(DataPlaneError::Refused)?;
        self.quotas().insert(bridge.name.clone(), bridge.max_macs_per_port);
        Ok(())
    }

    /// Changes settings of a bridge that apply to its running ports and bonds. `ports` has the settings of all ports.
    pub(super) fn change_bridge(
        &self,
        bridge: &BridgeSettings,
        ports: &[PortSettings],
    ) -> Result<(), DataPlaneError> {
        let set = self.bridges.set_bridge(&bridge.name, &bridge_config(bridge));
        set.map_err(|e| refused(&bridge.name, e, "restart the switch with this [[bridge]] section"))?;
        self.quotas().insert(bridge.name.clone(), bridge.max_macs_per_port);
        let on_it = ports.iter().filter(|port| port.bridge == bridge.name);
        let ports = on_it.filter_map(|port| Some((self.number(&port.name)?, port.clone())));
        for (id, port) in ports.chain(self.bonds.as_ports(&bridge.name)) {
            self.bridges.limit_stations(id, &self.config_of(&port));
        }
        Ok(())
    }

    /// Removes a bridge without ports while the switch runs.
    pub(super) fn delete_bridge(&self, name: &str) -> Result<(), DataPlaneError> {
        let removed = self.bridges.remove_bridge(name);
        removed.map_err(|e| refused(name, e, "remove its ports first"))?;
        self.quotas().remove(name);
        Ok(())
    }

    /// A poisoned lock is valid: an entry changes in one step.
    pub(super) fn quotas(&self) -> MutexGuard<'_, BTreeMap<String, Option<u32>>> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bridge_names(&self) -> Vec<String> {
        self.quotas().keys().cloned().collect()
    }
}

pub(super) fn add_bridge(bridges: &bridge::Switch, bridge: &BridgeSettings) -> Result<(), Diagnostic> {
    let added = bridges.add_bridge(&bridge.name, bridge_config(bridge));
    let place = format!("bridge \"{}\"", bridge.name);
    added.map_err(|e| Diagnostic::failed(place, e, "correct this [[bridge]] section"))
}

fn refused(name: &str, error: impl std::error::Error, remedy: &str) -> DataPlaneError {
    DataPlaneError::Refused(Diagnostic::failed(format!("bridge \"{name}\""), error, remedy))
}
