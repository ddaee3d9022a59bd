//! Interface identifiers: the low 64 bits of addresses.

use core::hash::Hasher;
use siphasher::sip::SipHasher24;
use wire::MacAddress;

/// How interface identifiers are formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identifier {
    /// A keyed hash of the prefix and the Ethernet address: differs between networks, and is stable if the secret of
    /// the configuration is (RFC 7217).
    #[default]
    Opaque,
    /// The Ethernet address as modified EUI-64 (RFC 4291 appendix A).
    Eui64,
}

/// Identifiers of one interface.
pub(super) struct Identifiers {
    keyed: SipHasher24,
    mac: MacAddress,
    kind: Identifier,
}

impl Identifiers {
    pub(super) fn new(secret: &[u8; 16], mac: MacAddress, kind: Identifier) -> Self {
        let mut keyed = SipHasher24::new_with_key(secret);
        keyed.write(b"interface identifier");
        keyed.write(&mac.octets());
        Self { keyed, mac, kind }
    }

    /// Whether another identifier can be formed after a conflict.
    pub(super) fn has_alternatives(&self) -> bool {
        self.kind == Identifier::Opaque
    }

    /// The identifier for a prefix after `conflicts` conflicts.
    pub(super) fn next(&self, prefix: [u8; 8], conflicts: u8) -> [u8; 8] {
        match self.kind {
            Identifier::Eui64 => eui64(self.mac),
            Identifier::Opaque => {
                let mut hasher = self.keyed;
                hasher.write(&prefix);
                hasher.write_u8(conflicts);
                unreserved(hasher.finish()).to_be_bytes()
            }
        }
    }
}

/// Replaces reserved identifiers (RFC 5453): the subnet-router anycast address, the Ethernet block of IANA, and the
/// reserved anycast addresses.
const fn unreserved(identifier: u64) -> u64 {
    match identifier {
        0 | 0x0200_5eff_fe00_0000..=0x0200_5eff_feff_ffff | 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff => {
            identifier ^ 1 << 62
        }
        _ => identifier,
    }
}

const fn eui64(mac: MacAddress) -> [u8; 8] {
    let [first, second, third, rest @ ..] = mac.octets();
    [first ^ 2, second, third, 0xff, 0xfe, rest[0], rest[1], rest[2]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_depend_on_prefix_host_and_conflicts() {
        let mac = MacAddress::new([2, 0, 0, 0, 0, 1]);
        let ids = Identifiers::new(&[1; 16], mac, Identifier::Opaque);
        let first = ids.next([1; 8], 0);
        assert_eq!(Identifiers::new(&[1; 16], mac, Identifier::Opaque).next([1; 8], 0), first);
        assert_ne!(Identifiers::new(&[2; 16], mac, Identifier::Opaque).next([1; 8], 0), first);
        assert!(ids.next([2; 8], 0) != first && ids.next([1; 8], 1) != first);
        let fixed = Identifiers::new(&[1; 16], mac, Identifier::Eui64);
        assert_eq!(fixed.next([1; 8], 3), [0, 0, 0, 0xff, 0xfe, 0, 0, 1]);
    }

    #[test]
    fn reserved_identifiers_are_replaced() {
        for identifier in [0, 0x0200_5eff_fe00_5213, 0xfdff_ffff_ffff_ffff] {
            assert!(unreserved(identifier) != identifier);
            assert_eq!(unreserved(unreserved(identifier)), unreserved(identifier));
        }
        assert_eq!(unreserved(1), 1);
    }
}
