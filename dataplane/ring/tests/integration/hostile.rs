//! Invalid ring content written by a hostile driver, and the fault of each. No case may crash, loop or access memory
//! outside the shared regions.

use mem::Translator;
use ring::device::{AvailBatch, DeviceRing, Packed, Split};
use ring::mock::{BUFFERS, Mock, REGION, Shape, USER};
use ring::{Direction, MAX_CHAIN, MAX_PIECES, RingFault, resolve};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const AVAIL: u16 = 1 << 7;
const SIZE: u16 = 8;
const TABLE: u64 = USER + BUFFERS + 0x8000;

fn shape(packed: bool, indirect: bool) -> Shape {
    Shape { packed, size: SIZE, in_order: false, event_idx: false, indirect }
}

/// The ring operations of a receive path: take a batch, then resolve each chain.
fn take<R: DeviceRing>(mock: &Mock, direction: Direction) -> Result<Vec<usize>, RingFault> {
    let mut translator = Translator::new(mock.map.clone());
    let mut ring = R::new(&mock.layout, &mock.map)?;
    let (mut batch, mut segs, mut lens) = (AvailBatch::default(), vec![], vec![]);
    loop {
        ring.pop_avail(64, &mut batch, &mut translator)?;
        if batch.len == 0 {
            return Ok(lens);
        }
        let plain = batch.len - usize::from(batch.has_chain());
        for k in 0..batch.len {
            segs.clear();
            let chain = if k < plain { &batch.heads[k..=k] } else { &batch.chain[..] };
            resolve(chain, direction, &mut translator, &mut segs)?;
            lens.push(segs.iter().map(|s| s.len()).sum());
        }
    }
}

fn split(indirect: bool, fill: impl Fn(&Mock)) -> Result<Vec<usize>, RingFault> {
    let mock = Mock::new(shape(false, indirect));
    fill(&mock);
    take::<Split>(&mock, Direction::Read)
}

fn packed(indirect: bool, fill: impl Fn(&Mock)) -> Result<Vec<usize>, RingFault> {
    let mock = Mock::new(shape(true, indirect));
    fill(&mock);
    take::<Packed>(&mock, Direction::Read)
}

/// Makes one head with this first descriptor available, on a split ring.
fn one(mock: &Mock, address: u64, len: u32, flags: u16, next: u16) {
    mock.split_descriptor(mock.layout.descriptors, 0, address, len, flags, next);
    mock.offer(0, 0);
    mock.available_index(1);
}

/// Makes one head with this descriptor available, on a packed ring.
fn one_packed(mock: &Mock, address: u64, len: u32, flags: u16) {
    mock.packed_descriptor(mock.layout.descriptors, 0, address, len, 5, flags | AVAIL);
}

#[test]
fn available_index_beyond_the_ring_is_a_named_fault() {
    let jump = RingFault::IndexJump { index: 9, used: 0, size: 8 };
    assert_eq!(split(false, |m| m.available_index(9)), Err(jump));
    let back = RingFault::IndexJump { index: 0xffff, used: 0, size: 8 };
    assert_eq!(split(false, |m| m.available_index(0xffff)), Err(back));
}

#[test]
fn head_or_next_outside_the_table_is_a_named_fault() {
    let head = split(false, |m| {
        m.offer(0, 8);
        m.available_index(1);
    });
    assert_eq!(head, Err(RingFault::NoSuchDescriptor(8)));
    let next = split(false, |m| one(m, BUFFERS, 64, NEXT, 0xffff));
    assert_eq!(next, Err(RingFault::NoSuchDescriptor(0xffff)));
}

#[test]
fn looping_chain_ends() {
    assert_eq!(split(false, |m| one(m, BUFFERS, 64, NEXT, 0)), Err(RingFault::ChainTooLong));
    let long = packed(false, |m| {
        for at in 0..SIZE {
            m.packed_descriptor(m.layout.descriptors, at, BUFFERS, 64, at, NEXT | AVAIL);
        }
    });
    assert_eq!(long, Err(RingFault::ChainTooLong));
}

