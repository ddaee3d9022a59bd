//! A virtio-user port and a vhost-user port, connected in one process over a real socket: frames pass in both
//! directions over every ring type, losses are counted, and repeated disconnects of the back end leave no resources
//! behind.

use crate::hand::{burst_of, frame, notifications, receive, send};
use crate::joined::{Joined, KINDS, Side, drain, options};
use mem::copy::Portable;
use port::vhost::Features;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use port::{DropReason, PortControl, PortFault, PortState, Retained, Retainer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

#[test]
fn frames_pass_both_ways_on_every_ring_kind() {
    for kind in KINDS {
        for mergeable in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let options = virtio_user::Options { mergeable, ..options(kind) };
            let mut joined = Joined::new(&dir.path().join("s"), options, vhost_user::Options::default());
            for lap in 0..40 {
                let frames: Vec<_> = (0..=lap).map(|k| frame(60 + (lap * 37 + k * 11) % 1455, k)).collect();
                assert!(joined.there(0, &frames) == frames, "{kind:?}, mergeable {mergeable}, lap {lap}");
                assert!(joined.back(0, &frames) == frames, "{kind:?}, mergeable {mergeable}, lap {lap}");
            }
        }
    }
}

#[test]
fn listening_front_end_with_several_pairs_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let now = Instant::now();
    let many = virtio_user::Options { queue_pairs: 3, ..options(RingKind::Packed) };
    let front = Side::new(VirtioUser::listen(&path, many).unwrap());
    let offer = vhost_user::Options { queue_pairs: 4, ..Default::default() };
    let back = Side::new(VhostUser::connect(&path, offer, now).unwrap());
    let mut joined = Joined { front, back, now };
    joined.settle();
    for pair in 0..3 {
        let frames = [frame(100, usize::from(pair))];
        assert_eq!(joined.there(pair, &frames), frames);
        assert_eq!(joined.back(pair, &frames), frames);
    }
    let status = joined.front.port.status();
    assert_eq!((status.kind, &status.state, status.queues.len()), ("virtio-user", &PortState::Connected, 3));
    assert!(status.features.contains(&"ring-packed") && status.features.contains(&"mq"), "{status:?}");
    joined.front.port.close(&mut joined.front.engine);
    assert!(!path.exists() && joined.front.engine.rx.is_empty() && joined.front.engine.tx.is_empty());
}

#[test]
fn back_end_without_reply_ack_is_synchronized_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    for bits in [0, Features::VERSION_1, !Features::PROTOCOL] {
        let offer = vhost_user::Options { features: Features(bits), ..Default::default() };
        let mut joined = Joined::new(&dir.path().join("s"), options(RingKind::Split), offer);
        let frames = [frame(64, 1), frame(1514, 2)];
        assert_eq!(joined.there(0, &frames), frames);
        assert_eq!(joined.back(0, &frames), frames);
    }
}

#[test]
fn long_frame_spans_buffers_or_is_counted_without_mrg_rxbuf() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for len in [2048, 2049, 9000, 60_000] {
            // More than one lap, so that returned buffers are reused.
            for lap in 0..10 {
                let frames: Vec<_> = (0..2).map(|seed| frame(len, seed + lap)).collect();
                assert!(joined.there(0, &frames) == frames, "{kind:?}, {len}");
                assert!(joined.back(0, &frames) == frames, "{kind:?}, {len}");
            }
        }
        drop(joined);
        let single = virtio_user::Options { mergeable: false, ..options(kind) };
        let mut joined = Joined::new(&dir.path().join("s"), single, vhost_user::Options::default());
        let (done, stats) = send(joined.back.tx(0), &burst_of(&[frame(2049, 0)])).unwrap();
        let lost = stats.drops[DropReason::BufferTooSmall as usize];
        assert_eq!((done, stats.packets, lost), (1, 0, 1), "a receive buffer holds 2048 bytes");
    }
    let large = virtio_user::Options { mtu: Some(9000), ..options(RingKind::Packed) };
    let mut joined = Joined::new(&dir.path().join("s"), large, vhost_user::Options::default());
    let frames = [frame(9018, 0)];
    assert!(joined.there(0, &frames) == frames && joined.back(0, &frames) == frames);
}

