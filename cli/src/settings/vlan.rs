//! VLANs of a port.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Vlan {
    /// Untagged on the wire, this VLAN inside.
    Access(u16),
    /// Tagged on the wire.
    Trunk {
        trunk: Vec<u16>,
        /// The VLAN of untagged frames; `None`: untagged frames are dropped.
        #[serde(skip_serializing_if = "Option::is_none")]
        native: Option<u16>,
    },
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vlan::Access(vlan) => write!(f, "access VLAN {vlan}"),
            Vlan::Trunk { trunk, native } => {
                let list: Vec<String> = trunk.iter().map(ToString::to_string).collect();
                write!(f, "trunk VLANs {}", list.join(","))?;
                native.map_or(Ok(()), |native| write!(f, ", native {native}"))
            }
        }
    }
}