/// A chain of `n` one-byte buffers in a queue of 2048 entries.
fn long<R: DeviceRing>(packed: bool, n: u16) -> Result<Vec<usize>, RingFault> {
    let mock = Mock::new(Shape { size: 2048, ..shape(packed, false) });
    for at in 0..n {
        let next = if at + 1 < n { NEXT } else { 0 };
        if packed {
            mock.packed_descriptor(mock.layout.descriptors, at, BUFFERS, 1, at, next | AVAIL);
        } else {
            mock.split_descriptor(mock.layout.descriptors, at, BUFFERS, 1, next, at + 1);
        }
    }
    mock.offer(0, 0);
    mock.available_index(1);
    take::<R>(&mock, Direction::Read)
}

#[test]
fn chain_length_is_limited_independent_of_queue_size() {
    let (most, pieces) = (MAX_CHAIN as u16, MAX_PIECES as u16);
    assert_eq!(long::<Split>(false, most + 1), Err(RingFault::ChainTooLong));
    assert_eq!(long::<Packed>(true, most + 1), Err(RingFault::ChainTooLong));
    for n in [most, pieces + 1] {
        assert_eq!(long::<Split>(false, n), Err(RingFault::TooManyPieces));
        assert_eq!(long::<Packed>(true, n), Err(RingFault::TooManyPieces));
    }
    assert_eq!(long::<Split>(false, pieces), Ok(vec![MAX_PIECES]));
    assert_eq!(long::<Packed>(true, pieces), Ok(vec![MAX_PIECES]));
}

#[test]
fn indirect_table_is_limited_to_the_chain_limit() {
    let len = 16 * (MAX_CHAIN as u32 + 1);
    let mock = Mock::new(Shape { size: 2048, ..shape(false, true) });
    one(&mock, BUFFERS, len, INDIRECT, 0);
    assert_eq!(take::<Split>(&mock, Direction::Read), Err(RingFault::IndirectLength(len)));
    let mock = Mock::new(Shape { size: 2048, ..shape(true, true) });
    one_packed(&mock, BUFFERS, len, INDIRECT);
    assert_eq!(take::<Packed>(&mock, Direction::Read), Err(RingFault::IndirectLength(len)));
}

#[test]
fn empty_buffers_count_as_descriptors() {
    let table = |n: u16| {
        move |m: &Mock| {
            (0..n).for_each(|at| m.split_descriptor(TABLE, at, BUFFERS, 0, NEXT, at + 1));
            m.split_descriptor(TABLE, n, BUFFERS, 60, 0, 0);
            one(m, TABLE - USER, 16 * (u32::from(n) + 1), INDIRECT, 0);
        }
    };
    assert_eq!(split(true, table(MAX_PIECES as u16 - 1)), Ok(vec![60]));
    assert_eq!(split(true, table(MAX_PIECES as u16)), Err(RingFault::TooManyPieces));
}

#[test]
fn incomplete_packed_chain_is_a_named_fault() {
    assert_eq!(packed(false, |m| one_packed(m, BUFFERS, 64, NEXT)), Err(RingFault::ChainUnfinished));
}

#[test]
fn a_packed_ring_cannot_be_lapped() {
    // Every entry is available in this lap and, rewritten, in the next: more than the ring size.
    let mock = Mock::new(Shape { size: 2, ..shape(true, false) });
    let mut translator = Translator::new(mock.map.clone());
    let mut ring = Packed::new(&mock.layout, &mock.map).unwrap();
    let mut batch = AvailBatch::default();
    for at in 0..2 {
        mock.packed_descriptor(mock.layout.descriptors, at, BUFFERS, 64, at, AVAIL);
    }
    ring.pop_avail(64, &mut batch, &mut translator).unwrap();
    assert_eq!(batch.len, 2);
    for at in 0..2 {
        mock.packed_descriptor(mock.layout.descriptors, at, BUFFERS, 64, at, 1 << 15);
    }
    assert_eq!(ring.pop_avail(64, &mut batch, &mut translator), Err(RingFault::Lapped));
}

