//! Prefixes of the addresses of a table's flows, which exclude subtables.

use super::mask::{Mask, TRIES};
use super::prefix::{Lengths, PrefixTrie};
use crate::key::Key;

/// A trie for each field of [`TRIES`].
#[derive(Clone, Default)]
pub(super) struct Tries {
    ipv4: [PrefixTrie<u32>; 2],
    ipv6: [PrefixTrie<u128>; 2],
}

/// Lengths of the prefixes of some masks, for each field of [`TRIES`]: bit `n - 1` is set if a mask has `n` bits.
/// `None` if a mask has no prefix.
#[derive(Clone, Copy)]
pub(super) struct MaskLengths([Option<u128>; 4]);

impl Default for MaskLengths {
    fn default() -> Self {
        Self([Some(0); 4])
    }
}

impl MaskLengths {
    pub(super) fn add(&mut self, mask: &Mask) {
        for (lengths, len) in self.0.iter_mut().zip(mask.prefixes) {
            *lengths = lengths.filter(|_| len > 0).map(|lengths| lengths | 1 << (len - 1));
        }
    }

    /// Lengths of the fields of which all masks have a prefix.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, u128)> {
        self.0.iter().enumerate().filter_map(|(i, lengths)| Some((i, (*lengths)?)))
    }
}

impl Tries {
    pub(super) fn add(&mut self, mask: &Mask, key: &Key) {
        for (i, len, value) in prefixes(mask, key) {
            match i {
                0 | 1 => self.ipv4[i].insert(value as u32, len),
                _ => self.ipv6[i - 2].insert(value, len),
            }
        }
    }

    pub(super) fn remove(&mut self, mask: &Mask, key: &Key) {
        for (i, len, value) in prefixes(mask, key) {
            match i {
                0 | 1 => self.ipv4[i].remove(value as u32, len),
                _ => self.ipv6[i - 2].remove(value, len),
            }
        }
    }

    /// The prefixes that match field `i` of [`TRIES`].
    pub(super) fn lookup(&self, i: usize, key: &Key) -> Lengths {
        let value = key.get(TRIES[i]);
        match i {
            0 | 1 => self.ipv4[i].lookup(value as u32),
            _ => self.ipv6[i - 2].lookup(value),
        }
    }
}

/// Field, length and value of each prefix of a flow.
fn prefixes(mask: &Mask, key: &Key) -> impl Iterator<Item = (usize, u8, u128)> {
    let prefixes = mask.prefixes.into_iter().enumerate().filter(|(_, len)| *len > 0);
    prefixes.map(|(i, len)| (i, len, key.get(TRIES[i])))
}
