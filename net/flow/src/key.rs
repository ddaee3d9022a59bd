//! Keys: all fields of one packet in an array of words, and masks of the same shape.
//!
//! Words are ordered by the stages of a lookup: metadata, Ethernet, network, transport. A lookup that fails in an early
//! stage depends on no field of a later one.

use crate::field::Field;
use std::ops::Range;

/// Words of a key.
pub const WORDS: usize = 48;

/// Values of all fields, or a mask over them. An absent field is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) [u64; WORDS]);

impl Key {
    /// No field set.
    pub const ZERO: Self = Self([0; WORDS]);
    /// Words of each stage of a lookup.
    pub const STAGES: [Range<usize>; 4] = [0..28, 28..31, 31..41, 41..WORDS];
    /// Words of the fields of a tunnel, which the packet carries beside its bytes.
    pub const TUNNEL: Range<usize> = 2..14;
    /// Words of the fields that are read from the packet's headers.
    pub const PACKET: Range<usize> = 28..42;
    /// Words of [`Key::PACKET`] without addresses, EtherType and VLAN of the frame.
    pub(crate) const BELOW_ETHERNET: Range<usize> = 30..42;

    /// Value of a field.
    #[inline]
    pub fn get(&self, field: Field) -> u128 {
        let info = field.info();
        let word = usize::from(info.word);
        if info.bits == 128 {
            return u128::from(self.0[word]) << 64 | u128::from(self.0[word + 1]);
        }
        u128::from(self.0[word] >> info.shift) & field.full()
    }

    /// Sets a field. Bits of `value` beyond its width are ignored.
    #[inline]
    pub fn set(&mut self, field: Field, value: u128) {
        let (info, full) = (field.info(), field.full());
        let word = usize::from(info.word);
        if info.bits == 128 {
            (self.0[word], self.0[word + 1]) = ((value >> 64) as u64, value as u64);
            return;
        }
        self.0[word] = self.0[word] & !((full as u64) << info.shift) | ((value & full) as u64) << info.shift;
    }

    /// Sets a field of at most 64 bits that is 0 to `value`, which must fit.
    #[inline(always)]
    pub(crate) fn put(&mut self, field: Field, value: u64) {
        let info = field.info();
        debug_assert!(self.get(field) == 0 && u128::from(value) <= field.full());
        self.0[usize::from(info.word)] |= value << info.shift;
    }

    /// Sets the bits `mask` of a field to those of `value`.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        self.set(field, self.get(field) & !mask | value & mask);
    }

    /// Bitwise and.
    #[must_use]
    pub fn and(&self, mask: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }

    /// Bitwise or.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Words.
    #[inline]
    pub fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Fields that are not 0, in the order of [`Field::ALL`]. Fields that share bits appear all.
    pub fn fields(&self) -> impl Iterator<Item = (Field, u128)> {
        let values = Field::ALL.iter().map(|&field| (field, self.get(field)));
        values.filter(|(_, value)| *value != 0)
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::ZERO
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self.fields().map(|(field, value)| (field.info().name, format!("{value:#x}")));
        f.debug_map().entries(fields).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_and_read_without_changing_others() {
        for &field in Field::ALL {
            let mut key = Key([u64::MAX; WORDS]);
            key.set(field, 0);
            assert_eq!(key.get(field), 0);
            let cleared: u32 = key.0.iter().map(|word| word.count_zeros()).sum();
            assert_eq!(cleared, u32::from(field.info().bits), "{}", field.info().name);
            key.set(field, u128::MAX);
            assert_eq!(key, Key([u64::MAX; WORDS]));
        }
    }

    #[test]
    fn registers_overlap_as_documented() {
        let mut key = Key::ZERO;
        key.set(Field::Xxreg0, 0x0000_0001_0000_0002_0000_0003_0000_0004);
        assert_eq!((key.get(Field::Reg0), key.get(Field::Reg3)), (1, 4));
        assert_eq!((key.get(Field::Xreg0), key.get(Field::Xreg1)), (0x1_0000_0002, 0x3_0000_0004));
    }

    #[test]
    fn words_of_the_packet_have_no_other_fields() {
        let shared = |info: &crate::FieldInfo| Key::PACKET.contains(&info.word.into());
        let names: Vec<_> = Field::ALL.iter().map(|field| field.info()).filter(|info| shared(info)).collect();
        assert_eq!((names[0].name, names[names.len() - 1].name), ("eth_dst", "tcp_flags"));
        let (first, last) = (Field::EthDst as usize, Field::TcpFlags as usize);
        assert_eq!(names.len(), last - first + 1);
    }

    #[test]
    fn stages_cover_all_words() {
        let words: Vec<_> = Key::STAGES.into_iter().flatten().collect();
        assert_eq!(words, (0..WORDS).collect::<Vec<_>>());
    }
}