/// The driver makes entries available again before the device has published them as used.
#[test]
fn a_packed_ring_cannot_be_lapped_before_its_entries_are_published() {
    for size in [1, 2, 3, 5, 8] {
        let mock = Mock::new(Shape { size, ..shape(true, false) });
        let mut translator = Translator::new(mock.map.clone());
        let mut ring = Packed::new(&mock.layout, &mock.map).unwrap();
        let mut batch = AvailBatch::default();
        let offer = |from: u16, to: u16, flags| {
            let table = mock.layout.descriptors;
            (from..to).for_each(|at| mock.packed_descriptor(table, at, BUFFERS, 64, at, flags));
        };
        let lap = |ring: &mut Packed, batch: &AvailBatch| {
            (0..batch.len).for_each(|k| ring.push_used(batch.buf_id(k), 0));
        };
        // Advances half a lap, so that the following batches wrap.
        offer(0, size / 2, AVAIL);
        ring.pop_avail(64, &mut batch, &mut translator).unwrap();
        lap(&mut ring, &batch);
        ring.flush_used();
        offer(size / 2, size, AVAIL);
        offer(0, size / 2, 1 << 15);
        ring.pop_avail(64, &mut batch, &mut translator).unwrap();
        assert_eq!(batch.len, usize::from(size));
        lap(&mut ring, &batch);
        offer(size / 2, size, 1 << 15);
        assert_eq!(ring.pop_avail(64, &mut batch, &mut translator), Err(RingFault::Lapped), "{size}");
        // Used entries are still published.
        ring.flush_used();
        let at = u32::from(size / 2);
        assert_eq!(ring.base(), at | at << 16, "{size}: a lap further");
    }
}

#[test]
fn buffers_outside_memory_are_a_named_fault() {
    for (address, len) in [(0, 64), (BUFFERS + 2 * REGION, 1), (u64::MAX - 3, 64), (BUFFERS, u32::MAX)] {
        let outside = Err(RingFault::Outside { address, len });
        assert_eq!(split(false, |m| one(m, address, len, 0, 0)), outside, "{address:#x} {len}");
        assert_eq!(packed(false, |m| one_packed(m, address, len, 0)), outside, "{address:#x} {len}");
    }
}

#[test]
fn buffer_across_regions_is_complete() {
    let edge = BUFFERS + REGION - 10;
    assert_eq!(split(false, |m| one(m, edge, 64, 0, 0)), Ok(vec![64]));
    assert_eq!(packed(false, |m| one_packed(m, edge, 64, 0)), Ok(vec![64]));
}

#[test]
fn wrong_write_flag_is_a_named_fault() {
    assert_eq!(split(false, |m| one(m, BUFFERS, 64, WRITE, 0)), Err(RingFault::WriteOnRead));
    assert_eq!(packed(false, |m| one_packed(m, BUFFERS, 64, WRITE)), Err(RingFault::WriteOnRead));
    let mock = Mock::new(shape(false, false));
    one(&mock, BUFFERS, 64, 0, 0);
    assert_eq!(take::<Split>(&mock, Direction::Write), Err(RingFault::ReadOnWrite));
}

#[test]
fn empty_buffers_are_skipped() {
    assert_eq!(split(false, |m| one(m, BUFFERS, 0, 0, 0)), Ok(vec![0]));
}

#[test]
fn an_indirect_descriptor_needs_the_feature() {
    let not = Err(RingFault::IndirectNotNegotiated);
    assert_eq!(split(false, |m| one(m, BUFFERS, 16, INDIRECT, 0)), not);
    assert_eq!(packed(false, |m| one_packed(m, BUFFERS, 16, INDIRECT)), not);
}

#[test]
fn indirect_tables_of_invalid_size_are_a_named_fault() {
    for len in [0, 1, 15, 17, 16 * 1025, u32::MAX] {
        let wrong = Err(RingFault::IndirectLength(len));
        assert_eq!(split(true, |m| one(m, BUFFERS, len, INDIRECT, 0)), wrong, "{len}");
        assert_eq!(packed(true, |m| one_packed(m, BUFFERS, len, INDIRECT)), wrong, "{len}");
    }
}

