//! Stored values: bytes of the arena, kept only for pages with at least one stored value.

use crate::memory::Address;

const PAGE: u64 = 4096;

/// The arena's bytes; bytes never stored are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pages: Vec<Option<Box<[u8; PAGE as usize]>>>,
}

impl Values {
    pub(super) fn new(bytes: u64) -> Values {
        Values { pages: vec![None; bytes.div_ceil(PAGE) as usize + 1] }
    }

    /// Loads `bytes` bytes (at most 8) as a little-endian number.
    pub(super) fn load(&self, at: Address, bytes: u64) -> u64 {
        (0..bytes).rev().fold(0, |value, n| value << 8 | u64::from(self.byte(at + n)))
    }

    pub(super) fn store(&mut self, at: Address, bytes: u64, value: u64) {
        for (n, byte) in value.to_le_bytes().iter().take(bytes as usize).enumerate() {
            let at = at + n as u64;
            let page = self.pages[(at / PAGE) as usize].get_or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = *byte;
        }
    }

    fn byte(&self, at: Address) -> u8 {
        self.pages[(at / PAGE) as usize].as_ref().map_or(0, |page| page[(at % PAGE) as usize])
    }
}
