//! The driver side of a ring, controlled by a script.
//!
//! [`Script`] decodes the bytes, [`Driver`] writes the decoded values into a mock's memory: descriptors, tables,
//! indices and raw words, often valid ones and sometimes not. Changing the meaning of a byte changes the meaning of
//! every corpus entry.

use ring::mock::{BUFFERS, Mock, REGION, RINGS, Shape, USER};

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// Interesting lengths.
const LENGTHS: [u32; 16] =
    [0, 1, 9, 10, 12, 13, 16, 26, 64, 128, 1514, 4096, 65_562, 0x2_0000, 0x4_0000, u32::MAX];

/// Script bytes, consumed from the front.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    /// The next byte, or zero at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number, mostly below `n`.
    pub(crate) fn below(&mut self, n: u16) -> u16 {
        match self.byte() {
            251.. => self.word(),
            small => u16::from(small) % n.max(1),
        }
    }

    pub(crate) fn long(&mut self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    pub(crate) fn len(&mut self) -> u32 {
        match self.byte() {
            240.. => u32::from(self.word()) << (self.byte() & 15),
            known => LENGTHS[usize::from(known) % LENGTHS.len()],
        }
    }

    /// An address, mostly in a buffer, often near an edge; sometimes in a ring, sometimes invalid.
    pub(crate) fn address(&mut self) -> u64 {
        let near = u64::from(self.byte());
        match self.byte() {
            at @ 0..=127 => BUFFERS + u64::from(at) * 2048 + (near & 15),
            128..=159 => BUFFERS + REGION - near,
            160..=175 => BUFFERS + 2 * REGION - near,
            176..=207 => RINGS + near * 16,
            208..=223 => BUFFERS.wrapping_sub(near),
            224..=239 => u64::MAX - near,
            _ => self.long(),
        }
    }

    /// Flags, mostly valid ones.
    pub(crate) fn flags(&mut self, usual: u16) -> u16 {
        match self.byte() {
            0..=95 => usual,
            96..=159 => usual | NEXT,
            160..=207 => usual | INDIRECT,
            208..=223 => usual ^ WRITE,
            224..=239 => usual | NEXT | INDIRECT,
            _ => self.word(),
        }
    }

    pub(crate) fn shape(&mut self, packed: bool) -> Shape {
        let (bits, n) = (self.byte(), self.byte());
        let size = if packed { u16::from(n % 67) + 1 } else { 1 << (n % 8) };
        Shape { packed, size, in_order: bits & 1 != 0, event_idx: bits & 2 != 0, indirect: bits & 4 == 0 }
    }
}

/// A mock and the position of its driver.
pub(crate) struct Driver {
    pub(crate) mock: Mock,
    pub(crate) shape: Shape,
    /// Buffer flags that depend on the direction only, without the lap's flags.
    pub(crate) way: u16,
    /// Next position of the driver: index and, for packed rings, the wrap counter.
    pub(crate) next: (u16, bool),
}

impl Driver {
    pub(crate) fn new(mock: Mock, shape: Shape, way: u16) -> Self {
        Self { mock, shape, way, next: (0, true) }
    }

    /// Resets the position for a new ring.
    pub(crate) fn begin_again(&mut self) {
        self.next = (0, true);
    }

    /// Valid flags for the next descriptor.
    pub(crate) fn usual(&self) -> u16 {
        match (self.shape.packed, self.next.1) {
            (false, _) => self.way,
            (true, true) => self.way | AVAIL,
            (true, false) => self.way | USED,
        }
    }

    /// Writes a descriptor; `link` is the next entry on a split ring and the identifier on a packed one.
    pub(crate) fn write(&self, table: u64, at: u16, (address, len): (u64, u32), flags: u16, link: u16) {
        if self.shape.packed {
            self.mock.packed_descriptor(table, at, address, len, link, flags);
        } else {
            self.mock.split_descriptor(table, at, address, len, flags, link);
        }
    }

    /// Makes `head` available and advances the position.
    pub(crate) fn advance(&mut self, head: u16) {
        if !self.shape.packed {
            self.mock.offer(self.next.0 % self.shape.size, head);
            self.next.0 = self.next.0.wrapping_add(1);
            self.mock.available_index(self.next.0);
        } else if self.next.0 + 1 == self.shape.size {
            self.next = (0, !self.next.1);
        } else {
            self.next.0 += 1;
        }
    }

    /// Writes an entry of an indirect table in a buffer; `link` returns the entry's link from its index.
    pub(crate) fn table<'a>(
        &self,
        script: &mut Script<'a>,
        usual: u16,
        link: impl FnOnce(&mut Script<'a>, u16) -> u16,
    ) {
        let (at, table) = (script.below(16) % 128, USER.wrapping_add(script.address() & !7));
        if self.mock.map.by_user(table, 128 * 16).is_none() {
            return;
        }
        let (place, flags) = ((script.address(), script.len()), script.flags(usual));
        self.write(table, at, place, flags, link(script, at));
    }

    /// Writes arbitrary eight bytes of the ring areas.
    pub(crate) fn poke(&self, script: &mut Script<'_>) {
        let words = self.mock.map.regions()[0].spec().len / 8;
        let at = USER + RINGS + u64::from(script.word()) % words * 8;
        self.mock.poke64(at, script.long());
    }
}