/// One step of a random walk: burst sizes in both directions, and the sides that poll their rings.
type Step = (usize, usize, bool, bool);

/// Random walk: every frame arrives once and in order, or the sender's queue reported full.
fn walk(kind: RingKind, steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
    let mut expected = [vec![], vec![]];
    let mut arrived = [vec![], vec![]];
    for (n, &(out, back, poll_out, poll_back)) in steps.iter().enumerate() {
        let frames = |n: usize, many: usize| -> Vec<_> {
            (0..many).map(|k| frame(14 + (n * 131 + k * 17) % 3000 % 2035, n + k)).collect()
        };
        for (way, many) in [out, back].into_iter().enumerate() {
            let frames = frames(n, many);
            if frames.is_empty() {
                continue;
            }
            let tx = if way == 0 { joined.front.tx(0) } else { joined.back.tx(0) };
            let (done, stats) = send(tx, &burst_of(&frames)).unwrap();
            assert_eq!((stats.packets, stats.lost), (done as u64, 0));
            expected[way].extend_from_slice(&frames[..done]);
        }
        if poll_out {
            arrived[0].extend(drain(joined.back.rx(0)));
        }
        if poll_back {
            arrived[1].extend(drain(joined.front.rx(0)));
        }
    }
    arrived[0].extend(drain(joined.back.rx(0)));
    arrived[1].extend(drain(joined.front.rx(0)));
    assert!(arrived == expected, "{kind:?}: frames were lost, duplicated, changed or reordered");
}

#[test]
fn sums_agree_for_random_event_orders() {
    let steps = prop::collection::vec((0..64usize, 0..64usize, any::<bool>(), any::<bool>()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    runner
        .run(&steps, |steps| {
            for kind in KINDS {
                walk(kind, &steps);
            }
            Ok(())
        })
        .unwrap();
}

/// Two connected ports whose back end offers `EVENT_IDX` if `event_idx` is true.
fn joined(path: &Path, kind: RingKind, event_idx: bool) -> Joined {
    let without = if event_idx { 0 } else { Features::EVENT_IDX };
    let offer = vhost_user::Options { features: Features(!without), ..Default::default() };
    let joined = Joined::new(path, options(kind), offer);
    let agreed = joined.front.port.status().features.contains(&"event-idx");
    assert_eq!(agreed, event_idx, "the front end accepts EVENT_IDX if offered");
    joined
}

/// Publishes `n` times in each direction and queries each time. Returns the notifications of front and back end.
fn publish_both_ways(joined: &mut Joined, n: usize) -> [u64; 2] {
    let one = burst_of(&[frame(64, 0)]);
    for _ in 0..n {
        for tx in [joined.back.tx(0), joined.front.tx(0)] {
            send(tx, &one).unwrap();
            fence(Ordering::SeqCst);
            tx.notify();
        }
    }
    [notifications(joined.front.rx(0)), notifications(joined.back.rx(0))]
}

#[test]
fn each_side_is_notified_once_while_sleeping() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, event_idx) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut joined = joined(&dir.path().join("s"), kind, event_idx);
        joined.front.rx(0).disable_notification();
        joined.back.rx(0).disable_notification();
        // The first entry is at the initial event position of a split ring.
        let first = u64::from(event_idx && !kind.is_packed());
        assert_eq!(publish_both_ways(&mut joined, 1), [first; 2], "{kind:?}");
        assert_eq!(publish_both_ways(&mut joined, 20), [0; 2], "{kind:?}: polling sides are not notified");
        assert!(
            joined.front.rx(0).enable_notification().unwrap()
                && joined.back.rx(0).enable_notification().unwrap(),
            "frames arrived before the sleep"
        );
        for _ in 0..30 {
            drain(joined.front.rx(0));
            drain(joined.back.rx(0));
            assert!(
                !joined.front.rx(0).enable_notification().unwrap()
                    && !joined.back.rx(0).enable_notification().unwrap()
            );
            // Until the sleeper disables notifications again, a flag requests one for each entry, an event position
            // only for the first.
            let expected = if event_idx { 1 } else { 20 };
            assert_eq!(publish_both_ways(&mut joined, 20), [expected; 2], "{kind:?}, event_idx {event_idx}");
            joined.front.rx(0).disable_notification();
            joined.back.rx(0).disable_notification();
            assert_eq!(publish_both_ways(&mut joined, 20), [0; 2], "{kind:?}: awake again");
        }
    }
}

