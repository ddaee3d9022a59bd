//! The front end changes its memory while packets flow.

use crate::hand::{Guest, KINDS, WRITE, burst_of, frame, receive, send};
use mem::{GuestMemory, MemTable, Region, RegionSpec};
use port::vhost::Features;
use port::{Burst, PortFault, QueueState, RxQueue, TxQueue};
use ring::RingFault;
use ring::mock::{BUFFERS, REGION, USER};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::{Arc, Weak};

const MERGEABLE: u64 = Features::VERSION_1 | Features::MRG_RXBUF;
const NEW: u64 = BUFFERS + 0x100_0000;

/// Adds a region to those of the guest.
fn add(guest: &Guest) -> Weak<Region> {
    let region = Arc::new(Region::heap(NEW, NEW + USER, REGION));
    let seen = Arc::downgrade(&region);
    guest.memory.replace(guest.memory.load().with(region).unwrap());
    seen
}

fn remove(guest: &Guest, at: u64) {
    drop(guest.memory.replace(guest.memory.load().without(at, at + USER, REGION).unwrap()));
}

#[test]
fn queues_continue_after_a_memory_table_change() {
    for packed in KINDS {
        let (mut from, mut to) = (Guest::new(packed, MERGEABLE), Guest::new(packed, MERGEABLE));
        let (mut rx, mut tx) = (from.rx(), to.tx());
        // A cache of mixed buffers: plain ones, then one across a region edge, then plain ones again.
        for k in 0..8 {
            to.offer(&[(if k == 4 { REGION - 8 } else { k * 64 }, 40)], WRITE);
        }
        for n in 0..4 {
            let whole = [vec![0; 12], frame(60, n)].concat();
            from.write(0, &whole);
            from.offer(&[(0, 72)], 0);
            let (burst, _) = receive(rx.as_mut()).unwrap();
            assert_eq!(send(tx.as_mut(), &burst).unwrap().0, 1);
            rx.complete(burst.buf_ids());
            assert_eq!((from.used().len(), to.used().len()), (n + 1, 2 * n + 2));
            if n % 2 == 0 {
                add(&from);
                add(&to);
            } else {
                remove(&from, NEW);
                remove(&to, NEW);
            }
            rx.refresh().unwrap();
            tx.refresh().unwrap();
        }
    }
}

#[test]
fn buffer_is_used_once_its_memory_is_added() {
    for packed in KINDS {
        let mut guest = Guest::new(packed, MERGEABLE);
        let (mut rx, burst) = (guest.rx(), burst_of(&[frame(60, 0)]));
        add(&guest);
        rx.refresh().unwrap();
        guest.offer(&[(NEW - BUFFERS, 100)], 0);
        assert_eq!(receive(rx.as_mut()).unwrap().0.len(), 1);
        let mut guest = Guest::new(packed, MERGEABLE);
        let mut tx = guest.tx();
        add(&guest);
        tx.refresh().unwrap();
        guest.offer(&[(NEW - BUFFERS, 100)], WRITE);
        assert_eq!(send(tx.as_mut(), &burst).unwrap().0, 1);
    }
}

#[test]
fn removing_memory_of_cached_buffers_is_a_named_fault() {
    let outside = PortFault::Ring(RingFault::Outside { address: NEW, len: 2048 });
    for packed in KINDS {
        for forked in [false, true] {
            let mut guest = Guest::new(packed, MERGEABLE);
            add(&guest);
            guest.offer(&[(0, 2048)], WRITE);
            guest.offer(&[(NEW - BUFFERS, 2048)], WRITE);
            let mut tx = guest.tx();
            let mut other = forked.then(|| tx.fork());
            assert_eq!(send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap().0, 1);
            remove(&guest, NEW);
            let fault = other.as_mut().map_or_else(|| tx.refresh(), |other| other.refresh());
            assert_eq!(fault.unwrap_err(), outside);
        }
    }
}

/// Another worker may send before the control thread receives the fault, after the old memory was removed.
#[test]
fn failed_takeover_of_one_worker_stops_writes_of_all() {
    let outside = PortFault::Ring(RingFault::Outside { address: NEW, len: 30 });
    for packed in KINDS {
        // The last frame takes a plain buffer, or needs several, one of which was gathered before.
        for features in [MERGEABLE, Features::VERSION_1] {
            let mut guest = Guest::new(packed, features);
            let gone = add(&guest).upgrade().unwrap();
            for buffer in [(0, 256), (NEW - BUFFERS, 30), (4096, 256), (8192, 256)] {
                guest.offer(&[buffer], WRITE);
            }
            let mut tx = guest.tx();
            let mut other = tx.fork();
            assert_eq!(send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap().0, 1);
            if features == Features::VERSION_1 {
                let (_, stats) = send(tx.as_mut(), &burst_of(&[frame(60, 1)])).unwrap();
                assert_eq!(stats.lost, 1, "the buffer is too small, and stays for a smaller frame");
            }
            remove(&guest, NEW);
            assert_eq!(tx.refresh().unwrap_err(), outside);
            assert_eq!(send(other.as_mut(), &burst_of(&[frame(60, 2)])).unwrap_err(), outside);
            assert_eq!(other.refresh(), Ok(()), "the new map is the core's");
            assert_eq!(Arc::strong_count(&gone), 1, "no reference to the removed region is left");
            assert_eq!(guest.used(), [(0, 72)]);
            let QueueState::Ring { base } = other.freeze() else { panic!("a ring has a base") };
            assert_eq!(base & 0x7fff, 1, "the next queue takes unwritten buffers again");
        }
    }
}

