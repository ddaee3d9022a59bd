//! Bucket selection by a keyed hash, so that a sender that chooses addresses cannot choose buckets.
//!
//! Two rounds of a folded 64 x 64 -> 128 bit multiplication with secret operands, random per table. Each 32-bit half of
//! the result is mapped to a bucket by multiplication, so the table size need not be a power of two.

use super::key::Key;
use std::hash::{BuildHasher, RandomState};

/// Hash key of one table.
#[derive(Clone)]
pub(super) struct Secret([u64; 4]);

impl Secret {
    /// A random key from `RandomState`.
    pub(super) fn random() -> Self {
        let source = RandomState::new();
        // Odd multipliers lose no bits of the low half.
        Self([0u64, 1, 2, 3].map(|i| source.hash_one(i) | (i & 1)))
    }

    /// The two candidate buckets of `key` in a table of `buckets`.
    #[inline(always)]
    pub(super) fn places(&self, key: Key, buckets: u32) -> Buckets {
        let hash = fold(fold(key.bits() ^ self.0[0], self.0[1]) ^ self.0[2], self.0[3]);
        Buckets([reduce(hash as u32, buckets), reduce((hash >> 32) as u32, buckets)])
    }
}

/// The two candidate buckets of a key. They may be equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets(pub(super) [u32; 2]);

impl Buckets {
    /// The other candidate bucket of a key in `bucket`.
    pub(super) fn other(self, bucket: u32) -> u32 {
        if self.0[0] == bucket { self.0[1] } else { self.0[0] }
    }
}

/// Combines both halves of a 128-bit product.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// `hash * buckets / 2^32`: uniform, and cheaper than a remainder.
#[inline(always)]
fn reduce(hash: u32, buckets: u32) -> u32 {
    ((u64::from(hash) * u64::from(buckets)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::MacAddress;

    #[test]
    fn tables_use_different_hash_secrets() {
        let (a, b) = (Secret::random(), Secret::random());
        let same = (1..1000)
            .map(|i| Key::new(MacAddress::from_u64(i), 0))
            .filter(|key| a.places(*key, 1 << 16) == b.places(*key, 1 << 16))
            .count();
        assert!(same < 5, "{same} of 999 stations share both buckets across secrets");
    }

    #[test]
    fn consecutive_addresses_spread_over_all_buckets() {
        const BUCKETS: u32 = 1000;
        let secret = Secret::random();
        let mut load = vec![0u32; BUCKETS as usize];
        for i in 0..100_000 {
            let key = Key::new(MacAddress::from_u64(0x5254_0000_0000 + i), 0);
            for place in secret.places(key, BUCKETS).0 {
                load[place as usize] += 1;
            }
        }
        // Mean 200, standard deviation 14: eight deviations do not occur by chance.
        assert!(
            load.iter().all(|n| (88..312).contains(n)),
            "{:?}..{:?}",
            load.iter().min(),
            load.iter().max()
        );
    }

    proptest! {
        #[test]
        fn buckets_are_inside_the_table(mac: u64, vlan in 0u16..4095, buckets in 1u32..) {
            let places = Secret::random().places(Key::new(MacAddress::from_u64(mac), vlan), buckets);
            prop_assert!(places.0.iter().all(|place| *place < buckets));
            prop_assert_eq!(places.other(places.0[0]), places.0[1]);
        }
    }
}
