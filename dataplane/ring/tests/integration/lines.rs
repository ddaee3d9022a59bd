//! Packed descriptors are validated four per cache line where possible. For every line position and descriptor kind,
//! the device must take the same buffers as one-by-one processing.

use mem::Translator;
use ring::device::{AvailBatch, DeviceRing, Packed};
use ring::mock::{BUFFERS, Mock, Shape};
use ring::{BufId, Layout, RingFault};

const NEXT: u16 = 1;
const INDIRECT: u16 = 4;
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Wrap counter bit of a base.
const WRAP: u32 = 1 << 15;

/// Position of the `k`-th entry since creation in a ring of `size`: index and wrap counter, as in a base.
fn place(k: u32, size: u32) -> u32 {
    let wrap = if (k / size).is_multiple_of(2) { WRAP } else { 0 };
    (k % size) | wrap
}

/// A ring starting at position `start`, counted over both laps, and a hand-written driver.
struct Ring {
    mock: Mock,
    device: Packed,
    translator: Translator,
    batch: AvailBatch,
    size: u32,
    start: u32,
}

impl Ring {
    fn new(size: u16, start: u32, in_order: bool) -> Self {
        let shape = Shape { packed: true, size, in_order, event_idx: true, indirect: true };
        let mut mock = Mock::new(shape);
        let size = u32::from(size);
        let place = place(start, size);
        mock.layout = Layout { base: place | place << 16, ..mock.layout };
        let device = Packed::new(&mock.layout, &mock.map).unwrap();
        let translator = Translator::new(mock.map.clone());
        let ring = Self { mock, device, translator, batch: AvailBatch::default(), size, start };
        // Stale descriptors of the previous lap.
        (0..size.min(80)).for_each(|k| ring.write(k, 0, ring.used_before(k)));
        ring
    }

    /// Flags of the `k`-th entry from the start if it is available.
    fn available(&self, k: u32) -> u16 {
        if place(self.start + k, self.size) & WRAP != 0 { AVAIL } else { USED }
    }

    /// Flags of the `k`-th entry from the start if it was used on the previous lap.
    fn used_before(&self, k: u32) -> u16 {
        if self.available(k) == AVAIL { 0 } else { AVAIL | USED }
    }

    fn write(&self, k: u32, id: u16, flags: u16) {
        let at = ((self.start + k) % self.size) as u16;
        self.mock.packed_descriptor(
            self.mock.layout.descriptors,
            at,
            BUFFERS + u64::from(id) * 4,
            4,
            id,
            flags,
        );
    }

    fn offer(&self, k: u32, more: u16) {
        self.write(k, k as u16, self.available(k) | more);
    }

    fn take(&mut self, max: usize) -> Result<Vec<BufId>, RingFault> {
        self.device.pop_avail(max, &mut self.batch, &mut self.translator)?;
        for head in &self.batch.heads[..self.batch.plain()] {
            assert_eq!(head.address, BUFFERS + u64::from(head.link) * 4, "both words are of one descriptor");
        }
        Ok((0..self.batch.len).map(|k| self.batch.buf_id(k)).collect())
    }
}

fn ids(buf_ids: &[BufId]) -> Vec<u16> {
    buf_ids.iter().map(|t| t.id).collect()
}

/// Sizes at and around the line size, and start positions on both laps.
fn rings(each: impl Fn(u16, u32)) {
    // Miri is about a thousand times slower.
    if cfg!(miri) {
        return [(1, 1), (3, 2), (5, 3), (8, 6)].into_iter().for_each(|(size, start)| each(size, start));
    }
    for size in [1, 2, 3, 4, 5, 7, 8, 9, 13] {
        (0..2 * u32::from(size)).for_each(|start| each(size, start));
    }
    for start in [0, 1, 32_765, 32_766, 32_767, 32_768, 65_533, 65_535] {
        each(32_768, start);
    }
}

#[test]
fn buffers_are_taken_once_in_order_from_any_position() {
    rings(|size, start| {
        for max in [1, 3, 4, 5, 64] {
            let mut ring = Ring::new(size, start, false);
            assert_eq!(ring.take(max), Ok(vec![]), "nothing is available, {size} {start}");
            let offered = u32::from(size).min(70);
            (0..offered).for_each(|k| ring.offer(k, 0));
            let mut all = vec![];
            loop {
                let taken = ring.take(max).unwrap();
                assert!(taken.len() <= max.min(64));
                if taken.is_empty() {
                    break;
                }
                all.extend(taken);
            }
            assert!(ids(&all).into_iter().map(u32::from).eq(0..offered), "{size} {start} {max}");
            for buf_id in all {
                ring.device.push_used(buf_id, 4);
            }
            ring.device.flush_used();
            let end = place(start + offered, size.into());
            assert_eq!(ring.device.base(), end | end << 16, "{size} {start} {max}");
        }
    });
}

