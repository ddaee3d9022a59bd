//! What a port may send: the keys of port security, their reading, their validation and how they are printed.
//!
//! Nothing here looks at packets: `bridge` enforces what is written here.

use crate::config::{Fields, Validation};
use crate::topology::PortSettings;
use bridge::{AllowedSource, PortConfig};
use serde::{Deserialize, Serialize};
use std::fmt;
use wire::MacAddress;

/// Addresses that a table can hold.
const MAX_MACS: std::ops::RangeInclusive<i128> = 1..=16_777_216;

/// The keys of a `[[port]]` section that restrict its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Security {
    /// Whether the network behind the port is trusted, as an uplink is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) trusted: bool,
    /// The only source addresses that are allowed; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) macs: Vec<MacAddress>,
    /// Whether addresses are learned from it.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(crate) learn: bool,
    /// Most addresses that are learned from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_macs: Option<u32>,
    /// The only IP source addresses that are allowed; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<AllowedSource>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_true(flag: &bool) -> bool {
    *flag
}

fn yes() -> bool {
    true
}

impl Default for Security {
    fn default() -> Self {
        Self { trusted: false, macs: Vec::new(), learn: true, max_macs: None, sources: Vec::new() }
    }
}

impl Security {
    /// Reads the keys.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            trusted: fields.flag("trusted").unwrap_or(false),
            macs: macs(fields),
            learn: fields.flag("learn").unwrap_or(true),
            max_macs: fields.number("max_macs", MAX_MACS, "addresses"),
            sources: sources(fields),
        }
    }

    /// Validates the keys against each other, the bridge and the ports before this one.
    pub(crate) fn validate(validation: &mut Validation<'_>) {
        let (port, topology) = (validation.port(), validation.topology);
        if !port.security.learn && port.security.max_macs.is_some() {
            validation.wrong(
                "max_macs",
                "`max_macs` limits nothing: `learn` is false",
                "remove one of the two",
            );
        }
        for (key, entries) in [("macs", port.security.macs.len()), ("sources", port.security.sources.len())] {
            if entries > PortConfig::LONGEST_LIST {
                let reason = format!("`{key}` has {entries} entries");
                validation.wrong(key, reason, format!("list at most {}", PortConfig::LONGEST_LIST));
            }
        }
        if let Some(mac) = port.security.macs.iter().find(|mac| count(&port.security.macs, **mac) > 1) {
            validation.wrong("macs", format!("`macs` lists {mac} twice"), "list it once");
        }
        owned_once(validation, port);
        let bridge = topology.bridges.iter().find(|bridge| bridge.name == port.bridge);
        let Some(bridge) = bridge else { return };
        if port.security.sources.contains(&AllowedSource::Dhcp) && !bridge.dhcp_snooping {
            let reason =
                format!("`sources` lists \"dhcp\", and bridge \"{}\" does not follow DHCP", bridge.name);
            validation.wrong("sources", reason, "write dhcp_snooping = true in the [[bridge]] section");
        }
        let pinned = bridge
            .statics
            .iter()
            .find(|entry| entry.port != port.name && port.security.macs.contains(&entry.mac));
        if let Some(entry) = pinned {
            let reason =
                format!("`macs` lists {}, which a static entry pins to port \"{}\"", entry.mac, entry.port);
            validation.wrong("macs", reason, "remove one of the two");
        }
    }
}

fn count(macs: &[MacAddress], mac: MacAddress) -> usize {
    macs.iter().filter(|other| **other == mac).count()
}

/// An address belongs to one port of a bridge.
fn owned_once(validation: &mut Validation<'_>, port: &PortSettings) {
    let shared = |other: &&PortSettings| other.bridge == port.bridge;
    let taken = validation.earlier().iter().filter(shared).find_map(|other| {
        let mac = port.security.macs.iter().find(|mac| other.security.macs.contains(mac))?;
        Some((mac, &other.name))
    });
    if let Some((mac, owner)) = taken {
        let reason = format!("`macs` lists {mac}, which is port \"{owner}\"'s already");
        validation.wrong("macs", reason, "give each address to one port");
    }
}

fn macs(fields: &mut Fields<'_, '_>) -> Vec<MacAddress> {
    let station = |text: &str| {
        let mac: Option<MacAddress> = text.parse().ok();
        mac.filter(|mac| !mac.is_group() && !mac.is_zero())
            .ok_or_else(|| format!("`macs` lists \"{text}\", which is no station's address"))
    };
    fields.list("macs", station, "[\"52:54:00:00:00:01\"]")
}

fn sources(fields: &mut Fields<'_, '_>) -> Vec<AllowedSource> {
    let source = |text: &str| text.parse().map_err(|e: bridge::ParseSourceError| format!("`sources`: {e}"));
    fields.list("sources", source, "[\"10.0.0.5\", \"10.1.0.0/24\", \"fd00::5\", \"dhcp\"]")
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn listed<T: ToString>(list: &[T]) -> String {
            list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        if let Some(most) = self.max_macs {
            write!(f, ", at most {most} addresses")?;
        }
        if !self.macs.is_empty() {
            write!(f, ", only from {}", listed(&self.macs))?;
        }
        if !self.sources.is_empty() {
            write!(f, ", IP sources {}", listed(&self.sources))?;
        }
        f.write_str(if self.learn { "" } else { ", learns nothing" })?;
        f.write_str(if self.trusted { ", trusted" } else { "" })
    }
}
