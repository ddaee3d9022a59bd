//! Two memif ports, a server and a client, connected in one process over a real socket: frames pass in both
//! directions, losses are counted, sleeping workers are woken, and incompatible peers are rejected with a reason.

use crate::hand::{burst_of, frame, notifications, receive, send};
use mem::copy::Portable;
use port::memif::{Memif, Options, Secret};
use port::vhost_user::fake::FakeEngine;
use port::{DropReason, PortControl, PortFault, PortState, Retainer, RxQueue, TxQueue};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Rounds after which two ports in one process have finished their handshake.
const ROUNDS: usize = 300;

struct Side {
    port: Memif,
    engine: FakeEngine,
}

impl Side {
    fn new(port: Memif) -> Self {
        Self { port, engine: FakeEngine::default() }
    }

    fn rx(&mut self, pair: u16) -> &mut dyn RxQueue {
        self.engine.rx.get_mut(&pair).unwrap().as_mut()
    }

    fn tx(&mut self, pair: u16) -> &mut dyn TxQueue {
        self.engine.tx.get_mut(&pair).unwrap().as_mut()
    }
}

/// A server, a client, and the time passed to both.
struct Joined {
    sides: [Side; 2],
    now: Instant,
}

fn options() -> Options {
    Options { ring_size: 128, ..Options::default() }
}

impl Joined {
    fn new(path: &Path, server: Options, client: Options) -> Self {
        let now = Instant::now();
        let server = Side::new(Memif::listen(path, server).unwrap());
        let client = Side::new(Memif::connect(path, client, now).unwrap());
        let mut joined = Self { sides: [server, client], now };
        joined.settle();
        joined
    }

    fn alike(path: &Path, options: Options) -> Self {
        Self::new(path, options, options)
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.now += Duration::from_millis(1);
            for side in &mut self.sides {
                side.port.handle(self.now, &mut side.engine);
            }
        }
    }

    /// Both ends of a direction: 0 is server to client, 1 is client to server.
    fn way(&mut self, way: usize, pair: u16) -> (&mut dyn TxQueue, &mut dyn RxQueue) {
        let [server, client] = &mut self.sides;
        let (from, to) = if way == 0 { (server, client) } else { (client, server) };
        (from.tx(pair), to.rx(pair))
    }

    fn pass(&mut self, way: usize, pair: u16, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (tx, rx) = self.way(way, pair);
        let (done, stats) = send(tx, &burst_of(frames)).unwrap();
        assert_eq!((done, stats.packets, stats.lost), (frames.len(), frames.len() as u64, 0));
        drain(rx)
    }
}

fn drain(rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    let mut all = vec![];
    loop {
        let (burst, stats) = receive(rx).unwrap();
        assert_eq!((stats.packets, stats.lost), (burst.len() as u64, 0));
        if burst.is_empty() {
            return all;
        }
        all.extend((0..burst.len()).map(|i| crate::hand::read(&burst, i)));
        rx.complete(burst.buf_ids());
    }
}

#[test]
fn abstract_socket_is_supported() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("@{}", dir.path().join("s").display());
    let mut joined = Joined::alike(Path::new(&name), options());
    let frames = [frame(60, 1), frame(1514, 2)];
    assert_eq!(joined.pass(0, 0, &frames), frames);
    let taken = Memif::listen(&name, options()).unwrap_err().to_string();
    assert!(taken.contains("another process listens on this socket"), "{taken}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(joined);
    Memif::listen(&name, options()).unwrap();
}

#[test]
fn frames_pass_both_ways_for_many_laps() {
    let dir = tempfile::tempdir().unwrap();
    for pairs in [1, 3] {
        let mut joined = Joined::alike(&dir.path().join("s"), Options { queue_pairs: pairs, ..options() });
        for lap in 0..60 {
            let frames: Vec<_> = (0..=lap).map(|k| frame(14 + (lap * 37 + k * 11) % 1501, k)).collect();
            let pair = lap as u16 % pairs;
            for way in 0..2 {
                assert!(joined.pass(way, pair, &frames) == frames, "way {way}, lap {lap}");
            }
        }
        for side in &joined.sides {
            let status = side.port.status();
            assert_eq!((status.kind, &status.state), ("memif", &PortState::Connected));
            assert_eq!((status.queues.len(), status.queues[0].size), (usize::from(pairs), 128));
            assert_eq!(status.memory.0, 1);
        }
    }
}

