//! Control API of bonds.

use super::Switch;
use crate::bond::{Announcement, Bond, BondConfig, BondStatistics, MemberConfig, learning_packet};
use crate::config::PortConfig;
use crate::error::{AddPortError, BondError, RemovePortError};
use crate::ports::PortTable;
use port::{Now, PortId};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::VlanId;

impl Switch {
    /// Adds a bond without members as port `bond` of a bridge. The number must not be that of a port.
    ///
    /// # Errors
    /// As [`Switch::add_port`].
    pub fn add_bond(
        &self,
        bond: PortId,
        bridge: &str,
        port: &PortConfig,
        config: BondConfig,
    ) -> Result<(), AddPortError> {
        self.add_port(bond, bridge, port)?;
        let shared = self.bonds.add(bond, config);
        let (_changing, table) = self.change();
        self.publish_bond(table, shared);
        Ok(())
    }

    /// Changes the configuration of a bond and of its members, which stay, in this order. Its stations remain, and
    /// members lose no packets, unless LACP negotiates again: if it was off, or its system, key or priorities change.
    ///
    /// # Errors
    /// If there is no such bond.
    pub fn set_bond(
        &self,
        bond: PortId,
        config: BondConfig,
        members: &[(PortId, MemberConfig)],
        now: Now,
    ) -> Result<(), BondError> {
        let (_changing, table) = self.change();
        find(&table, bond).ok_or(BondError::NoBond(bond))?;
        if let Some(shared) = self.bonds.set(bond, config, members, now) {
            self.publish_bond(table, shared);
        }
        Ok(())
    }

    fn publish_bond(&self, mut table: PortTable, shared: Arc<Bond>) {
        let home = table.member(shared.port).map(|member| member.bridge);
        if let Some(Some(view)) = home.and_then(|home| table.views.get_mut(usize::from(home))) {
            view.bonds.retain(|old| old.port != shared.port);
            view.bonds.push(shared);
        }
        table.derive();
        self.publish(table);
    }

    /// Removes a bond with its stations. Its members must have left it.
    ///
    /// # Errors
    /// If there is no such bond, or it has members.
    pub fn remove_bond(&self, bond: PortId) -> Result<(), BondError> {
        if self.published.current().links.iter().flatten().any(|link| link.bond == bond) {
            return Err(BondError::HasMembers(bond));
        }
        {
            let (_changing, mut table) = self.change();
            find(&table, bond).ok_or(BondError::NoBond(bond))?;
            table.views.iter_mut().flatten().for_each(|view| view.bonds.retain(|old| old.port != bond));
            table.derive();
            self.publish(table);
        }
        self.bonds.remove(bond);
        let _ = self.remove_port(bond);
        Ok(())
    }

    /// Makes a port a member of a bond; it leaves its bridge, if it is on one.
    ///
    /// # Errors
    /// If there is no such bond, or the port is a bond or a member already.
    pub fn join_bond(
        &self,
        port: PortId,
        bond: PortId,
        config: MemberConfig,
        now: Now,
    ) -> Result<(), BondError> {
        let home = {
            let (_changing, mut table) = self.change();
            find(&table, bond).ok_or(BondError::NoBond(bond))?;
            if find(&table, port).is_some() || table.link(port).is_some() {
                return Err(BondError::Member(port));
            }
            let link = self.bonds.join(port, bond, config, now).ok_or(BondError::NoBond(bond))?;
            let home = table.member(port).and_then(|member| table.view(member.bridge));
            let home = home.map(|view| view.bridge.clone());
            table.set(port, None);
            table.set_link(port, Some(link));
            self.publish(table);
            home
        };
        if let Some(bridge) = home {
            bridge.fdb.close(port);
        }
        Ok(())
    }

    /// Removes a port from its bond. It is on no bridge then.
    ///
    /// # Errors
    /// If the port is no member of a bond.
    pub fn leave_bond(&self, port: PortId, now: Now) -> Result<(), RemovePortError> {
        let (_changing, mut table) = self.change();
        let bond = table.link(port).map(|link| link.bond).ok_or(RemovePortError::NoMember(port))?;
        // Others take over its buckets first.
        self.bonds.leave(port, bond, now);
        table.set_link(port, None);
        self.publish(table);
        Ok(())
    }

    /// Sets the function that has the engine send a frame: port, frame and stage. Must be called before bonds have
    /// members.
    pub fn connect_bonds(&self, send: impl Fn(PortId, Box<[u8]>, u32) -> bool + Send + Sync + 'static) {
        self.bonds.connect(Box::new(send));
    }

    /// Port by which frames of protocols leave by `port`: the active member if it is a bond. `None` if it has none.
    pub fn sender(&self, port: PortId) -> Option<PortId> {
        self.bonds.sender(port)
    }

    /// Runs timers of bonds: LACP, delays, rebalancing and learning packets. Returns when the next one is due, unless
    /// [`crate::LinkEvent::Due`] says otherwise; `None` if none runs.
    pub fn run_bonds(&self, now: Now) -> Option<Now> {
        self.bonds.run(now, |bond| self.learning_packets(bond, now))
    }

    /// Bonds by number.
    pub fn bonds(&self, now: Now) -> Vec<BondStatistics> {
        self.bonds.statistics(now)
    }

    /// A learning packet for each station that is at another port of the bridge.
    fn learning_packets(&self, bond: PortId, now: Now) -> VecDeque<Announcement> {
        let table = self.published.current();
        let Some(member) = table.member(bond) else { return VecDeque::new() };
        let Some(view) = table.view(member.bridge) else { return VecDeque::new() };
        let stations = view.bridge.fdb.stations((now.0 / 1_000_000_000) as u32);
        let carried = stations.into_iter().filter(|entry| {
            entry.port != bond && (!view.vlan_aware || member.vlan.carries(entry.key.vlan()))
        });
        let packet = |entry: crate::bucket::Entry| {
            let tag = VlanId::new(entry.key.vlan()).filter(|vlan| member.vlan.tags(vlan.get()));
            Announcement { source: entry.key, frame: learning_packet(entry.key.mac(), tag) }
        };
        carried.map(packet).collect()
    }
}

/// The bond with this number.
fn find(table: &PortTable, bond: PortId) -> Option<&Arc<Bond>> {
    table.views.iter().flatten().flat_map(|view| &view.bonds).find(|found| found.port == bond)
}
