//! Live migration: every page that a queue changes is marked in the log, and few others.

use crate::hand::{Guest, KINDS, WRITE, burst_of, frame, receive, send};
use mem::dirty_log::PAGE;
use mem::{DirtyLog, VolatileSlice};
use port::vhost::Features;
use proptest::prelude::*;
use ring::mock::{BUFFERS, RINGS};
use std::sync::Arc;

/// Content of all regions of a guest, by guest-physical address of the page.
fn pages(guest: &Guest) -> Vec<(u64, Vec<u8>)> {
    let regions = guest.mock.map.regions();
    let read = |seg: VolatileSlice| {
        let mut bytes = vec![0; seg.len()];
        // SAFETY: the mock keeps its map alive, and the vector has the length of the segment.
        unsafe { seg.copy_out::<mem::copy::Portable>(&mut bytes) };
        bytes
    };
    let page = |at: u64| {
        let region =
            regions.iter().find(|r| (r.spec().guest..r.spec().guest + r.spec().len).contains(&at))?;
        let len = PAGE.min(region.spec().guest + region.spec().len - at);
        Some((at, read(region.seg(at - region.spec().guest, len as u32)?)))
    };
    let starts =
        regions.iter().flat_map(|r| (r.spec().guest..r.spec().guest + r.spec().len).step_by(PAGE as usize));
    starts.filter_map(page).collect()
}

/// Asserts that the pages that differ are marked. Returns the number of marked pages of buffers.
fn check(guest: &Guest, before: &[(u64, Vec<u8>)], log: &DirtyLog) -> usize {
    let after = pages(guest);
    for ((at, old), (_, new)) in before.iter().zip(&after) {
        assert!(old == new || log.is_marked(*at), "the page at {at:#x} changed and is not marked");
    }
    after.iter().filter(|(at, _)| *at >= BUFFERS && log.is_marked(*at)).count()
}

/// A guest with a log of its memory.
fn guest(packed: bool, features: u64) -> (Guest, Arc<DirtyLog>) {
    let log = Arc::new(DirtyLog::heap((BUFFERS + (1 << 24)) / PAGE / 8));
    let mut guest = Guest::new(packed, Features::VERSION_1 | features);
    guest.log = Some(log.clone());
    (guest, log)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Plain buffers, chains and indirect tables of any length, with and without mergeable buffers.
    #[test]
    fn every_changed_page_is_marked(
        packed: bool,
        mergeable: bool,
        chains in prop::collection::vec((0u8..3, prop::collection::vec((0u64..0x1_f000, 1u32..3000), 1..4)), 1..20),
        lens in prop::collection::vec(60usize..3000, 1..8),
    ) {
        let features = if mergeable { Features::MRG_RXBUF } else { 0 };
        let (mut guest, log) = guest(packed, features);
        for (k, (form, buffers)) in chains.iter().enumerate() {
            match form {
                0 => guest.offer(&buffers[..1], WRITE),
                1 => guest.offer(buffers, WRITE),
                _ => guest.offer_indirect(0x3_8000 + 0x100 * k as u64, buffers, WRITE),
            }
        }
        let before = pages(&guest);
        let frames: Vec<_> = lens.iter().enumerate().map(|(seed, len)| frame(*len, seed + 1)).collect();
        let mut tx = guest.tx();
        let sent = send(tx.as_mut(), &burst_of(&frames)).map_or(0, |(sent, _)| sent);
        drop(tx.freeze());
        let marked = check(&guest, &before, &log);
        let bytes: usize = lens.iter().map(|len| len + 12).sum();
        // Each piece of a buffer may begin and end inside a page.
        prop_assert!(sent > 0 || marked == 0, "{marked} pages are marked without a packet");
        prop_assert!(marked <= bytes / PAGE as usize + 6 * chains.len() + 2, "{marked} pages for {bytes} bytes");
    }
}

#[test]
fn a_receive_queue_marks_its_used_ring_only() {
    for packed in KINDS {
        let (mut guest, log) = guest(packed, 0);
        guest.write(12, &frame(60, 1));
        guest.offer(&[(0, 72)], 0);
        let before = pages(&guest);
        let mut rx = guest.rx();
        let (burst, _) = receive(rx.as_mut()).unwrap();
        rx.complete(burst.buf_ids());
        drop(burst);
        drop(rx.freeze());
        assert_eq!((check(&guest, &before, &log), guest.used().len()), (0, 1));
        let rings = (RINGS..RINGS + 0x4_0000).step_by(PAGE as usize).filter(|at| log.is_marked(*at)).count();
        assert!((1..=3).contains(&rings), "{rings} pages");
    }
}
