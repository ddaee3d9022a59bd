//! Tests over a pair of patch ports, so that sent packets are received at the other end.

use super::*;
use crate::memif::Options;
use crate::patch::{Exchange, Patch};
use crate::vhost_user::fake::FakeEngine;
use crate::{Flush, PortControl, RxQueue};
use mem::copy::Portable;
use proptest::prelude::*;
use std::time::{Duration, Instant};

const RING: u16 = 128;

struct Wire {
    queue: GatherTx<Portable>,
    other: Box<dyn RxQueue>,
    stats: BurstStats,
    /// Keeps both ends alive.
    _ends: [Patch; 2],
}

impl Wire {
    fn new(packets: u16, delay: Option<Duration>) -> Self {
        let (exchange, now) = (Exchange::default(), Instant::now());
        let options = Options { ring_size: RING, ..Options::default() };
        let mut ends =
            [("a", "b"), ("b", "a")].map(|(name, peer)| Patch::new(name, peer, options, &exchange).unwrap());
        let mut engines = [FakeEngine::default(), FakeEngine::default()];
        for _ in 0..2 {
            for (end, engine) in ends.iter_mut().zip(&mut engines) {
                end.handle(now, engine);
            }
        }
        let [one, two] = &mut engines;
        let inner = one.tx.remove(&0).unwrap();
        let queue = GatherTx::new(inner, TxCoalesce { frames: packets, delay }).unwrap();
        Self { queue, other: two.rx.remove(&0).unwrap(), stats: BurstStats::default(), _ends: ends }
    }

    /// Sends frames of these lengths, filled with their numbers from `first` on. Returns the number taken.
    fn send(&mut self, now: u64, first: usize, lengths: &[usize]) -> usize {
        let mut burst = Burst::new();
        let arena = Arena::new(lengths.len(), MAX_PACKET).unwrap();
        burst.begin(0);
        burst.set_now(Now(now));
        burst.pin(arena.map());
        for (i, len) in lengths.iter().enumerate() {
            let frame = arena.slot(i).split_at(*len).0;
            // SAFETY: the arena keeps its memory table alive, and the lengths are equal.
            unsafe { frame.copy_in::<Portable>(&vec![(first + i) as u8; *len]) };
            burst.push_kept(frame);
        }
        burst.load_heads::<Portable>();
        self.queue.tx(&burst, &PLACES[..lengths.len()], &mut self.stats).unwrap()
    }

    /// First bytes and lengths of the frames received at the other end.
    fn receive(&mut self) -> Vec<(u8, usize)> {
        let (mut burst, mut came) = (Burst::new(), vec![]);
        loop {
            burst.begin(0);
            self.other.rx(&mut burst, &mut BurstStats::default()).unwrap();
            burst.load_heads::<Portable>();
            came.extend((0..burst.len()).map(|i| (burst.head(i)[0], burst.frame_len(i))));
            self.other.complete(burst.buf_ids());
            if burst.is_empty() {
                return came;
            }
        }
    }

    fn flush(&mut self, now: u64, due: Flush) -> bool {
        self.queue.flush(Now(now), due, &mut self.stats).unwrap()
    }
}

#[test]
fn packets_leave_at_the_frame_threshold() {
    let mut wire = Wire::new(4, None);
    assert_eq!(wire.send(0, 0, &[60; 3]), 3);
    assert!(wire.receive().is_empty() && !wire.flush(u64::MAX / 2, Flush::Waited));
    assert_eq!(wire.stats, BurstStats::default(), "kept packets are neither sent nor lost");
    assert_eq!(wire.send(1, 3, &[60; 3]), 3);
    assert_eq!(wire.receive(), [(0, 60), (1, 60), (2, 60), (3, 60)]);
    assert!(wire.flush(2, Flush::All));
    assert_eq!(wire.receive(), [(4, 60), (5, 60)]);
    assert_eq!((wire.stats.packets, wire.stats.bytes), (6, 360));
}

#[test]
fn idle_flush_sends_packets_without_a_time_limit_only() {
    let mut wire = Wire::new(4, None);
    wire.send(0, 0, &[60]);
    assert!(wire.flush(1, Flush::Idle) && !wire.flush(2, Flush::Idle));
    let mut limited = Wire::new(4, Some(Duration::from_micros(20)));
    limited.send(1_000, 0, &[60]);
    assert!(!limited.flush(20_999, Flush::Idle) && limited.receive().is_empty());
    assert!(limited.flush(21_000, Flush::Idle));
    assert_eq!((wire.receive().len(), limited.receive().len()), (1, 1));
}

#[test]
fn first_packet_waits_at_most_the_limit() {
    let mut wire = Wire::new(64, Some(Duration::from_micros(20)));
    wire.send(1_000, 0, &[60]);
    wire.send(11_000, 1, &[60]);
    assert!(!wire.flush(20_999, Flush::Waited) && wire.receive().is_empty());
    assert!(wire.flush(21_000, Flush::Waited));
    assert_eq!(wire.receive().len(), 2);
    // The timeout restarts with the next packet.
    wire.send(30_000, 2, &[60]);
    assert!(!wire.flush(49_999, Flush::Waited) && wire.flush(50_000, Flush::Waited));
}

#[test]
fn full_ring_keeps_packets_and_then_refuses_more() {
    let mut wire = Wire::new(32, None);
    let taken: usize = (0..6).map(|n| wire.send(0, n * 32, &[60; 32])).sum();
    assert_eq!((taken, wire.stats.packets), (usize::from(RING) + 32, u64::from(RING)));
    assert_eq!(wire.receive().len(), usize::from(RING));
    assert!(wire.flush(1, Flush::All));
    assert_eq!((wire.receive().len(), wire.stats.packets), (32, u64::from(RING) + 32));
}

#[test]
fn packets_kept_at_removal_count_as_lost() {
    let mut wire = Wire::new(8, None);
    wire.send(0, 0, &[60; 5]);
    wire.queue.abandon(&mut wire.stats);
    assert_eq!(wire.stats.drops[DropReason::PortDown as usize], 5);
    assert!(!wire.flush(1, Flush::All) && wire.receive().is_empty());
}

proptest! {
    #[test]
    fn packets_leave_once_and_in_order(
        packets in 1..=256_u16,
        bursts in prop::collection::vec((prop::collection::vec(prop_oneof![60..300_usize, 60..65_551_usize], 1..64), 0..3_u8), 1..12),
    ) {
        let mut wire = Wire::new(packets, Some(Duration::from_nanos(50)));
        let (mut sent, mut came) = (vec![], vec![]);
        for (n, (lengths, then)) in bursts.iter().enumerate() {
            let mut at = 0;
            while at < lengths.len() {
                let first = sent.len();
                let taken = wire.send(n as u64 * 30, first, &lengths[at..]);
                sent.extend(lengths[at..at + taken].iter().enumerate().map(|(i, len)| ((first + i) as u8, *len)));
                at += taken;
                if taken == 0 || *then == 1 {
                    came.extend(wire.receive());
                }
            }
            if *then == 2 {
                wire.flush(n as u64 * 30, Flush::Waited);
            }
        }
        for _ in 0..1000 {
            came.extend(wire.receive());
            if !wire.flush(0, Flush::All) {
                break;
            }
        }
        came.extend(wire.receive());
        prop_assert_eq!(&sent, &came);
        prop_assert_eq!((wire.stats.packets, wire.stats.lost), (sent.len() as u64, 0));
    }
}