#[test]
fn long_frame_spans_buffers_and_one_above_the_ring_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    for buffer_size in [128, 1000, 2048] {
        let mut joined = Joined::alike(&dir.path().join("s"), Options { buffer_size, ..options() });
        // A ring of small buffers is too short for a jumbo frame.
        let jumbo = (buffer_size >= 1000).then_some(9216);
        for len in [127, 128, 129, 1000, 1001, 1514, 2049, 7000].into_iter().chain(jumbo) {
            let frames: Vec<_> = (0..2).map(|seed| frame(len, seed)).collect();
            for way in 0..2 {
                assert!(joined.pass(way, 0, &frames) == frames, "{len} in {buffer_size}, way {way}");
            }
        }
    }
    let mut joined = Joined::alike(&dir.path().join("s"), Options { buffer_size: 128, ..options() });
    let (tx, rx) = joined.way(0, 0);
    let (done, stats) = send(tx, &burst_of(&[frame(9000, 0), frame(60, 1)])).unwrap();
    assert_eq!((done, stats.packets, stats.drops[DropReason::BufferTooSmall as usize]), (2, 1, 1));
    assert_eq!(drain(rx), [frame(60, 1)]);
}

/// One step of a random walk: burst sizes in both directions, and the sides that poll their rings.
type Step = (usize, usize, bool, bool);

fn walk(steps: &[Step], forked: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::alike(&dir.path().join("s"), Options { buffer_size: 900, ..options() });
    if forked {
        for side in &mut joined.sides {
            let fork = side.tx(0).fork();
            side.engine.tx.insert(0, fork);
        }
    }
    let (mut expected, mut arrived) = ([vec![], vec![]], [vec![], vec![]]);
    for (n, &(out, back, poll_out, poll_back)) in steps.iter().enumerate() {
        for (way, (many, poll)) in [(out, poll_out), (back, poll_back)].into_iter().enumerate() {
            let frames: Vec<_> =
                (0..many).map(|k| frame(14 + (n * 131 + k * 17) % 3000 % 1900, n + k)).collect();
            let (tx, rx) = joined.way(way, 0);
            if !frames.is_empty() {
                let (done, stats) = send(tx, &burst_of(&frames)).unwrap();
                assert_eq!((stats.packets, stats.lost), (done as u64, 0));
                expected[way].extend_from_slice(&frames[..done]);
            }
            if poll {
                arrived[way].extend(drain(rx));
            }
        }
    }
    for (way, arrived) in arrived.iter_mut().enumerate() {
        arrived.extend(drain(joined.way(way, 0).1));
    }
    assert!(arrived == expected, "frames were lost, duplicated, changed or reordered");
}

