//! Kinds of traffic whose instructions are counted.

use std::str::FromStr;

use anyhow::{Context, Error};
use counted::rig::{BURST, Extras, Flows};
use wire::VlanId;

/// Stations of traffic to many.
const MANY: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// One station per port: the bridge reuses its last look-up.
    Pair,
    /// 1,024 stations: the bridge looks up every address.
    Many,
    /// Broadcast between three ports: each frame leaves by two.
    Flood,
    /// From an access port to a trunk, in one direction: each frame gets a tag.
    Vlan,
    /// Each frame is received into two merged buffers.
    Merge,
    /// As pair, with a switch of three pipeline stages that alternate on one thread until idle.
    Staged,
    /// As pair, with a flow for each port in place of the bridge.
    Flow,
    /// As pair, with a flow for each destination address in place of the bridge.
    Match,
    /// As many, with a flow for each destination address in place of the bridge.
    Matches,
    /// Out of a virtio-user port: its transmit queue.
    Uplink,
    /// Into a virtio-user port: its receive queue.
    Downlink,
    /// Requests to a TCP server.
    Echo,
}

const NAMES: [(&str, Traffic); 12] = [
    ("pair", Traffic::Pair),
    ("many", Traffic::Many),
    ("flood", Traffic::Flood),
    ("vlan", Traffic::Vlan),
    ("merge", Traffic::Merge),
    ("staged", Traffic::Staged),
    ("flow", Traffic::Flow),
    ("match", Traffic::Match),
    ("matches", Traffic::Matches),
    ("uplink", Traffic::Uplink),
    ("downlink", Traffic::Downlink),
    ("echo", Traffic::Echo),
];

impl FromStr for Traffic {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, traffic)| *traffic).with_context(|| {
            let names = NAMES.map(|(name, _)| name).join(", ");
            format!("invalid TRAFFIC {text}: expected one of {names}")
        })
    }
}

impl Traffic {
    pub(crate) fn ports(self) -> usize {
        if self == Traffic::Flood { 3 } else { 2 }
    }

    pub(crate) fn stations(self) -> usize {
        if matches!(self, Traffic::Many | Traffic::Matches) { MANY } else { 2 }
    }

    /// Number of sending ports.
    pub(crate) fn senders(self) -> usize {
        if self == Traffic::Vlan { 1 } else { self.ports() }
    }

    /// Packets forwarded per round: each sender sends one burst.
    pub(crate) fn leaving(self) -> usize {
        let copies = if self == Traffic::Flood { self.ports() - 1 } else { 1 };
        self.senders() * copies * BURST
    }

    /// Extras of the rig; `size` is in bytes per frame.
    pub(crate) fn extras(self, size: usize) -> Extras {
        Extras {
            vlan: if self == Traffic::Vlan { VlanId::new(5) } else { None },
            staged: self == Traffic::Staged,
            flows: match self {
                Traffic::Flow => Some(Flows::OfPorts),
                Traffic::Match | Traffic::Matches => Some(Flows::OfAddresses),
                _ => None,
            },
            // Two thirds of header and frame: one buffer is too small, two are sufficient.
            merged: (self == Traffic::Merge).then_some((size as u32 + 12) * 2 / 3),
        }
    }
}