/// Backs the first region of buffers by a file.
fn on_file(guest: &mut Guest) -> OwnedFd {
    let file = memfd_create("swap-maps", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, REGION).unwrap();
    let mut regions = guest.mock.map.regions().to_vec();
    regions[1] = part(&file, 0, REGION);
    guest.mock.map = Arc::new(GuestMemory::new(regions.clone()).unwrap());
    guest.memory = Arc::new(MemTable::new(GuestMemory::new(regions).unwrap()));
    file
}

fn part(file: &OwnedFd, from: u64, to: u64) -> Arc<Region> {
    let guest = BUFFERS + from;
    let spec = RegionSpec { guest, user: guest + USER, len: to - from, offset: from };
    Arc::new(Region::map(file.as_fd(), spec).unwrap())
}

/// Maps the same bytes at the same addresses as two regions that meet at `edge`.
fn cut(guest: &Guest, file: &OwnedFd, edge: u64) {
    let rest = guest.memory.load().without(BUFFERS, BUFFERS + USER, REGION).unwrap();
    let halves = rest.with(part(file, 0, edge)).unwrap().with(part(file, edge, REGION)).unwrap();
    guest.memory.replace(halves);
}

#[test]
fn cached_buffer_across_a_new_region_edge_is_retaken() {
    const EDGE: u64 = 0x1000;
    // The third buffer crosses the edge. A plain buffer and a chain follow it, which are cached as well.
    let buffers: [&[(u64, u32)]; 5] =
        [&[(0, 256)], &[(256, 256)], &[(EDGE - 30, 256)], &[(0x2000, 256)], &[(0x3000, 40), (0x3100, 216)]];
    for packed in KINDS {
        for forked in [false, true] {
            let mut guest = Guest::new(packed, Features::VERSION_1);
            let file = on_file(&mut guest);
            for buffer in buffers {
                guest.offer(buffer, WRITE);
            }
            let mut tx = guest.tx();
            let mut other = forked.then(|| tx.fork());
            let tx = other.as_mut().unwrap_or(&mut tx);
            assert_eq!(send(tx.as_mut(), &burst_of(&[frame(200, 0)])).unwrap().0, 1);
            cut(&guest, &file, EDGE);
            tx.refresh().unwrap();
            let frames: Vec<_> = (1..6).map(|n| frame(200, n)).collect();
            assert_eq!(send(tx.as_mut(), &burst_of(&frames)).unwrap().0, 4, "four buffers were left");
            assert_eq!(guest.used(), (0..5).map(|k| (k, 212)).collect::<Vec<_>>(), "each once, in order");
            let all = guest.dump();
            let (over, last) = (EDGE as usize - 30 + 12, 0x3100);
            assert_eq!(all[over..][..200], frames[1], "written over the edge");
            assert_eq!(all[last..][..172], frames[3][28..], "the chain behind it");
        }
    }
}

#[test]
fn removed_rings_are_a_named_fault() {
    for packed in KINDS {
        let guest = Guest::new(packed, MERGEABLE);
        let (mut rx, mut tx) = (guest.rx(), guest.tx());
        guest.memory.replace(GuestMemory::new(vec![]).unwrap());
        assert_eq!(rx.refresh().unwrap_err(), PortFault::Ring(RingFault::Area("descriptor")));
        assert_eq!(tx.refresh().unwrap_err(), PortFault::Ring(RingFault::Area("descriptor")));
    }
}

/// Queues of each type that have accessed the new region, and the burst that holds a packet of it.
struct Holders {
    rx: Box<dyn RxQueue>,
    tx: Vec<Box<dyn TxQueue>>,
    burst: Burst,
}

fn touch(guest: &mut Guest, to: &mut Guest, forks: usize) -> Holders {
    let (mut rx, mut tx) = (guest.rx(), vec![to.tx()]);
    for _ in 0..forks {
        let another = tx[0].fork();
        tx.push(another);
    }
    guest.offer(&[(NEW - BUFFERS, 100)], 0);
    to.offer(&[(NEW - BUFFERS, 2048)], WRITE);
    to.offer(&[(0, 2048)], WRITE);
    let (burst, _) = receive(rx.as_mut()).unwrap();
    for tx in &mut tx {
        send(tx.as_mut(), &burst).unwrap();
    }
    rx.complete(burst.buf_ids());
    Holders { rx, tx, burst }
}

#[test]
fn memory_is_released_with_its_last_user() {
    for packed in KINDS {
        for forks in [0, 1, 2] {
            let (mut from, mut to) = (Guest::new(packed, MERGEABLE), Guest::new(packed, MERGEABLE));
            let (of_from, of_to) = (add(&from), add(&to));
            let mut holders = touch(&mut from, &mut to, forks);
            remove(&from, NEW);
            remove(&to, NEW);
            let alive = || (of_from.strong_count() > 0, of_to.strong_count() > 0);
            assert_eq!(alive(), (true, true), "queues hold the old maps");
            holders.rx.refresh().unwrap();
            assert!(alive().0, "the burst still holds a packet of it");
            holders.burst.unpin();
            assert!(!alive().0, "the old map is released");
            for n in 0..holders.tx.len() {
                assert!(alive().1, "{} of {} handles have refreshed", n, holders.tx.len());
                holders.tx[n].refresh().unwrap();
            }
            assert!(!alive().1);
        }
    }
}

#[test]
fn concurrent_refreshes_both_get_the_new_table() {
    for _ in 0..200 {
        let guest = Guest::new(false, MERGEABLE);
        let seen = add(&guest);
        let mut queues: Vec<_> = (0..4).map(|_| guest.rx()).collect();
        remove(&guest, NEW);
        std::thread::scope(|s| {
            for queue in &mut queues {
                s.spawn(|| queue.refresh().unwrap());
            }
        });
        assert_eq!(seen.strong_count(), 0, "the old map is still referenced");
    }
}