#[test]
fn sums_agree_for_random_event_orders() {
    let steps = prop::collection::vec((0..64usize, 0..64usize, any::<bool>(), any::<bool>()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&(steps, any::<bool>()), |(steps, forked)| {
            walk(&steps, forked);
            Ok(())
        })
        .unwrap();
}

#[test]
fn each_side_is_notified_only_while_sleeping() {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::alike(&dir.path().join("s"), options());
    for way in 0..2 {
        let (tx, rx) = joined.way(way, 0);
        rx.disable_notification();
        let mut publish = |n: usize| {
            for _ in 0..n {
                send(tx, &burst_of(&[frame(64, 0)])).unwrap();
                fence(Ordering::SeqCst);
                tx.notify();
            }
        };
        publish(5);
        assert_eq!(notifications(rx), 0, "a polling side is not notified");
        assert!(rx.enable_notification().unwrap(), "frames arrived before the sleep");
        drain(rx);
        assert!(!rx.enable_notification().unwrap());
        publish(3);
        assert_eq!(notifications(rx), 3);
        rx.disable_notification();
        publish(3);
        assert_eq!(notifications(rx), 0, "polling again");
    }
}

#[test]
fn several_workers_send_whole_frames_in_order_to_one_ring() {
    const EACH: usize = 3000;
    let dir = tempfile::tempdir().unwrap();
    for way in 0..2 {
        let mut joined = Joined::alike(&dir.path().join("s"), Options { buffer_size: 200, ..options() });
        let (from, to) = if way == 0 { (0, 1) } else { (1, 0) };
        let first = joined.sides[from].engine.tx.remove(&0).unwrap();
        let mut handles = vec![first];
        for _ in 0..2 {
            let another = handles[0].fork();
            handles.push(another);
        }
        let rx = joined.sides[to].rx(0);
        std::thread::scope(|s| {
            for (worker, mut tx) in handles.into_iter().enumerate() {
                s.spawn(move || {
                    for at in (0..EACH).step_by(20) {
                        let frames: Vec<_> = (at..at + 20).map(|number| numbered(worker, number)).collect();
                        let (burst, mut done) = (burst_of(&frames), 0);
                        while done < 20 {
                            let indices: Vec<u8> = (done as u8..20).collect();
                            done += tx.tx(&burst, &indices, &mut port::BurstStats::default()).unwrap();
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0; 3];
            while next.iter().sum::<usize>() < 3 * EACH {
                for arrived in drain(rx) {
                    let worker = usize::from(arrived[0]);
                    assert!(
                        arrived == numbered(worker, next[worker]),
                        "worker {worker}, frame {}",
                        next[worker]
                    );
                    next[worker] += 1;
                }
                std::thread::yield_now();
            }
        });
    }
}

/// Frame `number` of `worker`. Its length and all bytes are derived from the two.
fn numbered(worker: usize, number: usize) -> Vec<u8> {
    let mut frame = vec![(worker * 91 + number) as u8; 60 + (number * 37 + worker * 11) % 500];
    frame[0] = worker as u8;
    frame[1..5].copy_from_slice(&(number as u32).to_le_bytes());
    frame
}

fn refusal(joined: &Joined, side: usize) -> String {
    match joined.sides[side].port.status().state {
        PortState::Faulted(PortFault::Refused(why)) => why,
        other => panic!("no refusal but {other:?}"),
    }
}

#[test]
fn rejected_client_gets_the_reason_and_may_retry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let secret = |words| Options { secret: Secret::new(words), ..options() };
    for (server, client, why) in [
        (options(), Options { id: 7, ..options() }, "it wants interface 7, and this port is 0"),
        (secret("abc"), options(), "it does not know the secret"),
        (secret("abc"), secret("abd"), "it does not know the secret"),
    ] {
        let joined = Joined::new(&path, server, client);
        assert_eq!(refusal(&joined, 0), why);
        assert!(refusal(&joined, 1).contains(why), "{}", refusal(&joined, 1));
        assert!(joined.sides.iter().all(|side| side.engine.rx.is_empty() && side.engine.tx.is_empty()));
        assert!(joined.sides[1].port.status().connects > 1, "it tries again");
    }
    let joined = Joined::alike(&path, secret("abc"));
    assert_eq!(joined.sides[0].engine.rx.len(), 1, "the same words on both sides");
}

#[test]
fn client_accepts_smaller_server_limits() {
    let dir = tempfile::tempdir().unwrap();
    let large = Options { queue_pairs: 4, ring_size: 1024, ..options() };
    let mut joined = Joined::new(&dir.path().join("s"), Options { queue_pairs: 2, ..options() }, large);
    for side in &joined.sides {
        let status = side.port.status();
        assert_eq!((status.queues.len(), status.queues[0].size), (2, 128), "{status:?}");
    }
    let frames = [frame(300, 1)];
    assert_eq!(joined.pass(0, 1, &frames), frames);
}

#[test]
fn either_side_disconnects_and_reconnects() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut joined = Joined::alike(&path, options());
    for lap in 1..6 {
        let closed = lap % 2;
        let now = joined.now;
        joined.sides[closed].engine = FakeEngine::default();
        joined.sides[closed].port.close(&mut FakeEngine::default());
        joined.settle();
        assert!(matches!(joined.sides[1 - closed].port.status().state, PortState::Waiting(_)));
        assert!(joined.sides[1 - closed].engine.rx.is_empty());
        let again = match closed {
            0 => Memif::listen(&path, options()),
            _ => Memif::connect(&path, options(), now),
        };
        joined.sides[closed] = Side::new(again.unwrap());
        // Longer than the maximum pause.
        (0..10).for_each(|_| joined.settle());
        let frames = [frame(64, lap)];
        assert_eq!(joined.pass(0, 0, &frames), frames, "lap {lap}");
        assert_eq!(joined.pass(1, 0, &frames), frames, "lap {lap}");
    }
}

#[test]
fn hung_worker_prevents_a_new_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut joined = Joined::alike(&path, options());
    joined.sides[0].engine.failure = Some(PortFault::WorkerHung(0));
    let mut again = Side::new(Memif::connect(&path, options(), joined.now).unwrap());
    std::mem::swap(&mut joined.sides[1], &mut again);
    again.port.close(&mut again.engine);
    (0..3).for_each(|_| joined.settle());
    assert_eq!(joined.sides[0].port.status().state, PortState::Faulted(PortFault::WorkerHung(0)));
    assert!(joined.sides[1].engine.rx.is_empty(), "the client has no running rings");
}

/// Retained packets do not block the ring: half of a client's buffers are never lent, and a server's port lends none
/// of the client's.
#[test]
fn retained_packets_outlive_their_burst() {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::alike(&dir.path().join("s"), options());
    let (mut retainer, mut kept, mut lent) = (Retainer::new(4096).unwrap(), VecDeque::new(), [0, 0]);
    for lap in 0..400 {
        // Seven short frames, and one in several buffers.
        let frames: Vec<_> =
            (0..8).map(|k| frame(if k == 5 { 6000 } else { 200 + 100 * k }, lap + k)).collect();
        for to in [0, 1] {
            let [server, client] = &mut joined.sides;
            let (tx, rx) = if to == 1 { (server.tx(0), client.rx(0)) } else { (client.tx(0), server.rx(0)) };
            assert_eq!(send(tx, &burst_of(&frames)).unwrap().0, 8, "lap {lap}");
            let mut taken = 0;
            while taken < 8 {
                let (mut burst, _) = receive(rx).unwrap();
                for i in 0..burst.len() {
                    let packet = burst.retain::<Portable>(i, &mut retainer).unwrap();
                    lent[to] += usize::from(packet.is_lent());
                    kept.push_back((packet, frames[taken].clone()));
                    taken += 1;
                }
                rx.complete(burst.buf_ids());
            }
        }
        // Released out of order.
        while kept.len() > 100 {
            let (packet, frame) = kept.swap_remove_back(lap * 7 % 50).unwrap();
            let mut bytes = vec![0; packet.len()];
            packet.copy_to(&mut bytes);
            assert!(bytes == frame, "lap {lap}");
        }
    }
    assert!(lent[0] == 0 && lent[1] > 1000, "{lent:?}");
}

#[test]
fn retained_packets_survive_a_disconnect() {
    let dir = tempfile::tempdir().unwrap();
    let mut joined = Joined::alike(&dir.path().join("s"), options());
    let (mut retainer, mut kept) = (Retainer::new(64).unwrap(), VecDeque::new());
    let frames: Vec<_> = (0..8).map(|k| frame(200 + 100 * k, k)).collect();
    let [server, client] = &mut joined.sides;
    assert_eq!(send(server.tx(0), &burst_of(&frames)).unwrap().0, 8);
    let (mut burst, _) = receive(client.rx(0)).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        let packet = burst.retain::<Portable>(i, &mut retainer).unwrap();
        assert!(packet.is_lent());
        kept.push_back((packet, frame.clone()));
    }
    client.rx(0).complete(burst.buf_ids());
    drop(burst);
    drop(joined);
    for (packet, frame) in kept {
        let mut bytes = vec![0; packet.len()];
        packet.copy_to(&mut bytes);
        assert!(bytes == frame);
    }
}
