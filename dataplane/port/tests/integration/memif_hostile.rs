//! A hostile memif peer: its own port stops with a named fault, and no access exceeds the shared memory.

mod bench;

use crate::hand::{burst_of, frame, receive, send};
use bench::*;
use port::memif::RingFault;
use port::work::PIECE;
use port::{DropReason, PortControl, PortFault, PortState};
use rustix::fd::AsFd;
use rustix::fs::ftruncate;
use std::path::Path;
use std::time::Duration;

#[test]
fn handshake_matches_other_implementations() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    bench.run();
    assert_eq!(bench.received_types(), [2, 1, 1, 1, 1, 7], "HELLO, four times ACK, CONNECTED");
    bench.describe(0, 0, 0, 0, 100, BUFFERS as u32);
    bench.poke(BUFFERS, &frame(100, 3));
    bench.head(0, 1);
    let rx = bench.engine.rx.get_mut(&0).unwrap();
    let (burst, _) = receive(rx.as_mut()).unwrap();
    assert_eq!(crate::hand::read(&burst, 0), frame(100, 3));
    rx.complete(burst.buf_ids());
    assert_eq!(bench.tail(0), 1);
    bench.describe(BACK, 0, 0, 0, 2048, BUFFERS as u32 + 4096);
    bench.head(BACK, 1);
    let tx = bench.engine.tx.get_mut(&0).unwrap();
    assert_eq!(send(tx.as_mut(), &burst_of(&[frame(77, 1)])).unwrap().0, 1);
    assert_eq!((bench.tail(BACK), bench.peek(BUFFERS + 4096, 77)), (1, frame(77, 1)));
    assert_eq!(bench.peek(BACK + 128, 8), [0, 0, 0, 0, 77, 0, 0, 0]);
    bench.send_message(&message(8, &[&0u32.to_ne_bytes(), b"bye"]), &[]);
    let left = PortState::Waiting(Some(PortFault::Disconnected("peer")));
    assert_eq!(bench.port.status().state, left, "a disconnect is no fault");
    assert!(bench.engine.rx.is_empty() && bench.engine.tx.is_empty());
}

