//! Receive queues move between workers under traffic, without loss, change or delay of packets.

use crate::guest::{Ending, Guest, Limit, PAIRS};
use crate::rig::{Rig, assert_sums_agree};
use crate::scope::pick;
use engine::placement::{QueueAffinity, QueueName};
use port::PortId;
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NAMES: [&str; 2] = ["left", "right"];
/// Maximum number of frames in flight to one guest: less than the size of any ring.
const MAX_IN_FLIGHT: u64 = 70;

/// Two guests that send to each other, limited to the available buffers.
struct Talk<R> {
    guests: [Guest<R>; 2],
}

impl<R: DriverRing> Talk<R> {
    fn new(rig: &Rig, packed: bool) -> Self {
        let plug = |n: u8| Guest::plug_in(&rig.socket(NAMES[usize::from(n)]), n, packed);
        Self { guests: [plug(0), plug(1)] }
    }

    fn step(&mut self, n: usize) {
        for at in 0..2 {
            let away = self.guests[at].posted() - self.guests[1 - at].counts.received;
            let peers = [self.guests[1 - at].number];
            let peers: &[u8] = if away < MAX_IN_FLIGHT { &peers } else { &[] };
            self.guests[at].step_with(peers, n);
        }
    }

    /// Sends until `done`, then until all frames have arrived.
    fn live(mut self, done: &AtomicBool) -> Self {
        while !done.load(Ordering::Relaxed) {
            self.step(16);
        }
        let limit = Limit::new();
        while (0..2).any(|at| self.guests[at].posted() > self.guests[1 - at].counts.received) {
            limit.check("every frame that was sent");
            self.guests.iter_mut().for_each(|guest| guest.step(&[]));
        }
        self.guests.iter_mut().for_each(|guest| guest.drain(5));
        self
    }
}

/// A switch with both guests and all rings running.
fn talking<R: DriverRing>(rig: &Rig, packed: bool) -> ([PortId; 2], Talk<R>) {
    let ids = NAMES.map(|name| rig.add(name));
    let mut talk = Talk::new(rig, packed);
    for name in NAMES {
        let running = |port: &engine::PortSnapshot| {
            port.queues.iter().filter(|queue| queue.rx_running && queue.tx_running).count()
                == usize::from(PAIRS)
        };
        rig.wait(name, "its queues", running);
    }
    // Afterwards all stations are learned, so that nothing is flooded.
    let limit = Limit::new();
    while talk.guests.iter().any(|guest| guest.counts.received < 200) {
        limit.check("first frames");
        talk.step(1);
    }
    (ids, talk)
}

fn workers(rig: &Rig) -> Vec<(String, u16, usize)> {
    let queues = rig.engine.queues().unwrap();
    queues.into_iter().map(|queue| (queue.port, queue.pair, queue.worker)).collect()
}

pub(crate) fn scenario<R: DriverRing>(rig: Rig, packed: bool) {
    let (ids, talk) = talking::<R>(&rig, packed);
    let done = AtomicBool::new(false);
    let talk = std::thread::scope(|s| {
        let _ending = Ending(&done);
        let run = s.spawn(|| talk.live(&done));
        for n in 0..pick(150, 24) {
            let (port, pair) = (ids[n % 2], (n / 2) as u16 % PAIRS);
            let to = (n / 4) % 2;
            rig.engine.move_queue(port, pair, to).unwrap();
            assert!(workers(&rig).contains(&(NAMES[n % 2].to_owned(), pair, to)), "move {n}");
            rig.wait_for_traffic(&NAMES, 100);
        }
        done.store(true, Ordering::Relaxed);
        run.join().unwrap()
    });
    let now = rig.engine.snapshot();
    for (guest, name) in talk.guests.iter().zip(NAMES) {
        let port = now.ports.iter().find(|port| port.name == name).unwrap();
        assert_eq!((port.reason.as_ref(), port.drops.len()), (None, 0), "{port:?}");
        assert_eq!((port.rx_packets, port.tx_packets), (guest.counts.sent, guest.counts.received));
        assert_eq!(guest.posted(), guest.counts.sent);
    }
    assert!(now.workers.iter().all(|worker| worker.packets > 0), "{:?}", now.workers);
    assert_sums_agree(&now);
    rig.engine.stop().unwrap();
}

#[test]
fn queues_that_move_lose_and_reorder_nothing_over_split_rings() {
    scenario::<Split>(Rig::new(), false);
}

#[test]
fn queues_that_move_lose_and_reorder_nothing_over_packed_rings() {
    scenario::<Packed>(Rig::new(), true);
}

#[test]
fn overloaded_worker_is_relieved() {
    let rig = Rig::new();
    let (ids, talk) = talking::<Split>(&rig, false);
    for (id, pair) in ids.iter().flat_map(|id| (0..PAIRS).map(move |pair| (*id, pair))) {
        rig.engine.move_queue(id, pair, 0).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        s.spawn(|| talk.live(&done));
        let limit = Limit::new();
        let measure = |moves| rig.engine.rebalance(Duration::from_millis(20), 0.01, moves).unwrap();
        let would = loop {
            limit.check("something to gain");
            let found = measure(false);
            if !found.moves.is_empty() {
                break found;
            }
        };
        assert!(!would.done && would.queues.len() == 4, "{would:?}");
        assert!(would.worst().1 < would.worst().0, "{would:?}");
        assert!(workers(&rig).iter().all(|(.., worker)| *worker == 0), "a dry run moves nothing");
        while workers(&rig).iter().all(|(.., worker)| *worker == 0) {
            limit.check("a move");
            let found = measure(true);
            assert!(found.moves.iter().all(|step| step.failure.is_none()), "{found:?}");
        }
        rig.wait_for_traffic(&NAMES, 500);
        done.store(true, Ordering::Relaxed);
    });
    assert_sums_agree(&rig.engine.snapshot());
}

#[test]
fn queues_start_and_stay_where_rules_assign_them() {
    let rig = Rig::new();
    let name = |text: &str| QueueName::parse(text, |name| NAMES.contains(&name)).unwrap();
    let affinity = QueueAffinity::arrange(2, &[(name("left.0"), 0)], &[name("right.1")]).unwrap();
    rig.engine.set_queue_affinity(affinity).unwrap();
    for name in NAMES {
        rig.add(name);
    }
    let mut talk = Talk::<Split>::new(&rig, false);
    let limit = Limit::new();
    while talk.guests.iter().any(|guest| guest.counts.received < 200) {
        limit.check("first frames");
        talk.step(1);
    }
    let expected = [("left", 0, 0), ("left", 1, 0), ("right", 0, 0), ("right", 1, 1)];
    assert_eq!(workers(&rig), expected.map(|(name, pair, worker)| (name.to_owned(), pair, worker)));
    let bound = rig.engine.queues().unwrap();
    assert_eq!(bound.iter().filter(|queue| queue.stays.is_some()).count(), 2, "{bound:?}");
}
