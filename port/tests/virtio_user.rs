//! Our virtio-user port and our vhost-user port, joined in one process over a real socket: frames pass both ways over
//! every kind of ring, nothing is lost uncounted, and a back end that dies a hundred times leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

mod hand;

use hand::{burst_of, frame, receive, send};
use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, Features, VhostUser};
use port::virtio_user::{self, RingKind, VirtioUser};
use port::{DropReason, PortControl, PortFault, PortState, RxQueue, TxQueue};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

const KINDS: [RingKind; 4] =
    [RingKind::Split, RingKind::SplitInOrder, RingKind::Packed, RingKind::PackedInOrder];
/// Rounds after which two ports in one process have said everything.
const ROUNDS: usize = 2000;

/// A port with an engine that only holds its queues.
struct Side<P> {
    port: P,
    engine: FakeEngine,
}

impl<P: PortControl> Side<P> {
    fn new(port: P) -> Self {
        Self { port, engine: FakeEngine::default() }
    }

    fn handle(&mut self, now: Instant) {
        self.port.handle(now, &mut self.engine);
    }

    fn rx(&mut self, pair: u16) -> &mut dyn RxQueue {
        self.engine.rx.get_mut(&pair).unwrap().as_mut()
    }

    fn tx(&mut self, pair: u16) -> &mut dyn TxQueue {
        self.engine.tx.get_mut(&pair).unwrap().as_mut()
    }
}

/// A front end and a back end, and the time that both are told.
struct Joined {
    front: Side<VirtioUser>,
    back: Side<VhostUser>,
    now: Instant,
}

fn options(ring: RingKind) -> virtio_user::Options {
    virtio_user::Options { ring, queue_size: 256, ..Default::default() }
}

impl Joined {
    /// The back end listens.
    fn new(path: &Path, front: virtio_user::Options, back: vhost_user::Options) -> Self {
        let now = Instant::now();
        let back = Side::new(VhostUser::listen(path, back).unwrap());
        let front = Side::new(VirtioUser::connect(path, front, now).unwrap());
        let mut joined = Self { front, back, now };
        joined.settle();
        joined
    }

    /// Lets both talk until neither has anything to say; time passes a little in each round.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.now += Duration::from_millis(1);
            self.front.handle(self.now);
            self.back.handle(self.now);
        }
    }

    /// Sends `frames` from the front end's side; what arrives.
    fn there(&mut self, pair: u16, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        pass(self.front.tx(pair), self.back.engine.rx.get_mut(&pair).unwrap().as_mut(), frames)
    }

    /// The same the other way.
    fn back(&mut self, pair: u16, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        pass(self.back.tx(pair), self.front.engine.rx.get_mut(&pair).unwrap().as_mut(), frames)
    }
}

/// Every frame of a burst, whole.
fn contents(burst: &port::Burst) -> Vec<Vec<u8>> {
    // A frame is copied once more, to a guest whose memory a test can read.
    (0..burst.len()).map(|i| hand::read(burst, i)).collect()
}

/// Sends `frames`, up to 64, and receives whatever arrives; nothing may be lost.
fn pass(tx: &mut dyn TxQueue, rx: &mut dyn RxQueue, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (done, tally) = send(tx, &burst_of(frames)).unwrap();
    assert_eq!((done, tally.packets, tally.dropped()), (frames.len(), frames.len() as u64, 0));
    drain(rx)
}

fn drain(rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    let mut all = vec![];
    loop {
        let (burst, tally) = receive(rx).unwrap();
        assert_eq!((tally.packets, tally.dropped()), (burst.len() as u64, 0));
        if burst.is_empty() {
            return all;
        }
        all.extend(contents(&burst));
        rx.complete(&burst);
    }
}

