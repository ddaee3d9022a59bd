//! Policy of a port on its bridge: VLANs, limits and security. Ports, bonds and the ports of applications have the same
//! keys; `config` validates them against other sections.

use super::reader::fields::Fields;
use super::security::Security;
use super::vlan::{self, Vlan};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

const LIMIT_BURST: RangeInclusive<i128> = 1..=1_000_000;
const PER_SECOND: RangeInclusive<i128> = 1..=4_294_967_295;

/// VLANs, limits and security of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<Vlan>,
    /// Packets per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broadcast_limit: Option<u32>,
    /// Packets per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unknown_limit: Option<u32>,
    /// Packets that either limit admits at once; `None`: those of a tenth of a second, at least 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_burst: Option<u32>,
    #[serde(flatten)]
    pub(crate) security: Security,
}

impl Policy {
    /// Reads the keys.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            vlan: vlan::read(fields),
            broadcast_limit: fields.number("broadcast_limit", PER_SECOND, "packets a second"),
            unknown_limit: fields.number("unknown_limit", PER_SECOND, "packets a second"),
            limit_burst: fields.number("limit_burst", LIMIT_BURST, "packets at once"),
            security: Security::read(fields),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vlan) = &self.vlan {
            write!(f, ", {vlan}")?;
        }
        let limits = [(self.broadcast_limit, "broadcasts/s"), (self.unknown_limit, "unknown unicasts/s")];
        for (limit, what) in limits.iter().filter_map(|(limit, what)| Some((limit.as_ref()?, what))) {
            write!(f, ", at most {limit} {what}")?;
        }
        if let Some(packets) = self.limit_burst {
            write!(f, " in bursts of {packets}")?;
        }
        self.security.fmt(f)
    }
}