#[test]
fn invalid_message_closes_the_connection_with_its_reason() {
    type Steps = fn(&mut Bench);
    let cases: [(&str, Steps); 19] = [
        ("unexpected CONNECT: expected INIT", |b| b.send_message(&connect(), &[])),
        ("unexpected ACK: expected INIT", |b| b.send_message(&message(1, &[]), &[])),
        ("a message of the unknown type 99", |b| b.send_message(&message(99, &[]), &[])),
        ("a message of 5 bytes", |b| b.send_message(&[3, 0, 0, 0, 0], &[])),
        ("a message of 129 bytes", |b| b.send_message(&[3; 400], &[])),
        ("it connects without a ring", |b| {
            b.share();
            b.send_message(&connect(), &[]);
        }),
        ("regions are numbered", |b| {
            b.share();
            b.send_message(&region(2, REGION), &[event().as_fd()]);
        }),
        ("without its one file", |b| {
            b.send_message(&init(), &[]);
            b.send_message(&region(0, REGION), &[]);
        }),
        ("without its one file", |b| {
            b.send_message(&init(), &[]);
            b.send_message(&region(0, REGION), &[event().as_fd(), event().as_fd()]);
        }),
        ("more than 8 descriptors", |b| {
            b.send_message(&init(), &[]);
            let events: Vec<_> = (0..9).map(|_| event()).collect();
            let events: Vec<_> = events.iter().map(AsFd::as_fd).collect();
            b.send_message(&region(0, REGION), &events);
        }),
        ("the file has 0x100000 bytes", |b| {
            let memory = rustix::io::dup(&b.memory).unwrap();
            b.send_message(&init(), &[]);
            b.send_message(&region(0, REGION + 1), &[memory.as_fd()]);
        }),
        ("region 0 is refused: the region is empty", |b| {
            let memory = rustix::io::dup(&b.memory).unwrap();
            b.send_message(&init(), &[]);
            b.send_message(&region(0, 0), &[memory.as_fd()]);
        }),
        ("its file system is remote or in user space", |b| {
            b.send_message(&init(), &[]);
            b.send_message(&region(0, 4096), &[std::fs::File::open("/proc/self/status").unwrap().as_fd()]);
        }),
        ("rings are numbered in order", |b| {
            b.share();
            b.send_message(&ring(1, 1, 0, 0, 7), &[event().as_fd()]);
        }),
        ("it is longer than 2^14", |b| {
            b.share();
            b.send_message(&ring(1, 0, 0, 0, 15), &[event().as_fd()]);
        }),
        ("without its one event descriptor", |b| {
            b.share();
            b.send_message(&ring(1, 0, 0, 0, 7), &[]);
        }),
        ("not an eventfd", |b| {
            b.share();
            let memory = rustix::io::dup(&b.memory).unwrap();
            b.send_message(&ring(1, 0, 0, 0, 7), &[memory.as_fd()]);
        }),
        ("more than 1 queues", |b| {
            b.share();
            b.send_message(&ring(1, 0, 0, 0, 7), &[event().as_fd()]);
            b.send_message(&ring(1, 1, 0, 0, 7), &[event().as_fd()]);
        }),
        ("unexpected INIT: expected DISCONNECT", |b| {
            b.run();
            b.send_message(&init(), &[]);
        }),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (expected, steps) in cases {
        let mut bench = Bench::new(dir.path());
        steps(&mut bench);
        let fault = bench.fault().to_string();
        assert!(fault.contains(expected), "{fault}, not {expected}");
        assert!(bench.engine.rx.is_empty() && bench.engine.tx.is_empty());
        let types = bench.received_types();
        assert!(types.ends_with(&[8, 0]), "DISCONNECT, then the end: {types:?}");
    }
}

#[test]
fn rings_outside_memory_or_without_cookie_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    for (region, offset, log2) in [
        (0, 8, 7),
        (0, REGION as u32 - 128, 7),
        (0, u32::MAX - 15, 7),
        (1, 0, 7),
        (u16::MAX, 0, 7),
        (0, 0x4000, 7),
    ] {
        let mut bench = Bench::new(dir.path());
        bench.share();
        bench.send_message(&ring(1, 0, region, offset, log2), &[event().as_fd()]);
        bench.send_message(&connect(), &[]);
        let fault = bench.fault();
        let named = matches!(fault, PortFault::PeerRing(RingFault::Place))
            || fault.to_string().contains("there is no ring at offset");
        assert!(named, "{fault}");
    }
}

#[test]
fn silent_client_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    bench.send_message(&init(), &[]);
    let deadline = bench.port.deadline().unwrap();
    assert!(deadline > bench.now && deadline <= bench.now + Duration::from_secs(11));
    bench.now = deadline;
    bench.turn();
    assert_eq!(bench.fault(), PortFault::Peer("no CONNECT within 10 s".into()));
    let _second = dial(&bench.path);
    bench.now += Duration::from_secs(3);
    bench.turn();
    assert_eq!(bench.port.status().connects, 2, "the next client is accepted");
}

#[test]
fn second_client_is_disconnected_while_the_first_is_connected() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    bench.run();
    let second = dial(&bench.path);
    bench.turn();
    assert_eq!(rustix::io::read(&second, &mut [0; 128]), Ok(0), "the socket is closed");
    assert_eq!(bench.engine.rx.len(), 1);
}

/// Result of the receive queue after `change` has modified its ring.
fn received(change: impl FnOnce(&Bench)) -> Result<Vec<usize>, PortFault> {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    bench.run();
    change(&bench);
    let (burst, stats) = receive(bench.engine.rx.get_mut(&0).unwrap().as_mut())?;
    assert_eq!(stats.packets, burst.len() as u64 + stats.lost);
    Ok((0..burst.len()).map(|i| burst.frame_len(i)).collect())
}