/// Split indices wrap at 16 bits and packed rings wrap their laps. A sleeping side is woken nevertheless, and a side
/// that never sleeps is notified for at most one entry in 65536.
#[test]
fn stale_event_index_causes_no_extra_wake_ups() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = joined(&dir.path().join("s"), kind, true);
        // Starting a ring may notify the other side.
        joined.front.rx(0).disable_notification();
        joined.back.rx(0).disable_notification();
        let (mut needless, bursts) = ([0; 2], 2_200);
        let frames = burst_of(&(0..60).map(|k| frame(64, k)).collect::<Vec<_>>());
        for _ in 0..bursts {
            let Side { engine: front, .. } = &mut joined.front;
            let Side { engine: back, .. } = &mut joined.back;
            let ways = [(&mut back.tx, &mut front.rx), (&mut front.tx, &mut back.rx)];
            for ((tx, rx), count) in ways.into_iter().zip(&mut needless) {
                let (tx, rx) = (tx.get_mut(&0).unwrap(), rx.get_mut(&0).unwrap());
                send(tx.as_mut(), &frames).unwrap();
                fence(Ordering::SeqCst);
                tx.notify();
                let (burst, _) = receive(rx.as_mut()).unwrap();
                rx.complete(burst.buf_ids());
                *count += notifications(rx.as_ref());
            }
        }
        let entries = 60 * bursts;
        let most = if kind.is_packed() { 0 } else { 1 + entries / 65_536 };
        assert!(needless.iter().all(|&n| n <= most), "{kind:?}: {needless:?} of at most {most}");
        assert!(
            !joined.front.rx(0).enable_notification().unwrap()
                && !joined.back.rx(0).enable_notification().unwrap()
        );
        assert_eq!(publish_both_ways(&mut joined, 3), [1; 2], "{kind:?}: asleep after all of that");
    }
}

#[test]
fn back_end_without_required_features_is_named_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let plain = vhost_user::Options { features: Features(!Features::RING_PACKED), ..Default::default() };
    let mut joined = Joined::new(&path, options(RingKind::Packed), plain);
    let status = joined.front.port.status();
    let expected = PortFault::Unsuited("it does not offer packed rings; choose another kind of ring".into());
    assert_eq!(status.state, PortState::Faulted(expected));
    assert!(status.connects > 1 && joined.front.engine.rx.is_empty(), "{status:?}");
    drop(joined.back);
    joined.back = Side::new(VhostUser::listen(&path, vhost_user::Options::default()).unwrap());
    (0..3).for_each(|_| joined.settle());
    assert_eq!(joined.front.engine.rx.len(), 1, "{:?}", joined.front.port.status());
}