#[test]
fn frames_pass_both_ways_over_every_kind_of_ring_for_many_laps() {
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
fn the_front_end_listens_too_and_has_several_pairs() {
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
fn a_back_end_that_cannot_acknowledge_is_asked_instead() {
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
fn a_long_frame_spans_buffers_where_they_may_be_merged_and_is_counted_where_not() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        for len in [2048, 2049, 9000, 60_000] {
            let frames: Vec<_> = (0..2).map(|seed| frame(len, seed)).collect();
            assert!(joined.back(0, &frames) == frames, "{kind:?}, {len}");
        }
        let (done, tally) = send(joined.front.tx(0), &burst_of(&[frame(2049, 0)])).unwrap();
        let lost = tally.drops[DropReason::BufferTooSmall as usize];
        assert_eq!((done, tally.packets, lost), (1, 0, 1), "one buffer of ours holds 2048 bytes");
    }
    let large = virtio_user::Options { mtu: Some(9000), ..options(RingKind::Packed) };
    let mut joined = Joined::new(&dir.path().join("s"), large, vhost_user::Options::default());
    let frames = [frame(9018, 0)];
    assert!(joined.there(0, &frames) == frames && joined.back(0, &frames) == frames);
}

/// One step of a random walk: bursts of so many frames each way, and which sides look into their rings.
type Step = (usize, usize, bool, bool);

/// Walks at random; every frame arrives once, in order, or its sender was told that the ring is full.
fn walk(kind: RingKind, steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
    let mut expected = [vec![], vec![]];
    let mut arrived = [vec![], vec![]];
    for (n, &(out, home, look, look_home)) in steps.iter().enumerate() {
        let frames = |n: usize, many: usize| -> Vec<_> {
            (0..many).map(|k| frame(14 + (n * 131 + k * 17) % 3000 % 2035, n + k)).collect()
        };
        for (way, many) in [out, home].into_iter().enumerate() {
            let frames = frames(n, many);
            if frames.is_empty() {
                continue;
            }
            let tx = if way == 0 { joined.front.tx(0) } else { joined.back.tx(0) };
            let (done, tally) = send(tx, &burst_of(&frames)).unwrap();
            assert_eq!((tally.packets, tally.dropped()), (done as u64, 0));
            expected[way].extend_from_slice(&frames[..done]);
        }
        if look {
            arrived[0].extend(drain(joined.back.rx(0)));
        }
        if look_home {
            arrived[1].extend(drain(joined.front.rx(0)));
        }
    }
    arrived[0].extend(drain(joined.back.rx(0)));
    arrived[1].extend(drain(joined.front.rx(0)));
    assert!(arrived == expected, "{kind:?}: frames were lost, doubled, changed or turned round");
}

#[test]
fn whatever_the_order_of_events_the_sums_agree() {
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

/// Whether `fd` became readable, and takes that back.
fn called(rx: &dyn RxQueue) -> bool {
    let fd = rx.kick_fd().unwrap();
    rustix::io::read(fd, &mut [0; 8]).is_ok()
}

#[test]
fn each_side_is_woken_only_while_it_sleeps() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let mut joined = Joined::new(&dir.path().join("s"), options(kind), vhost_user::Options::default());
        let burst = burst_of(&[frame(64, 0)]);
        let tell = |tx: &mut dyn TxQueue| {
            send(tx, &burst).unwrap();
            fence(Ordering::SeqCst);
            tx.notify();
        };
        // Polling sides are left in peace.
        joined.front.rx(0).disarm();
        joined.back.rx(0).disarm();
        tell(joined.front.tx(0));
        tell(joined.back.tx(0));
        assert!(!called(joined.front.rx(0)) && !called(joined.back.rx(0)), "{kind:?}");
        assert!(joined.front.rx(0).arm().unwrap(), "a frame is there already");
        drain(joined.front.rx(0));
        drain(joined.back.rx(0));
        assert!(!joined.front.rx(0).arm().unwrap() && !joined.back.rx(0).arm().unwrap());
        tell(joined.front.tx(0));
        tell(joined.back.tx(0));
        assert!(called(joined.front.rx(0)) && called(joined.back.rx(0)), "{kind:?}");
    }
}

#[test]
fn a_back_end_without_what_was_asked_for_is_named_and_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let plain = vhost_user::Options { features: Features(!Features::RING_PACKED), ..Default::default() };
    let mut joined = Joined::new(&path, options(RingKind::Packed), plain);
    let status = joined.front.port.status();
    let expected = PortFault::Unsuited("it does not offer packed rings; choose another kind of ring".into());
    assert_eq!(status.last_fault, Some(expected));
    assert!(status.connects > 1 && joined.front.engine.rx.is_empty(), "{status:?}");
    drop(joined.back);
    joined.back = Side::new(VhostUser::listen(&path, vhost_user::Options::default()).unwrap());
    (0..3).for_each(|_| joined.settle());
    assert_eq!(joined.front.engine.rx.len(), 1, "{:?}", joined.front.port.status());
}

#[test]
fn several_workers_send_to_one_back_end_and_none_waits_for_another() {
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
                .map(|(who, tx)| {
                    scope.spawn(move || {
                        for n in 0..200 {
                            let frames: Vec<_> = (0..=n % 13).map(|k| own_frame(who, n * 13 + k)).collect();
                            let burst = burst_of(&frames);
                            let (picks, mut done): (Vec<u8>, _) = ((0..burst.len() as u8).collect(), 0);
                            let mut tally = port::Tally::default();
                            while done < picks.len() {
                                done += tx.tx(&burst, &picks[done..], &mut tally).unwrap();
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
        for who in 0..3 {
            let own = arrived.iter().filter(|frame| usize::from(frame[0]) == who);
            let expected = (0..200).flat_map(|n| (0..=n % 13).map(move |k| own_frame(who, n * 13 + k)));
            assert!(own.cloned().eq(expected), "{kind:?}, worker {who}");
        }
    }
}

fn own_frame(who: usize, number: usize) -> Vec<u8> {
    let mut frame = frame(60 + number * 7 % 500, number);
    frame[0] = who as u8;
    frame
}
