//! Mirrors of a running switch: names of ports become numbers, again whenever a port is added or removed.

use super::{Member, Switch};
use crate::dataplane::interface::DataPlaneError;
use crate::settings::mirror::MirrorSettings;
use bridge::{MirrorConfig, MirrorOutput, MirrorStatistics, VlanSet};
use port::PortId;
use std::sync::PoisonError;
use wire::VlanId;

impl Switch {
    /// Replaces all mirrors.
    pub(super) fn replace_mirrors(&self, mirrors: &[MirrorSettings]) -> Result<(), DataPlaneError> {
        let members = self.members();
        let before = self.store_mirrors(mirrors);
        self.apply_mirrors(&members).inspect_err(|_| {
            self.store_mirrors(&before);
            // The first error has the cause; these mirrors were accepted before.
            let _ = self.apply_mirrors(&members);
        })
    }

    fn store_mirrors(&self, mirrors: &[MirrorSettings]) -> Vec<MirrorSettings> {
        let mut stored = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *stored, mirrors.to_vec())
    }

    /// Sets the mirrors of all bridges with these ports.
    pub(super) fn apply_mirrors(&self, members: &[Member]) -> Result<(), DataPlaneError> {
        let mirrors = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        for bridge in &self.bridge_names() {
            let own = || mirrors.iter().filter(|mirror| mirror.bridge == *bridge);
            let configs: Vec<_> = own().map(|mirror| self.mirror_config(mirror, members)).collect();
            if configs.is_empty() && self.bridges.mirrors(bridge).is_ok_and(|before| before.is_empty()) {
                continue;
            }
            let set = self.bridges.set_mirrors(bridge, &configs);
            set.map_err(|e| DataPlaneError::refused("mirrors", &e, "remove a mirror"))?;
            let bonds = self.bonds.on(bridge);
            let ports = members.iter().filter(|member| member.bridge == *bridge);
            let ports = ports.map(|member| (member.id, &member.name));
            for (id, name) in ports.chain(bonds.iter().map(|(id, name)| (*id, name))) {
                let is_output = |mirror: &MirrorSettings| mirror.output_port.as_ref() == Some(name);
                self.flows.iter().for_each(|flows| flows.set_reserved(id, own().any(is_output)));
            }
        }
        Ok(())
    }

    /// Counters of the mirrors of a bridge.
    pub(super) fn mirror_statistics(&self, bridge: &str) -> Vec<MirrorStatistics> {
        self.bridges.mirrors(bridge).unwrap_or_default()
    }

    /// A mirror with the ports and bonds that are there.
    fn mirror_config(&self, mirror: &MirrorSettings, members: &[Member]) -> MirrorConfig {
        let own = |name: &String| {
            let port = members.iter().find(|member| member.name == *name);
            let found = port.map(|port| (port.id, port.bridge.clone())).or_else(|| self.bonds.find(name));
            found.filter(|(_, bridge)| *bridge == mirror.bridge).map(|(id, _)| id)
        };
        let ids = |names: &[String]| -> Vec<PortId> { names.iter().filter_map(own).collect() };
        let port = mirror.output_port.as_ref().and_then(own).map(MirrorOutput::Port);
        let vlan = mirror.output_vlan.and_then(VlanId::new).map(MirrorOutput::Vlan);
        let vlans: VlanSet = mirror.vlans.iter().filter_map(|vlan| VlanId::new(*vlan)).collect();
        MirrorConfig {
            name: mirror.name.clone(),
            sources: ids(&mirror.source_ports),
            destinations: ids(&mirror.destination_ports),
            all: mirror.all,
            vlans: (!mirror.vlans.is_empty()).then_some(vlans),
            output: port.or(vlan),
            snap_length: mirror.snap_length,
        }
    }
}
