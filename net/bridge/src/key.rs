//! Key of the station table: MAC address and VLAN.
//!
//! Learning is independent per VLAN (IEEE 802.1Q, IVL), so the VLAN is part of the key; VLAN 0 is used for frames
//! without one. Each bridge has its own table, so the bridge is not part of the key.

use wire::MacAddress;

const VLAN_SHIFT: u32 = 48;
const BITS: u64 = (1 << 60) - 1;

/// A station: 48 bits of address, 12 bits of VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(u64);

impl Key {
    #[inline(always)]
    pub(super) const fn new(mac: MacAddress, vlan: u16) -> Self {
        Self(mac.to_u64() | ((vlan as u64) << VLAN_SHIFT) & BITS)
    }

    /// The key in the low 60 bits of `word`.
    #[inline(always)]
    pub(super) const fn from_bits(word: u64) -> Self {
        Self(word & BITS)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) const fn mac(self) -> MacAddress {
        MacAddress::from_u64(self.0)
    }

    #[inline(always)]
    pub(super) const fn vlan(self) -> u16 {
        (self.0 >> VLAN_SHIFT) as u16
    }
}
