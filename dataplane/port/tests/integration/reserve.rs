//! Frames written directly to reserved slots of a transmit queue arrive intact and in order of reservation, for every
//! ring type, with one worker and with several.

use crate::hand::frame;
use crate::joined::{Joined, KINDS, contents, drain, options};
use mem::copy::Portable;
use port::memif::{self, Memif};
use port::vhost_user::fake::FakeEngine;
use port::{BurstStats, DropReason, Offload, PortControl, RxQueue, Segmentation, Slots, TxQueue, vhost_user};
use std::time::{Duration, Instant};

/// Short frames, frames in several buffers, and one that no ring of [`options`] can hold.
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

/// Reserves, writes and commits. Returns the frames sent, and statistics.
fn send(tx: &mut dyn TxQueue, lengths: &[u32], from: usize) -> (Vec<Vec<u8>>, BurstStats) {
    let (mut slots, mut stats) = (Slots::new(), BurstStats::default());
    assert_eq!(tx.reserve(lengths, &mut slots, &mut stats), Ok(lengths.len()));
    let frames = write(&mut slots, from);
    assert_eq!((tx.commit(&mut slots, &mut stats), slots.len()), (Ok(()), 0));
    (frames, stats)
}

/// Sender and receiver: from the virtio-user port (0) or to it (1).
fn each_way(Joined { front, back, .. }: &mut Joined, way: usize) -> (&mut dyn TxQueue, &mut dyn RxQueue) {
    if way == 0 { (front.tx(0), back.rx(0)) } else { (back.tx(0), front.rx(0)) }
}

#[test]
fn reserved_frames_arrive_intact_and_in_order() {
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
fn frames_leave_in_reservation_order() {
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

/// A UDP datagram with the pseudo-header sum in its checksum field.
fn datagram(len: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 26, 0x12, 0x34]);
    frame.extend((42..len).map(|i| i as u8));
    frame
}

/// The datagram with its complete checksum (RFC 768) over `frame[34..]`.
fn finished(mut frame: Vec<u8>) -> Vec<u8> {
    let mut sum: u32 = 0;
    for word in frame[34..].chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[40..42].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

/// Received frames, and the number of frames dropped as too short.
fn arrived(rx: &mut dyn RxQueue) -> (Vec<Vec<u8>>, u64) {
    let (mut frames, mut short) = (vec![], 0);
    loop {
        let (burst, stats) = crate::hand::receive(rx).unwrap();
        if stats.packets == 0 {
            return (frames, short);
        }
        assert!(!burst.has_offloads());
        short += stats.drops[DropReason::TooShort as usize];
        frames.extend(contents(&burst));
        rx.complete(burst.buf_ids());
    }
}

/// Writes frames with offloads that the receiver does not support, in one buffer and in several.
fn write_with_offloads(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue) {
    let (sum, lengths) = (Offload::with_checksum(34, 6), [101, 5000, 5000, 60, 101]);
    let segments = sum.with_segments(Segmentation::Udp, 1000, false);
    let offloads = [sum, segments, sum, Offload::NONE, segments];
    for lap in 0..200 {
        let (mut slots, mut stats) = (Slots::new(), BurstStats::default());
        assert_eq!(tx.reserve(&lengths, &mut slots, &mut stats), Ok(5), "lap {lap}");
        let frames = lengths.map(|len| datagram(len as usize));
        for (k, (frame, offload)) in frames.iter().zip(offloads).enumerate() {
            let (head, rest) = frame.split_at(42);
            slots.write::<Portable>(k, offload, &[head, rest]);
        }
        tx.commit(&mut slots, &mut stats).unwrap();
        assert_eq!((stats.packets, stats.lost, stats.drops[DropReason::BadOffload as usize]), (3, 2, 2));
        let (frames, short) = arrived(rx);
        assert!(short == 0 || short == 2, "a refused frame is sent without bytes, or not at all");
        assert!(frames == [finished(datagram(101)), finished(datagram(5000)), datagram(60)], "lap {lap}");
    }
}

#[test]
fn receiver_without_offloads_gets_completed_frames() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let front = port::virtio_user::Options { offloads: false, ..options(kind) };
        let mut joined = Joined::new(&dir.path().join("s"), front, vhost_user::Options::default());
        for way in [0, 1] {
            let (tx, rx) = each_way(&mut joined, way);
            write_with_offloads(tx, rx);
            write_with_offloads(&mut *tx.fork(), rx);
        }
    }
}

/// Two memif ports, connected in one process.
fn memifs(path: &std::path::Path) -> [(Memif, FakeEngine); 2] {
    let (mut now, options) = (Instant::now(), memif::Options::default());
    let ports = [Memif::listen(path, options).unwrap(), Memif::connect(path, options, now).unwrap()];
    let mut sides = ports.map(|port| (port, FakeEngine::default()));
    for _ in 0..300 {
        now += Duration::from_millis(1);
        for (port, engine) in &mut sides {
            port.handle(now, engine);
        }
    }
    sides
}

#[test]
fn memif_peer_gets_completed_frames() {
    let dir = tempfile::tempdir().unwrap();
    let [(_server, mut one), (_client, mut other)] = memifs(&dir.path().join("s"));
    for _ in 0..2 {
        let (tx, rx) = (one.tx.get_mut(&0).unwrap(), other.rx.get_mut(&0).unwrap());
        write_with_offloads(&mut **tx, &mut **rx);
        std::mem::swap(&mut one, &mut other);
    }
}

/// Dropped slots release their buffers.
fn drop_slots(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue) {
    let (mut other, mut stats) = (tx.fork(), BurstStats::default());
    for lap in 0..600 {
        let (mut dropped, mut slots) = (Slots::new(), Slots::new());
        assert_eq!(tx.reserve(&[60, 5000], &mut dropped, &mut stats), Ok(2), "lap {lap}");
        write(&mut dropped, lap);
        assert_eq!(other.reserve(&[100], &mut slots, &mut stats), Ok(1), "lap {lap}");
        let wanted = write(&mut slots, lap);
        other.commit(&mut slots, &mut stats).unwrap();
        assert!(arrived(rx).0.is_empty(), "the older reservation is open");
        drop(dropped);
        assert!(arrived(rx).0 == wanted, "lap {lap}");
        other.reap().unwrap();
    }
}

#[test]
fn dropped_reservation_blocks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for way in [0, 1] {
            let (tx, rx) = each_way(&mut joined, way);
            drop_slots(tx, rx);
        }
    }
    let [(_server, mut one), (_client, mut other)] = memifs(&dir.path().join("m"));
    for _ in 0..2 {
        let (tx, rx) = (one.tx.get_mut(&0).unwrap(), other.rx.get_mut(&0).unwrap());
        drop_slots(&mut **tx, &mut **rx);
        std::mem::swap(&mut one, &mut other);
    }
}
