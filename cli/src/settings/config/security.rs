//! Validates port security against the bridge, its static entries and earlier ports.

use crate::settings::reader::notes::{Findings, Section};
use crate::settings::topology::{BridgeSettings, PortSettings, Topology};
use bridge::{AllowedSource, PortConfig};
use wire::MacAddress;

/// Validates the security keys of one port. A conflict with one of the `earlier` ports is reported for this one.
pub(super) fn validate(
    topology: &Topology,
    section: Section,
    (port, earlier): (&PortSettings, &[PortSettings]),
    notes: &mut Findings,
) {
    let security = &port.policy.security;
    if !security.learn && security.max_macs.is_some() {
        let reason = "`max_macs` has no effect: `learn` is false";
        notes.wrong((section, "max_macs"), reason, "remove one of the two");
    }
    for (key, entries) in [("macs", security.macs.len()), ("sources", security.sources.len())] {
        if entries > PortConfig::MAX_LIST {
            let reason = format!("`{key}` has {entries} entries");
            notes.wrong((section, key), reason, format!("list at most {}", PortConfig::MAX_LIST));
        }
    }
    if let Some(mac) = security.macs.iter().find(|mac| count(&security.macs, **mac) > 1) {
        notes.wrong((section, "macs"), format!("`macs` lists {mac} twice"), "list it once");
    }
    owned_once(port, earlier, section, notes);
    if let Some(bridge) = topology.bridges.iter().find(|bridge| bridge.name == port.bridge) {
        on_bridge(port, bridge, section, notes);
    }
}

/// Validates against the settings of the port's bridge.
fn on_bridge(port: &PortSettings, bridge: &BridgeSettings, section: Section, notes: &mut Findings) {
    if port.policy.security.sources.contains(&AllowedSource::Dhcp) && !bridge.dhcp_snooping {
        let reason = format!("`sources` lists \"dhcp\", and bridge \"{}\" does not snoop DHCP", bridge.name);
        let remedy = "write dhcp_snooping = true in the [[bridge]] section";
        notes.wrong((section, "sources"), reason, remedy);
    }
    let mut elsewhere = bridge.statics.iter().filter(|entry| entry.port != port.name);
    if let Some(entry) = elsewhere.find(|entry| port.policy.security.macs.contains(&entry.mac)) {
        let reason =
            format!("`macs` lists {}, which a static entry pins to port \"{}\"", entry.mac, entry.port);
        notes.taken((section, "macs"), reason, "remove one of the two");
    }
}

fn count(macs: &[MacAddress], mac: MacAddress) -> usize {
    macs.iter().filter(|other| **other == mac).count()
}

/// Validates that an address is listed by at most one port of a bridge.
fn owned_once(port: &PortSettings, earlier: &[PortSettings], section: Section, notes: &mut Findings) {
    let shared = |other: &&PortSettings| other.bridge == port.bridge;
    let taken = earlier.iter().filter(shared).find_map(|other| {
        let mac = port.policy.security.macs.iter().find(|mac| other.policy.security.macs.contains(mac))?;
        Some((mac, &other.name))
    });
    if let Some((mac, owner)) = taken {
        let reason = format!("`macs` lists {mac}, which already belongs to port \"{owner}\"");
        notes.taken((section, "macs"), reason, "give each address to one port");
    }
}
