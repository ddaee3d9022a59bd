//! Hostile guest rings, tested through the queues of the fast path: every frame is passed on intact or counted under
//! one drop reason, every buffer is returned, and a protocol violation is a named fault.

use crate::hand::{Guest, INDIRECT, KINDS, NEXT, WRITE, burst_of, frame, receive, send};
use port::vhost::Features;
use port::{DropReason, PortFault, QueueState};
use ring::RingFault;
use ring::mock::{BUFFERS, REGION};

const MODERN: u64 = Features::VERSION_1;
const MERGEABLE: u64 = Features::VERSION_1 | Features::MRG_RXBUF;

#[test]
fn every_length_is_forwarded_or_counted_and_its_buffer_returned() {
    let lengths = [0, 1, 9, 10, 11, 12, 13, 21, 22, 24, 25, 26, 76, 65_562, 65_563, 0x2_0000];
    for packed in KINDS {
        for features in [0, MODERN] {
            let mut guest = Guest::new(packed, features);
            let header = guest.header() as u32;
            for len in lengths {
                guest.offer(&[(0, len)], 0);
            }
            let mut rx = guest.rx();
            let (burst, stats) = receive(rx.as_mut()).unwrap();
            let frames = lengths.map(|len| len.saturating_sub(header));
            let short = frames.iter().filter(|&&len| len < 14).count() as u64;
            let long = frames.iter().filter(|&&len| len > 65_550).count() as u64;
            assert_eq!(stats.drops[DropReason::TooShort as usize], short);
            assert_eq!(stats.drops[DropReason::TooLong as usize], long);
            assert_eq!(stats.packets, lengths.len() as u64);
            assert_eq!(burst.len() as u64, stats.packets - short - long);
            rx.complete(burst.buf_ids());
            let back: Vec<_> = (0..lengths.len()).map(|n| (n, 0)).collect();
            assert_eq!(guest.used(), back, "packed {packed}, header {header}");
        }
    }
}

#[test]
fn lengths_and_addresses_outside_the_memory_stop_the_queue() {
    let edge = 2 * REGION;
    for packed in KINDS {
        for (at, len) in [(0, u32::MAX), (edge, 64), (edge - 63, 64), (0u64.wrapping_sub(1), 64)] {
            let outside = RingFault::Outside { address: BUFFERS.wrapping_add(at), len };
            let mut guest = Guest::new(packed, MODERN);
            guest.offer(&[(at, len)], 0);
            let fault = receive(guest.rx().as_mut()).unwrap_err();
            assert_eq!(fault, PortFault::Ring(outside), "{at:#x} {len}");
            let mut guest = Guest::new(packed, MODERN);
            guest.offer(&[(at, len)], WRITE);
            let fault = send(guest.tx().as_mut(), &burst_of(&[frame(60, 1)])).unwrap_err();
            assert_eq!(fault, PortFault::Ring(outside), "{at:#x} {len}");
        }
    }
}

#[test]
fn descriptor_of_wrong_direction_stops_the_queue() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MODERN);
        guest.offer(&[(0, 64)], WRITE);
        assert_eq!(receive(guest.rx().as_mut()).unwrap_err(), PortFault::Ring(RingFault::WriteOnRead));
        for buffers in [&[(0, 2048)][..], &[(0, 12), (64, 2048)]] {
            let mut guest = Guest::new(packed, MODERN);
            guest.offer(buffers, 0);
            let fault = send(guest.tx().as_mut(), &burst_of(&[frame(60, 1)])).unwrap_err();
            assert_eq!(fault, PortFault::Ring(RingFault::ReadOnWrite));
        }
    }
}

#[test]
fn buffers_received_before_a_fault_are_returned() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MODERN);
        guest.offer(&[(0, 100)], 0);
        guest.offer(&[(0, 100)], WRITE);
        let (mut burst, mut stats) = (port::Burst::new(), port::BurstStats::default());
        burst.begin(0);
        let mut rx = guest.rx();
        assert!(rx.rx(&mut burst, &mut stats).is_err());
        assert_eq!((burst.len(), stats.packets), (1, 1));
        rx.complete(burst.buf_ids());
        assert_eq!(guest.used(), [(0, 0)]);
    }
}