/// Retained packets do not block the ring: half of the port's own buffers are never lent, and a guest's buffers are
/// never lent.
#[test]
fn retained_packets_outlive_their_burst_and_return_buffers() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        let (mut retainer, mut kept) = (Retainer::new(4096).unwrap(), VecDeque::new());
        for lap in 0..100 {
            let frames: Vec<_> = (0..8).map(|k| frame(200 + 100 * k, lap + k)).collect();
            for is_own in [true, false] {
                let Joined { front, back, .. } = &mut joined;
                let (tx, rx) = if is_own { (back.tx(0), front.rx(0)) } else { (front.tx(0), back.rx(0)) };
                assert_eq!(send(tx, &burst_of(&frames)).unwrap().0, 8, "{kind:?}, lap {lap}");
                let (mut burst, _) = receive(rx).unwrap();
                for (i, frame) in frames.iter().enumerate() {
                    kept.push_back((burst.retain::<Portable>(i, &mut retainer).unwrap(), frame.clone()));
                }
                assert!(is_own || lent(&kept) == 0);
                assert_eq!(burst.buf_ids().len(), 8 - lent(&kept));
                rx.complete(burst.buf_ids());
            }
            while kept.len() > 300 {
                let (packet, frame) = kept.pop_front().unwrap();
                let mut bytes = vec![0; packet.len()];
                packet.copy_to(&mut bytes);
                assert!(bytes == frame, "{kind:?}, lap {lap}");
            }
        }
        assert!(kept.iter().any(|(packet, _)| packet.is_lent()));
    }
}

#[test]
fn retained_packets_survive_a_disconnect() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        let (mut retainer, mut kept) = (Retainer::new(64).unwrap(), VecDeque::new());
        let frames: Vec<_> = (0..8).map(|k| frame(200 + 100 * k, k)).collect();
        assert_eq!(send(joined.back.tx(0), &burst_of(&frames)).unwrap().0, 8);
        let (mut burst, _) = receive(joined.front.rx(0)).unwrap();
        for (i, frame) in frames.iter().enumerate() {
            kept.push_back((burst.retain::<Portable>(i, &mut retainer).unwrap(), frame.clone()));
        }
        assert_eq!(lent(&kept), 8, "{kind:?}");
        joined.front.rx(0).complete(burst.buf_ids());
        drop(burst);
        drop(joined);
        for (packet, frame) in kept {
            let mut bytes = vec![0; packet.len()];
            packet.copy_to(&mut bytes);
            assert!(bytes == frame, "{kind:?}");
        }
    }
}

/// Number of packets among the last 8 that are in the port's memory.
fn lent(kept: &VecDeque<(Retained, Vec<u8>)>) -> usize {
    kept.range(kept.len() - 8..).filter(|(packet, _)| packet.is_lent()).count()
}

#[test]
fn several_workers_send_to_one_back_end_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        let mut one = joined.front.engine.tx.remove(&0).unwrap();
        let mut handles = [one.fork(), one.fork(), one];
        let rx = joined.back.engine.rx.get_mut(&0).unwrap();
        let mut arrived = vec![];
        std::thread::scope(|scope| {
            let threads: Vec<_> = handles
                .iter_mut()
                .enumerate()
                .map(|(worker, tx)| {
                    scope.spawn(move || {
                        for n in 0..200 {
                            let frames: Vec<_> =
                                (0..=n % 13).map(|k| own_frame(worker, n * 13 + k)).collect();
                            let burst = burst_of(&frames);
                            let (indices, mut done): (Vec<u8>, _) = ((0..burst.len() as u8).collect(), 0);
                            let mut stats = port::BurstStats::default();
                            while done < indices.len() {
                                done += tx.tx(&burst, &indices[done..], &mut stats).unwrap();
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                arrived.extend(drain(rx.as_mut()));
            }
            arrived.extend(drain(rx.as_mut()));
        });
        for worker in 0..3 {
            let own = arrived.iter().filter(|frame| usize::from(frame[0]) == worker);
            let expected = (0..200).flat_map(|n| (0..=n % 13).map(move |k| own_frame(worker, n * 13 + k)));
            assert!(own.cloned().eq(expected), "{kind:?}, worker {worker}");
        }
    }
}

fn own_frame(worker: usize, number: usize) -> Vec<u8> {
    // Some frames span several buffers.
    let len = if number.is_multiple_of(11) { 5000 } else { 60 + number * 7 % 500 };
    let mut frame = frame(len, number);
    frame[0] = worker as u8;
    frame
}
