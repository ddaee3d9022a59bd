//! Offload requests pass between a virtio-user port and a vhost-user port in both directions, and headers are zero
//! again afterwards. Offloads that were not negotiated are neither requested nor accepted.

use crate::hand::{burst_of, frame, receive, send};
use crate::joined::{Joined, KINDS, contents, options};
use port::vhost::Features;
use port::vhost_user;
use port::virtio_user::{self, RingKind};
use port::{Burst, Capabilities, Offload, PortControl, RxQueue, Segmentation, TxQueue};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A frame and its offloads.
type Packet = (Vec<u8>, Offload);

fn cut(kind: Segmentation) -> Offload {
    Offload::with_checksum(34, 16).with_segments(kind, 1448, false)
}

/// A packet of type `sort`; `n` varies its content.
fn packet(sort: usize, n: usize) -> Packet {
    let sum = Offload::with_checksum(34, 16);
    let (len, offload) = [
        (60, Offload::NONE),
        (1514, sum),
        (1900, cut(Segmentation::Tcp4)),
        (60_000, cut(Segmentation::Tcp6)),
        (9_000, cut(Segmentation::Udp)),
        (3_000, sum.with_segments(Segmentation::Tcp4, 536, true)),
        (2_500, Offload::NONE),
    ][sort % 7];
    (frame(len + n % 40, n), offload)
}

fn burst(packets: &[Packet]) -> Burst {
    let frames: Vec<_> = packets.iter().map(|(frame, _)| frame.clone()).collect();
    let mut burst = burst_of(&frames);
    for (i, (_, offload)) in packets.iter().enumerate() {
        burst.set_offload(i, *offload);
    }
    burst
}

fn drain(rx: &mut dyn RxQueue) -> Vec<Packet> {
    let mut all = vec![];
    loop {
        let (burst, stats) = receive(rx).unwrap();
        assert_eq!((stats.packets, stats.lost), (burst.len() as u64, 0));
        if burst.is_empty() {
            return all;
        }
        all.extend(contents(&burst).into_iter().zip((0..burst.len()).map(|i| burst.offload(i))));
        rx.complete(burst.buf_ids());
    }
}

/// Sends each packet as a separate burst, or all of them as one, and receives them.
fn pass(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue, packets: &[Packet]) -> Vec<Packet> {
    let (done, stats) = send(tx, &burst(packets)).unwrap();
    assert_eq!((done, stats.packets, stats.lost), (packets.len(), packets.len() as u64, 0));
    drain(rx)
}

fn is_all_said(kind: RingKind, forked: bool, sorts: &[Vec<usize>]) {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
    if forked {
        for tx in [&mut joined.front.engine.tx, &mut joined.back.engine.tx] {
            let other = tx.get_mut(&0).unwrap().fork();
            tx.insert(0, other);
        }
    }
    let plain = vec![0; 40];
    // Afterwards, a lap of packets without offloads, in buffers whose headers requested some.
    for (n, sorts) in sorts.iter().chain(std::iter::repeat_n(&plain, 10)).enumerate() {
        let packets: Vec<_> = sorts.iter().enumerate().map(|(k, sort)| packet(*sort, n + k)).collect();
        let [front, back] = [&mut joined.front.engine, &mut joined.back.engine];
        let (up, down) = (front.tx.get_mut(&0).unwrap(), front.rx.get_mut(&0).unwrap());
        let (home, out) = (back.rx.get_mut(&0).unwrap(), back.tx.get_mut(&0).unwrap());
        assert!(pass(up.as_mut(), home.as_mut(), &packets) == packets, "{kind:?} {forked} out {n} {sorts:?}");
        assert!(pass(out.as_mut(), down.as_mut(), &packets) == packets, "{kind:?} {forked} in {n} {sorts:?}");
    }
}

#[test]
fn pending_offloads_are_passed_both_ways() {
    let each: Vec<_> = (0..7).map(|sort| vec![sort]).collect();
    let together = [each.clone(), vec![vec![0, 1, 2, 4], vec![5, 6, 0], vec![3, 0], vec![2, 0, 2]]].concat();
    for kind in KINDS {
        for forked in [false, true] {
            is_all_said(kind, forked, &together);
        }
    }
}

#[test]
fn random_packets_keep_their_own_offload_headers() {
    let sorts = prop::collection::vec(prop::collection::vec(0..7_usize, 1..5), 1..12);
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    let walk = |(sorts, forked): (Vec<Vec<usize>>, bool)| {
        // Two packets of 60,000 bytes exceed the memory of a burst in these tests.
        let few = |sorts: &Vec<usize>| sorts.iter().filter(|sort| **sort == 3).count() < 2;
        let sorts: Vec<_> = sorts.into_iter().filter(few).collect();
        for kind in KINDS {
            is_all_said(kind, forked, &sorts);
        }
        Ok(())
    };
    runner.run(&(sorts, any::<bool>()), walk).unwrap();
}

/// Capabilities of both sides, and the names of the negotiated offload features.
fn agreed(front: virtio_user::Options, back: vhost_user::Options) -> ([Capabilities; 2], Vec<&'static str>) {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::new(&dir.path().join("s"), front, back);
    let capabilities = [joined.front.tx(0).capabilities(), joined.back.tx(0).capabilities()];
    let names = joined.front.port.status().features;
    (
        capabilities,
        names.into_iter().filter(|name| name.contains("host-") || name.contains("guest-")).collect(),
    )
}

#[test]
fn unnegotiated_offloads_are_neither_sent_nor_accepted() {
    let (front, back) = (options(RingKind::Split), vhost_user::Options::default());
    let sums = Capabilities(Capabilities::CHECKSUM);
    let (both, names) = agreed(front, back);
    assert_eq!((both, names.len()), ([Capabilities::ALL; 2], 10), "{names:?}");
    let nothing = ([Capabilities::NONE; 2], vec![]);
    assert_eq!(agreed(virtio_user::Options { offloads: false, ..front }, back), nothing);
    assert_eq!(agreed(front, back.without_offloads()), nothing);
    // Unsegmented packets need mergeable buffers.
    let (single, names) = agreed(virtio_user::Options { mergeable: false, ..front }, back);
    assert_eq!(
        (single, names),
        ([Capabilities::ALL, sums], vec!["guest-csum", "host-tso4", "host-tso6", "host-ecn", "host-uso"])
    );
    let without = |bits: u64| vhost_user::Options { features: Features(!bits), ..back };
    assert_eq!(agreed(front, without(Features::MRG_RXBUF)).0, [Capabilities::ALL, sums]);
    assert_eq!(agreed(front, without(Features::CSUM)).0, [Capabilities::NONE, Capabilities::ALL]);
    assert_eq!(agreed(front, without(Features::GUEST_CSUM)).0, [Capabilities::ALL, Capabilities::NONE]);
}