/// Layouts of a header of 12 or 10 bytes and a frame of 200 bytes.
fn layouts(header: u32) -> Vec<Vec<(u64, u32)>> {
    let all = header + 200;
    vec![
        vec![(0, all)],
        vec![(0, header), (4096, 200)],
        vec![(0, 3), (100, header - 3), (4096, 1), (5000, 0), (6000, 199)],
        vec![(0, header + 5), (4096, 195)],
        (0..all).map(|k| (u64::from(k) * 9, 1)).collect(),
        vec![(REGION - 20, all)],
        vec![(0, header), (REGION - 1, 200)],
    ]
}

fn write_over(guest: &Guest, buffers: &[(u64, u32)], bytes: &[u8]) {
    let mut left = bytes;
    for &(at, len) in buffers {
        let (here, rest) = left.split_at(len as usize);
        guest.write(at, here);
        left = rest;
    }
}

#[test]
fn frames_in_any_layout_arrive_whole() {
    for packed in KINDS {
        for features in [0, MODERN, MERGEABLE] {
            for (indirect, n) in [false, true].into_iter().flat_map(|i| (0..7).map(move |n| (i, n))) {
                let mut guest = Guest::new(packed, features);
                let header = guest.header();
                let (layout, sent) = (layouts(header as u32).remove(n), frame(200, n));
                write_over(&guest, &layout, &[vec![0xff; header], sent.clone()].concat());
                if indirect {
                    guest.offer_indirect(0x1_0000, &layout, 0);
                } else {
                    guest.offer(&layout, 0);
                }
                let mut rx = guest.rx();
                let (burst, stats) = receive(rx.as_mut()).unwrap();
                assert_eq!((burst.len(), stats.bytes), (1, 200), "layout {n}");
                let mut to = Guest::new(false, MODERN);
                to.offer(&[(0, 4096)], WRITE);
                assert_eq!(send(to.tx().as_mut(), &burst).unwrap().0, 1);
                assert_eq!(to.dump()[12..212], sent, "layout {n}, packed {packed}, indirect {indirect}");
                rx.complete(burst.buf_ids());
                assert_eq!(guest.used(), [(0, 0)]);
            }
        }
    }
}

#[test]
fn frames_are_written_into_any_layout() {
    for packed in KINDS {
        for features in [0, MODERN, MERGEABLE] {
            for (indirect, n) in [false, true].into_iter().flat_map(|i| (0..7).map(move |n| (i, n))) {
                let mut guest = Guest::new(packed, features);
                let header = guest.header();
                let layout = layouts(header as u32).remove(n);
                if indirect {
                    guest.offer_indirect(0x1_0000, &layout, WRITE);
                } else {
                    guest.offer(&layout, WRITE);
                }
                let (done, stats) = send(guest.tx().as_mut(), &burst_of(&[frame(200, n)])).unwrap();
                assert_eq!((done, stats.packets, stats.bytes), (1, 1, 200));
                assert_eq!(guest.used(), [(0, header as u32 + 200)]);
                let all = guest.dump();
                let got: Vec<u8> = layout
                    .iter()
                    .flat_map(|&(at, len)| all[at as usize..][..len as usize].to_vec())
                    .collect();
                let one = if header == 12 { &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0][..] } else { &[0; 10] };
                assert_eq!((&got[..header], &got[header..]), (one, &frame(200, n)[..]), "layout {n}");
            }
        }
    }
}

#[test]
fn frame_spans_mergeable_buffers() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        let sizes = [1, 10, 5, 60, 1000, 40];
        for (k, &size) in sizes.iter().enumerate() {
            guest.offer(&[(k as u64 * 4096, size)], WRITE);
        }
        let (done, _) = send(guest.tx().as_mut(), &burst_of(&[frame(100, 1), frame(20, 2)])).unwrap();
        assert_eq!(done, 2);
        // 112 bytes in the first five buffers, 32 in the last.
        assert_eq!(guest.used(), [(0, 1), (1, 10), (2, 5), (3, 60), (4, 36), (5, 32)]);
        let all = guest.dump();
        let got: Vec<u8> = sizes[..5]
            .iter()
            .enumerate()
            .flat_map(|(k, &size)| all[k * 4096..][..size as usize].to_vec())
            .collect();
        assert_eq!(got[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0]);
        assert_eq!(got[12..112], frame(100, 1));
        assert_eq!(all[5 * 4096 + 10], 1, "the second needs one buffer");
    }
}