#[test]
fn invalid_sent_descriptors_are_named_faults() {
    let faults = [
        received(|b| b.head(0, SIZE + 1)),
        received(|b| b.head(0, u16::MAX)),
        received(|b| {
            b.describe(0, 0, 0, 1, 64, 0);
            b.head(0, 1);
        }),
        received(|b| {
            b.describe(0, 0, 0, 0, 64, REGION as u32 - 63);
            b.head(0, 1);
        }),
        received(|b| {
            b.describe(0, 0, 0, 0, u32::MAX, u32::MAX);
            b.head(0, 1);
        }),
        received(|b| {
            b.describe(0, 0, 1, 0, 64, 0);
            b.head(0, 1);
        }),
        received(|b| {
            (0..128).for_each(|slot| b.describe(0, slot, 1, 0, 1, 0));
            b.head(0, 128);
        }),
    ];
    let expected = [
        RingFault::Index { theirs: SIZE + 1, ours: 0, size: SIZE },
        RingFault::Index { theirs: u16::MAX, ours: 0, size: SIZE },
        RingFault::Outside { region: 1, offset: 0, len: 64 },
        RingFault::Outside { region: 0, offset: REGION as u32 - 63, len: 64 },
        RingFault::Outside { region: 0, offset: u32::MAX, len: u32::MAX },
        RingFault::Unfinished,
        RingFault::Unfinished,
    ];
    for (fault, expected) in faults.into_iter().zip(expected) {
        assert_eq!(fault.unwrap_err(), PortFault::PeerRing(expected));
    }
    // Invalid frame lengths are dropped and counted, in one buffer and in several.
    let lengths = received(|b| {
        b.describe(0, 0, 0, 0, 13, BUFFERS as u32);
        b.describe(0, 1, 0, 0, 14, BUFFERS as u32);
        b.describe(0, 2, 0, 0, 65_551, BUFFERS as u32);
        b.describe(0, 3, 1, 0, 65_550, BUFFERS as u32);
        b.describe(0, 4, 0, 0, 1, BUFFERS as u32);
        b.describe(0, 5, 1, 0, 0, 0);
        b.describe(0, 6, 1, 0, 40, BUFFERS as u32);
        b.describe(0, 7, 0, 0, 20, BUFFERS as u32);
        b.head(0, 8);
    });
    assert_eq!(lengths, Ok(vec![14]), "the burst ends with the first chain, which is too long");
}

#[test]
fn backward_index_is_a_fault_on_either_ring() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    bench.run();
    (0..4).for_each(|slot| bench.describe(0, slot, 0, 0, 64, BUFFERS as u32));
    bench.head(0, 4);
    let rx = bench.engine.rx.get_mut(&0).unwrap();
    assert_eq!(receive(rx.as_mut()).unwrap().0.len(), 4);
    bench.head(0, 3);
    let rx = bench.engine.rx.get_mut(&0).unwrap();
    let fault = receive(rx.as_mut()).unwrap_err();
    assert_eq!(fault, PortFault::PeerRing(RingFault::Index { theirs: 3, ours: 0, size: SIZE }));

    (0..4).for_each(|slot| bench.describe(BACK, slot, 0, 0, 2048, BUFFERS as u32));
    bench.head(BACK, 4);
    let burst = burst_of(&[frame(60, 0)]);
    let tx = bench.engine.tx.get_mut(&0).unwrap();
    assert_eq!(send(tx.as_mut(), &burst).unwrap().0, 1);
    bench.head(BACK, 2);
    let tx = bench.engine.tx.get_mut(&0).unwrap();
    let fault = send(tx.as_mut(), &burst).unwrap_err();
    assert_eq!(fault, PortFault::PeerRing(RingFault::Index { theirs: 2, ours: 2, size: SIZE }));
}

/// A bench with running queues. With `forked`, its transmit queue is one of two handles.
fn running(dir: &Path, forked: bool) -> Bench {
    let mut bench = Bench::new(dir);
    bench.run();
    if forked {
        let fork = bench.engine.tx.get_mut(&0).unwrap().fork();
        bench.engine.tx.insert(0, fork);
    }
    bench
}