#[test]
fn rewound_buffers_are_taken_again() {
    rings(|size, start| {
        let offered = usize::from(size).min(64);
        for back in 0..=offered {
            let mut ring = Ring::new(size, start, false);
            (0..offered as u32).for_each(|k| ring.offer(k, 0));
            let first = ring.take(64).unwrap();
            ring.device.rewind(&first[offered - back..]);
            let again = ring.take(64).unwrap();
            assert_eq!(again, first[offered - back..], "{size} {start}");
            assert_eq!(ring.device.base() & 0x7fff, start % u32::from(size), "nothing was used");
        }
    });
}

#[test]
fn line_ends_before_the_first_unavailable_descriptor() {
    rings(|size, start| {
        for missing in 0..u32::from(size).min(9) {
            let mut ring = Ring::new(size, start, false);
            (0..u32::from(size).min(9)).filter(|k| *k != missing).for_each(|k| ring.offer(k, 0));
            assert_eq!(ring.take(64).unwrap().len() as u32, missing, "{size} {start}");
            ring.offer(missing, 0);
            let rest = ring.take(64).unwrap();
            assert!(ids(&rest).into_iter().map(u32::from).eq(missing..u32::from(size).min(9)));
        }
    });
}

#[test]
fn chain_is_found_anywhere_in_a_line() {
    rings(|size, start| {
        let offered = u32::from(size).min(9);
        for head in 0..offered.saturating_sub(1) {
            for in_order in [false, true] {
                let mut ring = Ring::new(size, start, in_order);
                (0..offered).for_each(|k| ring.offer(k, if k == head { NEXT } else { 0 }));
                let first = ring.take(64).unwrap();
                // The chain of two returns under the ID in its last descriptor.
                let chain = BufId { id: head as u16 + 1, slots: 2 };
                assert_eq!((first.len() as u32, first.last()), (head + 1, Some(&chain)), "{size} {start}");
                assert_eq!(ring.batch.chain.len(), 2);
                let rest = ring.take(64).unwrap();
                assert!(ids(&rest).into_iter().map(u32::from).eq(head + 2..offered), "{size} {start}");
                ring.device.push_read(&[first, rest].concat());
                ring.device.flush_used();
                let end = place(start + offered, size.into());
                assert_eq!(ring.device.base(), end | end << 16, "{size} {start}");
            }
        }
    });
}

#[test]
fn table_or_broken_chain_in_a_line_is_a_named_fault() {
    for k in 0..8 {
        let mut ring = Ring::new(8, 0, false);
        (0..8).for_each(|k| ring.offer(k, 0));
        ring.offer(k, INDIRECT);
        assert_eq!(ring.take(64), Err(RingFault::IndirectLength(4)), "{k}");
        let mut ring = Ring::new(8, 0, false);
        (0..8).for_each(|k| ring.offer(k, 0));
        ring.offer(k, NEXT);
        if k < 7 {
            ring.write(k + 1, 0, ring.used_before(k + 1));
        }
        assert_eq!(ring.take(64), Err(RingFault::ChainUnfinished), "{k}");
    }
}

/// The driver makes the whole next lap available while some entries are not yet used.
#[test]
fn line_made_available_before_use_is_a_named_fault() {
    for size in [4, 5, 8, 9, 64] {
        for kept in 1..=u32::from(size).min(8) {
            let mut ring = Ring::new(size, 0, false);
            (0..u32::from(size)).for_each(|k| ring.offer(k, 0));
            let taken = ring.take(64).unwrap();
            let used = taken.len() - kept as usize;
            for buf_id in &taken[..used] {
                ring.device.push_used(*buf_id, 4);
            }
            ring.device.flush_used();
            // The whole next lap, although its last entries are not yet used.
            (0..u32::from(size)).for_each(|k| ring.offer(u32::from(size) + k, 0));
            assert_eq!(ring.take(64), Err(RingFault::Lapped), "{size} {kept}");
        }
    }
}