#[test]
fn frame_without_enough_buffers_leaves_them_to_the_next() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        (0..3).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        let mut tx = guest.tx();
        let (done, stats) = send(tx.as_mut(), &burst_of(&[frame(1000, 1)])).unwrap();
        assert_eq!((done, stats.packets), (0, 0), "the caller waits or drops");
        assert_eq!(guest.used(), []);
        let (done, _) = send(tx.as_mut(), &burst_of(&[frame(60, 2), frame(60, 3)])).unwrap();
        assert_eq!((done, guest.used()), (2, vec![(0, 72), (1, 72)]));
        assert_eq!(guest.dump()[10], 1, "one buffer, although three were gathered before");
        (3..15).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        let (done, _) = send(tx.as_mut(), &burst_of(&[frame(1000, 4)])).unwrap();
        assert_eq!((done, guest.used().len()), (1, 2 + 11));
        assert_eq!(guest.dump()[2 * 4096 + 10], 11);
    }
}

#[test]
fn small_buffer_drops_only_the_large_frame_without_mrg_rxbuf() {
    for packed in KINDS {
        for buffers in [&[(0, 100)][..], &[(0, 12), (64, 88)]] {
            let mut guest = Guest::new(packed, MODERN);
            guest.offer(buffers, WRITE);
            guest.offer(&[(8192, 4096)], WRITE);
            let frames = [frame(1000, 1), frame(60, 2), frame(1000, 3)];
            let (done, stats) = send(guest.tx().as_mut(), &burst_of(&frames)).unwrap();
            assert_eq!((done, stats.packets), (3, 2));
            assert_eq!(stats.drops[DropReason::BufferTooSmall as usize], 1);
            assert_eq!(guest.used(), [(0, 72), (1, 1012)]);
        }
    }
}

#[test]
fn buffer_without_space_stops_the_queue() {
    for packed in KINDS {
        for features in [MODERN, MERGEABLE] {
            let mut guest = Guest::new(packed, features);
            guest.offer(&[(0, 0)], WRITE);
            let fault = send(guest.tx().as_mut(), &burst_of(&[frame(60, 1)])).unwrap_err();
            assert_eq!(fault, PortFault::Ring(RingFault::NoRoom));
        }
    }
}

#[test]
fn full_queue_accepts_frames_that_fit_and_counts_the_rest() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MODERN);
        (0..3).for_each(|k| guest.offer(&[(k * 4096, 2048)], WRITE));
        let frames: Vec<_> = (0..5).map(|n| frame(60, n)).collect();
        let (done, stats) = send(guest.tx().as_mut(), &burst_of(&frames)).unwrap();
        assert_eq!((done, stats.packets, stats.lost), (3, 3, 0));
    }
}

#[test]
fn frame_with_too_many_descriptors_is_dropped_by_name() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MODERN);
        let table: Vec<(u64, u32)> = (0..300).map(|k| (0x1_8000 + k, 1)).collect();
        guest.offer_indirect(0x1_0000, &table, 0);
        guest.offer(&[(0, 100)], 0);
        let mut rx = guest.rx();
        let (burst, stats) = receive(rx.as_mut()).unwrap();
        assert_eq!((burst.len(), stats.packets), (1, 2));
        assert_eq!(stats.drops[DropReason::TooManyPieces as usize], 1);
        assert!(stats.work >= 300, "every descriptor that was read is paid for: {}", stats.work);
        rx.complete(burst.buf_ids());
        assert_eq!(guest.used(), [(0, 0), (1, 0)]);
    }
}