#[test]
fn invalid_receive_buffers_are_a_fault_or_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    for forked in [false, true] {
        let mut bench = running(dir.path(), forked);
        let before = bench.peek(BUFFERS, 8192);
        bench.describe(BACK, 0, 0, 0, 100, REGION as u32 - 99);
        bench.head(BACK, 1);
        let tx = bench.engine.tx.get_mut(&0).unwrap();
        let fault = send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap_err();
        let outside = RingFault::Outside { region: 0, offset: REGION as u32 - 99, len: 100 };
        assert_eq!(fault, PortFault::PeerRing(outside));
        assert_eq!(bench.peek(BUFFERS, 8192), before, "nothing was written");
    }
    let mut bench = Bench::new(dir.path());
    bench.run();
    // The ring is full of empty buffers: no frame can ever fit, so none may wait.
    (0..128).for_each(|slot| bench.describe(BACK, slot, 0, 0, 0, BUFFERS as u32));
    bench.head(BACK, 128);
    let tx = bench.engine.tx.get_mut(&0).unwrap();
    let (done, stats) = send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap();
    assert_eq!((done, stats.drops[DropReason::BufferTooSmall as usize]), (1, 1));
}

#[test]
fn search_in_small_buffers_is_charged_and_empty_ring_has_no_space() {
    let dir = tempfile::tempdir().unwrap();
    for forked in [false, true] {
        let mut bench = running(dir.path(), forked);
        assert_eq!(bench.engine.tx.get_mut(&0).unwrap().room(0), 0);
        (0..128).for_each(|slot| bench.describe(BACK, slot, 0, 0, 1, BUFFERS as u32));
        bench.head(BACK, 128);
        let tx = bench.engine.tx.get_mut(&0).unwrap();
        assert!(tx.room(0) > 0);
        let (done, stats) =
            send(tx.as_mut(), &burst_of(&[frame(65, 0), frame(60, 0), frame(65, 0)])).unwrap();
        assert_eq!((done, stats.packets, stats.lost), (3, 1, 2));
        assert_eq!(stats.work, (63 + 59 + 63) * PIECE, "forked: {forked}");
    }
}

#[test]
fn truncated_file_affects_its_own_port() {
    let dir = tempfile::tempdir().unwrap();
    for cut in [BUFFERS, 0] {
        let mut bench = Bench::new(dir.path());
        bench.run();
        (0..128).for_each(|slot| bench.describe(0, slot, 0, 0, 64, BUFFERS as u32 + 4096));
        (0..128).for_each(|slot| bench.describe(BACK, slot, 0, 0, 2048, BUFFERS as u32 + 4096));
        bench.head(0, 128);
        bench.head(BACK, 128);
        let rx = bench.engine.rx.get_mut(&0).unwrap();
        let (burst, _) = receive(rx.as_mut()).unwrap();
        rx.complete(burst.buf_ids());
        ftruncate(&bench.memory, cut).unwrap();
        let tx = bench.engine.tx.get_mut(&0).unwrap();
        let fault = send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap_err();
        assert_eq!(fault, PortFault::MemoryLost);
        let rx = bench.engine.rx.get_mut(&0).unwrap();
        assert_eq!(receive(rx.as_mut()).unwrap_err(), PortFault::MemoryLost);
        bench.port.fault(bench.now, PortFault::MemoryLost, &mut bench.engine);
        assert_eq!(bench.fault(), PortFault::MemoryLost);
    }
}

#[test]
fn sender_never_blocks_on_the_interrupt_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    let full = event();
    bench.share();
    bench.send_message(&ring(0, 0, 0, BACK as u32, 7), &[full.as_fd()]);
    bench.send_message(&connect(), &[]);
    // The peer requests interrupts, its counter is full, and its descriptor is blocking.
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    rustix::fs::fcntl_setfl(&full, rustix::fs::OFlags::empty()).unwrap();
    bench.poke(BACK + 4, &0u16.to_ne_bytes());
    bench.describe(BACK, 0, 0, 0, 2048, BUFFERS as u32);
    bench.head(BACK, 1);
    let tx = bench.engine.tx.get_mut(&0).unwrap();
    assert_eq!(send(tx.as_mut(), &burst_of(&[frame(60, 0)])).unwrap().0, 1);
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    tx.notify();
}
