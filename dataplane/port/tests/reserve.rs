//! Frames that are written straight into a transmit queue's memory arrive whole and in the order in which their places were
//! reserved, over every kind of ring, for one worker and for several.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod hand;
mod joined;

use hand::frame;
use joined::{Joined, KINDS, drain, options};
use mem::copy::Portable;
use port::{BurstStats, DropReason, Offload, RxQueue, Slots, TxQueue, vhost_user};

/// Short ones, ones that need several buffers, and one that no ring of [`options`] holds.
const LENGTHS: [u32; 6] = [60, 1514, 9000, 2_000_000, 64, 2048];

/// Writes frames `from..` into the slots, each in three parts.
fn write(slots: &mut Slots, from: usize) -> Vec<Vec<u8>> {
    (0..slots.len())
        .map(|k| {
            let bytes = frame(slots.frame_len(k), from + k);
            let (head, rest) = bytes.split_at(20);
            let (middle, rest) = rest.split_at(rest.len() / 3);
            slots.write::<Portable>(k, Offload::NONE, &[head, middle, rest]);
            bytes
        })
        .collect()
}

/// Reserves, writes and commits. Returns what was sent.
fn send(tx: &mut dyn TxQueue, lengths: &[u32], from: usize) -> (Vec<Vec<u8>>, BurstStats) {
    let (mut slots, mut stats) = (Slots::new(), BurstStats::default());
    assert_eq!(tx.reserve(lengths, &mut slots, &mut stats), Ok(lengths.len()));
    let frames = write(&mut slots, from);
    assert_eq!((tx.commit(&mut slots, &mut stats), slots.len()), (Ok(()), 0));
    (frames, stats)
}

/// The sender and the receiver: from the virtio-user port, or to it.
fn each_way(Joined { front, back, .. }: &mut Joined, way: usize) -> (&mut dyn TxQueue, &mut dyn RxQueue) {
    if way == 0 { (front.tx(0), back.rx(0)) } else { (back.tx(0), front.rx(0)) }
}

#[test]
fn frames_that_are_written_in_place_arrive_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for lap in 0..60 {
            for way in [0, 1] {
                let (tx, rx) = each_way(&mut joined, way);
                let (frames, stats) = send(tx, &LENGTHS, lap);
                let lost = stats.drops[DropReason::BufferTooSmall as usize];
                assert_eq!((frames.len(), stats.packets, lost), (5, 5, 1), "{kind:?}, lap {lap}");
                assert!(drain(rx) == frames, "{kind:?}, way {way}, lap {lap}");
                tx.reap().unwrap();
                assert!(
                    each_way(&mut joined, way).0.room(2_000_000) > 0,
                    "a frame for no ring comes to be counted"
                );
            }
        }
    }
}

#[test]
fn the_order_is_that_of_the_reservations_whoever_commits_first() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for way in [0, 1] {
            let (tx, rx) = each_way(&mut joined, way);
            let mut handles = [tx.fork(), tx.fork(), tx.fork()];
            for lap in 0..30 {
                let mut stats = BurstStats::default();
                let mut slots = [(); 3].map(|()| Slots::new());
                let mut wanted = vec![];
                for (k, (tx, slots)) in handles.iter_mut().zip(&mut slots).enumerate() {
                    assert_eq!(tx.reserve(&[100, 9000, 60], slots, &mut stats), Ok(3));
                    wanted.extend(write(slots, 10 * k + lap));
                }
                for k in [(lap + 2) % 3, lap % 3, (lap + 1) % 3] {
                    handles[k].commit(&mut slots[k], &mut stats).unwrap();
                }
                assert_eq!((stats.packets, stats.bytes), (9, 3 * 9160));
                assert!(drain(rx) == wanted, "{kind:?}, way {way}, lap {lap}");
            }
        }
    }
}

#[test]
fn a_full_ring_has_no_room() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for way in [0, 1] {
            let (tx, rx) = each_way(&mut joined, way);
            let (mut slots, mut stats, mut sent) = (Slots::new(), BurstStats::default(), 0);
            while tx.room(60) > 0 {
                let done = tx.reserve(&[60; 10], &mut slots, &mut stats).unwrap();
                assert!(done > 0, "{kind:?}, way {way}");
                write(&mut slots, sent);
                tx.commit(&mut slots, &mut stats).unwrap();
                sent += done;
            }
            for len in [60, 0] {
                assert_eq!(
                    (tx.reserve(&[len], &mut slots, &mut stats), slots.len()),
                    (Ok(0), 0),
                    "{kind:?}, {len}"
                );
            }
            assert_eq!(drain(rx).len(), sent, "{kind:?}, way {way}");
            tx.reap().unwrap();
            assert!(tx.room(60) > 0, "{kind:?}, way {way}");
        }
    }
}
