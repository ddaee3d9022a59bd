//! Identifiers, priority vectors and times (17.5, 17.6).

use std::fmt;
use wire::MacAddress;

/// Bridge identifier: priority in the most significant 4 bits, 12 bits of system identifier, and an address (9.2.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// Identifier of a bridge; `priority` is a multiple of 4096.
    pub const fn new(priority: u16, address: MacAddress) -> Self {
        Self((priority as u64) << 48 | address.to_u64())
    }

    /// Priority with the system identifier.
    pub const fn priority(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Address of the bridge.
    pub const fn address(self) -> MacAddress {
        MacAddress::from_u64(self.0)
    }
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}.{}", self.priority(), self.address())
    }
}

impl fmt::Debug for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Priority vector (17.5): the lesser one is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Vector {
    /// Root.
    pub root: BridgeId,
    /// Cost of the path to the root.
    pub cost: u32,
    /// Designated bridge, which transmits the BPDU.
    pub bridge: BridgeId,
    /// Its port: priority in the most significant 4 bits, and number.
    pub port: u16,
}

/// Low 12 bits of a port identifier.
const PORT_NUMBER: u16 = 0xfff;

impl Vector {
    /// Whether a received vector replaces `held` (17.6): it is better, or from the same port of the same bridge.
    pub(crate) fn is_superior_to(&self, held: &Self) -> bool {
        let is_same_port = self.bridge.address() == held.bridge.address()
            && self.port & PORT_NUMBER == held.port & PORT_NUMBER;
        self < held || is_same_port && self != held
    }
}

/// Times of a BPDU (17.18), in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Times {
    /// Number of bridges from the root.
    pub message_age: u8,
    /// Message age at which information is discarded.
    pub max_age: u8,
    /// Interval between two BPDUs of a port.
    pub hello: u8,
    /// Time in each of the states before forwarding, without an agreement.
    pub forward_delay: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_replaced_by_a_better_one_and_by_a_worse_one_of_its_port() {
        let id = |n| BridgeId::new(0x8000, MacAddress::from_u64(n));
        let held = Vector { root: id(1), cost: 10, bridge: id(2), port: 0x8001 };
        assert!(Vector { cost: 9, bridge: id(3), ..held }.is_superior_to(&held));
        assert!(!Vector { cost: 11, bridge: id(3), ..held }.is_superior_to(&held));
        assert!(Vector { cost: 11, ..held }.is_superior_to(&held));
        assert!(Vector { port: 0xf001, ..held }.is_superior_to(&held));
        assert!(!Vector { port: 0x8002, ..held }.is_superior_to(&held));
        assert!(!held.is_superior_to(&held));
        assert_eq!(format!("{}", held.root), "8000.00:00:00:00:00:01");
    }
}
