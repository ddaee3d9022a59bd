//! Control API of stations: list, pin, forget and flush them.

use super::Switch;
use crate::bucket::Entry;
use crate::error::{RemoveStationError, StaticError, UnknownBridge};
use crate::key::Key;
use crate::listing::{Selection, Station};
use crate::ports::{Member, View};
use crate::vlan::NO_VLAN;
use port::{Now, PortId};
use std::collections::BTreeSet;
use wire::{MacAddress, VlanId};

impl Switch {
    /// Removes the stations of a bridge that were learned from these ports. Returns their number.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn flush_ports(&self, bridge: &str, ports: &BTreeSet<PortId>) -> Result<usize, UnknownBridge> {
        Ok(self.bridge(bridge)?.fdb.flush(|entry| ports.contains(&entry.port)))
    }

    /// Adds a static entry for `mac` at `port`: it does not move or age, and frames from it received on other ports are
    /// dropped. `vlan` defaults to the VLAN of the port's untagged frames.
    ///
    /// # Errors
    /// If bridge, port, VLAN and address do not match, or the table is full.
    pub fn add_static(
        &self,
        bridge: &str,
        mac: MacAddress,
        vlan: Option<VlanId>,
        port: PortId,
    ) -> Result<(), StaticError> {
        let (_changing, table) = self.change();
        let (number, view) = table.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let member = table.member(port).filter(|member| member.bridge == number);
        let member = member.ok_or_else(|| StaticError::NoMember { port, bridge: bridge.to_owned() })?;
        if mac.is_group() || mac.is_zero() {
            return Err(StaticError::NoStation(mac));
        }
        let vlan = static_vlan(view, member, mac, vlan, port)?;
        if let Some(owner) = view.bridge.fdb.owner(mac).filter(|owner| *owner != port) {
            return Err(StaticError::Reserved { port, mac, owner });
        }
        let pinned = view.bridge.fdb.pin(Key::new(mac, vlan), port);
        if pinned { Ok(()) } else { Err(StaticError::Full(bridge.to_owned())) }
    }

    /// Adds the learned station `(mac, vlan)` at `port`, as if a frame of it had just been received there.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn restore(
        &self,
        bridge: &str,
        (mac, vlan): (MacAddress, u16),
        port: PortId,
        now: Now,
    ) -> Result<(), UnknownBridge> {
        let (bridge, key, second) =
            (self.bridge(bridge)?, Key::new(mac, vlan), (now.0 / 1_000_000_000) as u32);
        let places = bridge.fdb.places(key);
        bridge.fdb.learn(key, places, port, second, &mut u32::MAX.clone());
        Ok(())
    }

    /// Removes a static entry. `vlan` is as in the listing; `None` for 0.
    ///
    /// # Errors
    /// If no bridge has this name, or no such entry exists.
    pub fn remove_static(
        &self,
        bridge: &str,
        mac: MacAddress,
        vlan: Option<VlanId>,
    ) -> Result<(), StaticError> {
        let vlan = vlan.map_or(NO_VLAN, VlanId::get);
        let removed = self.bridge(bridge)?.fdb.unpin(Key::new(mac, vlan));
        if removed { Ok(()) } else { Err(StaticError::Missing { bridge: bridge.to_owned(), mac, vlan }) }
    }

    /// Removes a station, learned or static. `vlan` is as in the listing; 0 for frames without one. A learned station
    /// is learned again from its next packet.
    ///
    /// # Errors
    /// If no bridge has this name, or the station is not known.
    pub fn forget(&self, bridge: &str, mac: MacAddress, vlan: u16) -> Result<(), RemoveStationError> {
        let removed = self.bridge(bridge)?.fdb.forget(Key::new(mac, vlan), |_| true);
        if removed {
            Ok(())
        } else {
            Err(RemoveStationError::Missing { bridge: bridge.to_owned(), mac, vlan })
        }
    }

    /// Removes the learned stations of a bridge selected by `selection`; returns their number.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn flush(&self, bridge: &str, selection: Selection) -> Result<usize, UnknownBridge> {
        Ok(self.bridge(bridge)?.fdb.flush(|entry| selection.names(entry.port, entry.key.vlan())))
    }

    /// Stations of a bridge that have not aged, sorted by address and VLAN.
    ///
    /// # Errors
    /// If no bridge has this name.
    pub fn stations(&self, bridge: &str, now: Now) -> Result<Vec<Station>, UnknownBridge> {
        let second = (now.0 / 1_000_000_000) as u32;
        let entries = self.bridge(bridge)?.fdb.stations(second);
        let station = |entry: Entry| Station {
            mac: entry.key.mac(),
            vlan: entry.key.vlan(),
            port: entry.port.0,
            age_seconds: (!entry.pinned).then(|| second.saturating_sub(entry.stamp)),
            pinned: entry.pinned,
        };
        Ok(entries.into_iter().map(station).collect())
    }
}

/// VLAN of a static entry at `member`.
fn static_vlan(
    view: &View,
    member: &Member,
    mac: MacAddress,
    vlan: Option<VlanId>,
    port: PortId,
) -> Result<u16, StaticError> {
    let Some(vlan) = vlan.map(VlanId::get) else {
        return member.vlan.classify(None).ok_or(StaticError::VlanMissing { port, mac });
    };
    let carried = view.vlan_aware && member.vlan.carries(vlan);
    if carried { Ok(vlan) } else { Err(StaticError::VlanDenied { port, mac, vlan }) }
}
