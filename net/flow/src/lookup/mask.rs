//! Masks of subtables: the words of a key that are not 0, and what a lookup needs to know of them.

use crate::field::Field;
use crate::key::{Key, WORDS};

/// Fields with a trie in each table.
pub(super) const TRIES: [Field; 4] = [Field::Ipv4Src, Field::Ipv4Dst, Field::Ipv6Src, Field::Ipv6Dst];
/// Word and position of the two transport ports.
const PORTS: (usize, u32) = (36, 32);
const _: () = assert!(Field::TcpSrc.info().word == 36 && Field::TcpDst.info().shift == 32);

/// Mask of a subtable.
#[derive(Debug)]
pub(crate) struct Mask {
    full: Key,
    /// Number and bits of the words that are not 0.
    words: Box<[(u8, u64)]>,
    /// End of each stage in `words`.
    pub(super) ends: [u8; 4],
    /// Length of the prefix of each field of [`TRIES`]; 0 if its mask is none.
    pub(super) prefixes: [u8; 4],
    /// Bits of the ports.
    pub(super) ports: u32,
}

impl Mask {
    pub(crate) fn new(full: &Key) -> Self {
        let words: Box<_> = (0..WORDS).filter(|i| full.0[*i] != 0).map(|i| (i as u8, full.0[i])).collect();
        let end =
            |stage: usize| words.iter().filter(|(i, _)| usize::from(*i) < Key::STAGES[stage].end).count();
        Self {
            full: *full,
            ends: std::array::from_fn(|stage| end(stage) as u8),
            prefixes: TRIES.map(|field| prefix(full.get(field), field.info().bits)),
            ports: ports(full),
            words,
        }
    }

    /// As a key.
    pub(crate) fn full(&self) -> &Key {
        &self.full
    }

    /// Whether it contains all bits of `other`.
    pub(crate) fn contains(&self, other: &Key) -> bool {
        self.full.and(other) == *other
    }

    /// The words of `key` under the mask.
    pub(crate) fn values(&self, key: &Key) -> Box<[u64]> {
        self.words.iter().map(|(i, bits)| key.0[usize::from(*i)] & bits).collect()
    }

    /// The key with these words.
    pub(crate) fn key(&self, values: &[u64]) -> Key {
        let mut key = Key::ZERO;
        for ((i, _), value) in self.words.iter().zip(values) {
            key.0[usize::from(*i)] = *value;
        }
        key
    }

    /// Whether `key` has these values under the mask.
    #[inline]
    pub(crate) fn selects(&self, values: &[u64], key: &Key) -> bool {
        let words = self.words.iter().zip(values);
        words.fold(0, |differs, ((i, bits), value)| differs | key.0[usize::from(*i)] & bits ^ value) == 0
    }

    /// Whether `key` equals the values in all bits that both masks have.
    pub(crate) fn overlaps(&self, values: &[u64], key: &Key, mask: &Key) -> bool {
        let mut words = self.words.iter().zip(values);
        words.all(|((i, bits), value)| {
            let i = usize::from(*i);
            (key.0[i] ^ value) & bits & mask.0[i] == 0
        })
    }

    /// Hash of a range of the masked words, continued from `hash`.
    #[inline]
    pub(super) fn hash(&self, key: &Key, range: std::ops::Range<usize>, hash: u64) -> u64 {
        self.words[range].iter().fold(hash, |hash, (i, bits)| fold(hash, key.0[usize::from(*i)] & bits))
    }

    /// Hash of all masked words.
    pub(crate) fn hash_all(&self, key: &Key, seed: u64) -> u64 {
        self.hash(key, 0..self.words.len(), seed)
    }

    /// Adds the first `end` words to `bits`.
    pub(super) fn add_to(&self, end: usize, bits: &mut Key) {
        for (i, mask) in &self.words[..end] {
            bits.0[usize::from(*i)] |= mask;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }
}

/// Length of the prefix that `mask` is, or 0.
fn prefix(mask: u128, bits: u8) -> u8 {
    let ones = (mask << (128 - bits)).leading_ones() as u8;
    if u32::from(ones) == mask.count_ones() { ones } else { 0 }
}

/// Source and destination port as one number.
#[inline]
pub(super) fn ports(key: &Key) -> u32 {
    let word = key.0[PORTS.0];
    (word >> 48 << 16) as u32 | (word >> PORTS.1) as u16 as u32
}

/// Adds bits of [`ports`] to a mask.
pub(super) fn add_ports(ports: u32, bits: &mut Key) {
    bits.0[PORTS.0] |= u64::from(ports) << PORTS.1;
}

/// One step of a keyed hash. The key, which is the first `hash`, must be unknown to the senders of packets.
#[inline]
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word.rotate_left(32))
        * u128::from(0x9e37_79b9_7f4a_7c15_u64 ^ hash.rotate_left(17) | 1);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_described() {
        let mut full = Key::ZERO;
        for (field, bits) in [
            (Field::InPort, 0xffff_ffff),
            (Field::EthType, 0xffff),
            (Field::Ipv4Src, 0xff00_0000),
            (Field::Ipv4Dst, 0xff),
            (Field::TcpSrc, 0xf000),
            (Field::TcpDst, 0xffff),
        ] {
            full.set(field, bits);
        }
        let mask = Mask::new(&full);
        assert_eq!((mask.ends, mask.prefixes, mask.ports), ([1, 2, 3, 4], [8, 0, 0, 0], 0xf000_ffff));
        let mut key = Key::ZERO;
        add_ports(mask.ports, &mut key);
        assert_eq!(
            (key.get(Field::TcpSrc), key.get(Field::TcpDst), ports(&key)),
            (0xf000, 0xffff, 0xf000_ffff)
        );
        assert_eq!(mask.key(&mask.values(&full)), full);
        assert!(mask.selects(&mask.values(&full), &full) && !mask.selects(&mask.values(&full), &key));
    }
}