#[test]
fn nested_looping_and_chained_indirect_tables_are_named_faults() {
    let with_next = Err(RingFault::IndirectWithNext);
    assert_eq!(split(true, |m| one(m, BUFFERS, 16, INDIRECT | NEXT, 1)), with_next);
    assert_eq!(packed(true, |m| one_packed(m, BUFFERS, 16, INDIRECT | NEXT)), with_next);
    let nested = |m: &Mock| m.split_descriptor(TABLE, 0, BUFFERS, 16, INDIRECT, 0);
    let fault = split(true, |m| {
        nested(m);
        one(m, TABLE - USER, 16, INDIRECT, 0);
    });
    assert_eq!(fault, Err(RingFault::IndirectNested));
    let looping = split(true, |m| {
        m.split_descriptor(TABLE, 0, BUFFERS, 16, NEXT, 1);
        m.split_descriptor(TABLE, 1, BUFFERS, 16, NEXT, 0);
        one(m, TABLE - USER, 32, INDIRECT, 0);
    });
    assert_eq!(looping, Err(RingFault::ChainTooLong));
    let beyond = split(true, |m| {
        m.split_descriptor(TABLE, 0, BUFFERS, 16, NEXT, 2);
        one(m, TABLE - USER, 32, INDIRECT, 0);
    });
    assert_eq!(beyond, Err(RingFault::NoSuchDescriptor(2)));
}

/// This crate's driver writes table entries in sequence; other drivers may link them differently.
#[test]
fn an_indirect_table_is_followed_by_its_next_fields() {
    let sum = split(true, |m| {
        m.split_descriptor(TABLE, 0, BUFFERS, 100, NEXT, 2);
        m.split_descriptor(TABLE, 2, BUFFERS + 0x1000, 20, 0, 0);
        one(m, TABLE - USER, 48, INDIRECT, 0);
    });
    assert_eq!(sum, Ok(vec![120]));
}

/// DPDK's driver leaves WRITE in the entries of tables of its transmit queues.
#[test]
fn write_flags_in_a_packed_table_of_a_readable_buffer_are_ignored() {
    let sum = packed(true, |m| {
        for (entry, len) in [(0, 12), (1, 78)] {
            m.poke64(TABLE + 16 * entry, BUFFERS + 64 * entry);
            m.poke64(TABLE + 16 * entry + 8, len | u64::from(WRITE) << 48);
        }
        one_packed(m, TABLE - USER, 32, INDIRECT);
    });
    assert_eq!(sum, Ok(vec![90]));
    let linked = split(true, |m| {
        m.split_descriptor(TABLE, 0, BUFFERS, 12, WRITE, 0);
        one(m, TABLE - USER, 16, INDIRECT, 0);
    });
    assert_eq!(linked, Err(RingFault::WriteOnRead));
}

#[test]
fn indirect_table_across_regions_is_read_completely() {
    // The table's second entry spans two regions.
    let table = USER + BUFFERS + REGION - 24;
    let sum = split(true, |m| {
        m.split_descriptor(table, 0, BUFFERS, 7, NEXT, 1);
        m.poke64(table + 16, BUFFERS + 64);
        m.poke64(table + 24, 9);
        one(m, table - USER, 32, INDIRECT, 0);
    });
    assert_eq!(sum, Ok(vec![16]));
}

#[test]
fn size_base_and_areas_are_validated_on_creation() {
    let with = |change: &dyn Fn(&mut ring::Layout)| {
        let mut mock = Mock::new(shape(false, false));
        change(&mut mock.layout);
        take::<Split>(&mock, Direction::Read)
    };
    assert_eq!(with(&|l| l.size = 0), Err(RingFault::Size(0)));
    assert_eq!(with(&|l| l.size = 7), Err(RingFault::Size(7)));
    assert_eq!(with(&|l| l.size = 0xffff), Err(RingFault::Size(0xffff)));
    assert_eq!(with(&|l| l.base = 0x1_0000), Err(RingFault::Base(0x1_0000)));
    assert_eq!(with(&|l| l.descriptors += 8), Err(RingFault::Area("descriptor")));
    assert_eq!(with(&|l| l.driver += 1), Err(RingFault::Area("available")));
    assert_eq!(with(&|l| l.device = 0), Err(RingFault::Area("used")));
    let mut mock = Mock::new(shape(true, false));
    mock.layout.base = 0x8000_0008;
    assert_eq!(take::<Packed>(&mock, Direction::Read), Err(RingFault::Base(0x8000_0008)));
    mock.layout.base = 0x0009_8000;
    assert_eq!(take::<Packed>(&mock, Direction::Read), Err(RingFault::Base(0x0009_8000)));
}
