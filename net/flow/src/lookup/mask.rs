//! Masks of subtables: the words of a key that are not 0, and what a lookup needs to know of them.

use crate::field::Field;
use crate::key::{Key, WORDS};
use crate::tables::Values;

/// Fields with a trie in each table.
pub(super) const TRIES: [Field; 4] = [Field::Ipv4Src, Field::Ipv4Dst, Field::Ipv6Src, Field::Ipv6Dst];
/// Bits that a new subtable leaves out of a complete IPv4 address, and difference of two prefixes from which on it
/// ignores the shorter one (Daly et al., `TupleMerge`, 2019); four times as many of IPv6 addresses.
const SLACK: u8 = 4;
/// Word and position of the two transport ports.
const PORTS: (usize, u32) = (41, 32);
const _: () = assert!(Field::TcpSrc.info().word == 41 && Field::TcpDst.info().shift == 32);

/// Mask of a subtable.
#[derive(Debug)]
pub(crate) struct Mask {
    full: Key,
    /// [`Mask::number`] of `full`.
    pub(super) number: u64,
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
            number: Self::number(full),
            ends: std::array::from_fn(|stage| end(stage) as u8),
            prefixes: TRIES.map(|field| prefix(full.get(field), field.info().bits)),
            ports: ports(full),
            words,
        }
    }

    /// Hash of a mask, without a secret: packets have no part in masks.
    pub(super) fn number(full: &Key) -> u64 {
        full.0.iter().fold(0, |hash, word| fold(hash, *word))
    }

    /// Mask of a new subtable for flows of this mask and of similar ones, as in `TupleMerge`: without the address that
    /// is more than [`SLACK`] bits shorter than the other one and its port, with shorter prefixes, and without parts of
    /// ports.
    pub(super) fn relaxed(&self) -> Self {
        let mut full = self.full;
        for (source, unit) in [(0, 1), (2, 4)] {
            let [from, to] = [self.prefixes[source], self.prefixes[source + 1]];
            let less_specific = match (from > to + SLACK * unit, to > from + SLACK * unit) {
                (true, _) => Some((TRIES[source + 1], Field::TcpDst)),
                (_, true) => Some((TRIES[source], Field::TcpSrc)),
                _ => None,
            };
            for field in less_specific.into_iter().flat_map(|(address, port)| [address, port]) {
                full.set(field, 0);
            }
            for i in [source, source + 1] {
                let (len, field) = (self.prefixes[i], TRIES[i]);
                if len > 0 && full.get(field) != 0 {
                    let slack = if len == field.info().bits { SLACK } else { (len - 1) / (8 * unit) };
                    full.set(field, prefix_mask(field, len - slack * unit));
                }
            }
        }
        for port in [Field::TcpSrc, Field::TcpDst] {
            let is_part = full.get(port) != port.full();
            full.set(port, if is_part { 0 } else { port.full() });
        }
        Self::new(&full)
    }

    /// A mask between this one and `finer`, which contains it and differs from it: prefixes have the mean length, all
    /// other fields are those of `finer`.
    pub(super) fn halfway(&self, finer: &Self) -> Self {
        let mut full = finer.full;
        for (i, field) in TRIES.into_iter().enumerate() {
            let (from, to) = (self.prefixes[i], finer.prefixes[i]);
            if to > 0 {
                full.set(field, prefix_mask(field, to - to.saturating_sub(from) / 2));
            }
        }
        let full = full.or(&self.full);
        Self::new(if full == self.full { &finer.full } else { &full })
    }

    /// Number of bits.
    pub(super) fn bits(&self) -> u32 {
        self.words.iter().map(|(_, bits)| bits.count_ones()).sum()
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
    pub(crate) fn values(&self, key: &Key) -> Values {
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

    /// Adds bits to `bits` in which `key` differs from the values, which do not select it. Adds none if `bits` has one.
    pub(crate) fn add_difference(&self, values: &[u64], key: &Key, bits: &mut Key) {
        let differing = || {
            let words = self.words.iter().zip(values);
            words.map(move |((i, mask), value)| {
                (usize::from(*i), *mask, (key.0[usize::from(*i)] ^ value) & mask)
            })
        };
        if differing().any(|(i, _, differs)| differs & bits.0[i] != 0) {
            return;
        }
        let Some((i, mask, differs)) = differing().find(|(_, _, differs)| *differs != 0) else { return };
        // The bits up to the first that differs, of one half of the word: an address, or both ports.
        let half = if differs >> 32 == 0 { u64::from(u32::MAX) } else { u64::from(u32::MAX) << 32 };
        let first = (differs & half).ilog2();
        bits.0[i] |= mask & half & u64::MAX << first;
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

/// Mask of the first `len` bits of a field.
pub(super) fn prefix_mask(field: Field, len: u8) -> u128 {
    if len == 0 { 0 } else { field.full() << (field.info().bits - len) & field.full() }
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
        assert_eq!(mask.number, Mask::number(&full));
        let mut key = Key::ZERO;
        add_ports(mask.ports, &mut key);
        assert_eq!(
            (key.get(Field::TcpSrc), key.get(Field::TcpDst), ports(&key)),
            (0xf000, 0xffff, 0xf000_ffff)
        );
        assert_eq!(mask.key(&mask.values(&full)), full);
        assert!(mask.selects(&mask.values(&full), &full) && !mask.selects(&mask.values(&full), &key));
    }

    fn mask(fields: &[(Field, u128)]) -> Mask {
        let mut full = Key::ZERO;
        for (field, bits) in fields {
            full.set(*field, *bits);
        }
        Mask::new(&full)
    }

    #[test]
    fn new_subtables_leave_bits_out() {
        let v6 = |len: u32| u128::MAX << (128 - len);
        let port = (Field::TcpDst, 0xffff);
        for (own, relaxed) in [
            (
                vec![(Field::Ipv4Src, 0xffff_ffff), (Field::Ipv4Dst, 0xffff_fff8), port],
                vec![(Field::Ipv4Src, 0xffff_fff0), (Field::Ipv4Dst, 0xffff_ffc0), port],
            ),
            (vec![(Field::Ipv4Src, 0xffff_0000), port], vec![(Field::Ipv4Src, 0xfffe_0000)]),
            (vec![(Field::Ipv4Dst, 0xff00_0000), port], vec![(Field::Ipv4Dst, 0xff00_0000), port]),
            (vec![(Field::Ipv6Dst, v6(128)), (Field::TcpSrc, 0xfff0)], vec![(Field::Ipv6Dst, v6(112))]),
            (
                vec![(Field::Ipv6Src, v6(64)), (Field::Ipv6Dst, v6(48))],
                vec![(Field::Ipv6Src, v6(60)), (Field::Ipv6Dst, v6(44))],
            ),
            (vec![(Field::EthDst, 0xff)], vec![(Field::EthDst, 0xff)]),
        ] {
            let own = mask(&own);
            assert_eq!(own.relaxed().full, mask(&relaxed).full);
            assert!(own.contains(&own.relaxed().full));
        }
    }

    #[test]
    fn a_subtable_is_split_at_half_of_the_difference() {
        let own =
            mask(&[(Field::Ipv4Src, 0xffff_ffff), (Field::Ipv4Dst, 0xffff_0000), (Field::TcpDst, 0xffff)]);
        let coarse = mask(&[(Field::Ipv4Src, 0xffff_0000)]);
        let halfway =
            mask(&[(Field::Ipv4Src, 0xffff_ff00), (Field::Ipv4Dst, 0xff00_0000), (Field::TcpDst, 0xffff)]);
        assert_eq!(coarse.halfway(&own).full, halfway.full);
        let odd = mask(&[(Field::Ipv4Src, 0xff00_00ff)]);
        let finer = mask(&[(Field::Ipv4Src, 0xff00_01ff)]);
        assert_eq!(odd.halfway(&finer).full, finer.full);
    }

    #[test]
    fn a_difference_is_a_prefix_of_half_a_word_and_added_once() {
        let mask =
            mask(&[(Field::Ipv4Src, 0xffff_ff00), (Field::Ipv4Dst, 0xffff_ffff), (Field::TcpDst, 0xffff)]);
        let (mut flow, mut key, mut bits) = (Key::ZERO, Key::ZERO, Key::ZERO);
        flow.set(Field::Ipv4Dst, 0x0a00_0001);
        key.set(Field::Ipv4Dst, 0x0a80_0001);
        key.set(Field::TcpDst, 80);
        mask.add_difference(&mask.values(&flow), &key, &mut bits);
        assert_eq!((bits.get(Field::Ipv4Src), bits.get(Field::Ipv4Dst)), (0, 0xff80_0000));
        let before = bits;
        key.set(Field::Ipv4Src, 0x0b00_0000);
        mask.add_difference(&mask.values(&flow), &key, &mut bits);
        assert_eq!(bits, before);
    }
}