#[test]
fn tiny_buffers_are_gathered_once_for_a_dropped_frame() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        (0..100).for_each(|k| guest.offer(&[(k * 8, 1)], WRITE));
        let mut tx = guest.tx();
        let frames: Vec<_> = (0..64).map(|n| frame(1000, n)).collect();
        let (done, first) = send(tx.as_mut(), &burst_of(&frames)).unwrap();
        assert_eq!((done, first.packets), (64, 0));
        assert_eq!(first.drops[DropReason::BufferTooSmall as usize], 64);
        // 64 buffers of one segment each are gathered and rewound once, not 64 times.
        assert!((64..=64 * 4).contains(&(first.work / port::work::PIECE)), "{}", first.work);
        let (_, again) = send(tx.as_mut(), &burst_of(&frames)).unwrap();
        assert_eq!(again.work, 0, "nothing has changed, so nothing is gathered");
        assert_eq!(again.drops[DropReason::BufferTooSmall as usize], 64);
        assert_eq!(tx.room(1514), 1, "a frame that no buffers hold comes to be counted");
        assert!(tx.room(0) > 0);
        let (done, _) = send(tx.as_mut(), &burst_of(&[frame(20, 1)])).unwrap();
        assert_eq!((done, guest.used().len()), (1, 32), "frames are sent until the buffers are used up");
    }
}

#[test]
fn frame_retries_when_buffers_are_added() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        (0..3).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        let mut tx = guest.tx();
        let (done, first) = send(tx.as_mut(), &burst_of(&[frame(1000, 1)])).unwrap();
        assert_eq!((done, first.work > 0), (0, true));
        let (done, again) = send(tx.as_mut(), &burst_of(&[frame(1000, 1)])).unwrap();
        assert_eq!((done, again.work), (0, 0), "nothing has changed, so nothing is gathered");
        (3..15).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        let (done, _) = send(tx.as_mut(), &burst_of(&[frame(1000, 1)])).unwrap();
        assert_eq!((done, guest.used().len()), (1, 11));
    }
}

#[test]
fn the_only_buffer_is_found_if_it_came_after_a_frame_found_none() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        let mut tx = guest.tx();
        assert_eq!(send(tx.as_mut(), &burst_of(&[frame(60, 1)])).unwrap().0, 0, "no buffers");
        guest.offer(&[(0, 12), (4096, 100)], WRITE);
        // Takes the chain ahead of need.
        send(tx.as_mut(), &burst_of(&[])).unwrap();
        let (done, stats) = send(tx.as_mut(), &burst_of(&[frame(60, 1)])).unwrap();
        assert_eq!((done, stats.packets, guest.used().len()), (1, 1, 1));
    }
}

#[test]
fn room_is_reported_only_if_the_buffers_fit_the_frame() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        let mut tx = guest.tx();
        assert_eq!(tx.room(60), 0, "no buffers");
        (0..3).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        assert_eq!((tx.room(60), tx.room(300 - guest.header()), tx.room(1000)), (3, 1, 0));
        assert_eq!((tx.room(1000), tx.room(200)), (0, 1), "the gathered buffers are available again");
        (3..15).for_each(|k| guest.offer(&[(k * 4096, 100)], WRITE));
        assert_eq!(tx.room(1000), 1);
        let (done, _) = send(tx.as_mut(), &burst_of(&[frame(1000, 1)])).unwrap();
        assert_eq!((done, guest.used().len(), tx.room(60)), (1, 11, 4));
    }
}

#[test]
fn long_chains_do_not_occupy_a_worker() {
    let mut guest = Guest::new(false, MODERN);
    let chain: Vec<(u64, u32)> = (0..256).map(|_| (0, 1)).collect();
    guest.offer(&chain, 0);
    // The same chain repeatedly, as a driver that violates the protocol can offer it.
    for slot in 1..64 {
        guest.mock.offer(slot, 0);
    }
    guest.mock.available_index(64);
    let mut rx = guest.rx();
    let (burst, _) = receive(rx.as_mut()).unwrap();
    assert!(burst.len() <= 2, "{} chains of 256 descriptors in one call", burst.len());
    rx.complete(burst.buf_ids());
    let base = burst.len() as u32;
    assert_eq!(rx.freeze(), QueueState::Ring { base }, "the rest is for the next call");
}

#[test]
fn contradicting_flags_stop_the_queue() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MODERN);
        guest.offer(&[(0, 64)], INDIRECT | NEXT);
        let fault = receive(guest.rx().as_mut()).unwrap_err();
        assert_eq!(fault, PortFault::Ring(RingFault::IndirectWithNext));
    }
}
