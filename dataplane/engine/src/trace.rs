//! Packets that a capture follows on their way through a worker: each has a number, so that the records of its
//! reception, its sending and its drop join.
//!
//! A packet is known by its burst and its index there; copies that a pipeline has edited have the index of the original
//! one. Only the packets of the last bursts are known, so memory is bounded.

use crate::command::QueueKey;
use mem::ticks;
use port::pcap::TraceStep;
use port::{Now, PortId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Packets that a worker knows at one time: those of four full bursts.
const MOST: usize = 256;
const SECOND: u64 = 1_000_000_000;

/// Options of a capture that follows packets.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Maximum number of packets per second on each worker; at most one full burst at once.
    pub rate: u32,
    /// Ports whose received packets are followed, by number; `None`: all.
    pub ports: Option<Vec<u16>>,
    /// Number of the last packet, of all workers.
    pub numbers: Arc<AtomicU32>,
}

/// A burst of a worker: the start of the round that received it, and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BurstKey {
    pub(crate) now: Now,
    pub(crate) from: QueueKey,
}

/// A packet of a burst.
pub(crate) type PacketKey = (BurstKey, u8);

/// A packet that is followed.
#[derive(Debug)]
struct Live {
    packet: PacketKey,
    number: u32,
    /// When it was received, in ticks.
    received: u64,
    verdict_ns: u32,
}

/// One worker's packets.
#[derive(Debug)]
pub(crate) struct Tracer {
    options: TraceOptions,
    ticks_per_ns: f64,
    live: VecDeque<Live>,
    /// Nanoseconds of the clock of bursts for which the rate was not used yet.
    credit: u64,
    at: Now,
    skipped: u32,
}

impl Tracer {
    pub(crate) fn new(options: TraceOptions, ticks_per_ns: f64) -> Self {
        let live = VecDeque::with_capacity(MOST);
        Self { options, ticks_per_ns, live, credit: SECOND / 10, at: Now(0), skipped: 0 }
    }

    /// Whether packets that a port has received are followed.
    pub(crate) fn follows(&self, port: PortId) -> bool {
        self.options.ports.as_ref().is_none_or(|ports| ports.contains(&port.0))
    }

    /// Begins to follow a received packet, unless there are too many.
    pub(crate) fn receive(&mut self, packet: PacketKey) -> Option<TraceStep> {
        let now = packet.0.now;
        self.credit = self.credit.saturating_add(now.0.saturating_sub(self.at.0)).min(SECOND / 10);
        self.at = now;
        let price = SECOND / u64::from(self.options.rate.max(1));
        // A rate below ten per second needs more credit than is saved.
        if self.credit < price.min(SECOND / 10) {
            self.skipped = self.skipped.saturating_add(1);
            return None;
        }
        self.credit = self.credit.saturating_sub(price);
        if self.live.len() == MOST {
            self.live.pop_front();
        }
        let number = self.options.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.live.push_back(Live { packet, number, received: ticks(), verdict_ns: 0 });
        let skipped = std::mem::take(&mut self.skipped);
        Some(TraceStep { number, verdict_ns: 0, since_ns: 0, skipped })
    }

    /// The pipeline has classified a burst.
    pub(crate) fn classified(&mut self, burst: BurstKey) {
        let (now, ticks_per_ns) = (ticks(), self.ticks_per_ns);
        for live in self.live.iter_mut().filter(|live| live.packet.0 == burst) {
            live.verdict_ns = since(live, now, ticks_per_ns);
        }
    }

    /// The step of a packet that was sent or dropped, if it is followed.
    pub(crate) fn step(&self, packet: Option<PacketKey>) -> Option<TraceStep> {
        let live = self.live.iter().rev().find(|live| Some(live.packet) == packet)?;
        let since_ns = since(live, ticks(), self.ticks_per_ns);
        Some(TraceStep { number: live.number, verdict_ns: live.verdict_ns, since_ns, skipped: 0 })
    }
}

/// Nanoseconds since a packet was received.
fn since(live: &Live, now: u64, ticks_per_ns: f64) -> u32 {
    (now.saturating_sub(live.received) as f64 / ticks_per_ns) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn packet(now: u64, index: u8) -> PacketKey {
        (BurstKey { now: Now(now), from: QueueKey { port: PortId(1), pair: 0 } }, index)
    }

    #[test]
    fn packets_beyond_the_rate_are_counted_and_others_keep_their_number() {
        let options = TraceOptions { rate: 100, ports: None, numbers: Arc::default() };
        let mut tracer = Tracer::new(options, 1.0);
        let followed: Vec<_> = (0..64).filter_map(|index| tracer.receive(packet(5, index))).collect();
        assert_eq!(followed.len(), 10, "a tenth of a second at once");
        let next = tracer.receive(packet(5 + SECOND / 100, 0)).unwrap();
        assert_eq!((next.number, next.skipped), (11, 54));
        assert!(tracer.receive(packet(5 + SECOND / 100, 1)).is_none());
        tracer.classified(packet(5, 0).0);
        assert_eq!(tracer.step(Some(packet(5, 3))).unwrap().number, 4);
        assert!(tracer.step(Some(packet(5, 10))).is_none() && tracer.step(None).is_none());
    }

    #[test]
    fn only_the_last_packets_are_known() {
        let mut tracer =
            Tracer::new(TraceOptions { rate: 1_000_000, ports: None, numbers: Arc::default() }, 1.0);
        for now in 0..5 {
            for index in 0..64 {
                tracer.receive(packet(now, index));
            }
        }
        assert!(tracer.step(Some(packet(0, 63))).is_none());
        assert_eq!(tracer.step(Some(packet(1, 0))).unwrap().number, 65);
    }
}
