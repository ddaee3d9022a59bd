//! Samples: the latency of a burst by output port, and the cycles of its steps.
//!
//! About once a millisecond of a running worker, one of the next bursts is sampled. A flag that captures use too
//! ([`super::transmit::Transmit`]) leads it through cold copies of the steps, so that the other bursts cost nothing
//! beyond the test of the flag. A sampled burst that is carried over takes the time of its reception along.
//!
//! The next burst itself would be a biased choice: a busy worker begins each round with the same queue, and packets
//! of timers arrive in the same order each millisecond. So a number of bursts is skipped that is spread evenly.

use crate::counters::{PortCounters, WorkerCounters};
use mem::ticks;
use port::{Burst, BurstStats, Now, PortFault, RxQueue};

/// Least time between two samples, in nanoseconds.
const INTERVAL: u64 = 1_000_000;
/// Least number of bursts of which each may be the sampled one.
const WINDOW: usize = 16;
/// 2^32 divided by the golden ratio. Multiples of it, modulo 2^32, are spread evenly, however many are taken.
const SPREAD: u32 = 0x9e37_79b9;

/// A burst in progress; times are ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Which of the worker's bursts it is.
    index: usize,
    /// Cycles of its reception, and the time of its end.
    receiving: u64,
    received: u64,
    /// When its pipeline began and ended.
    began: u64,
    classified: u64,
}

/// State of a worker's samples.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// Bursts before the one that will be sampled; `None` if none will be.
    armed: Option<usize>,
    /// When the next one is chosen, at the earliest.
    next: Now,
    /// The last multiple of [`SPREAD`].
    spread: u32,
    sample: Option<Sample>,
    /// Whether its packets are being sent now.
    is_sending: bool,
}

impl Sampler {
    /// Whether a burst is or will be sampled.
    pub(super) fn is_on(&self) -> bool {
        self.armed.is_some() || self.sample.is_some()
    }

    /// Has one of the next bursts sampled if the last sample was long ago. `queues` are those of the worker, each of
    /// which must be able to have it.
    pub(super) fn arm(&mut self, now: Now, queues: usize) {
        if now >= self.next && self.sample.is_none() && self.armed.is_none() {
            self.next = Now(now.0.saturating_add(INTERVAL));
            let window = queues.max(WINDOW) as u64;
            self.armed = Some(((u64::from(self.spread) * window) >> 32) as usize);
            self.spread = self.spread.wrapping_add(SPREAD);
        }
    }

    /// [`RxQueue::rx`] of burst `index`, which is sampled if it has packets and is the chosen one.
    pub(super) fn receive(
        &mut self,
        queue: &mut dyn RxQueue,
        (burst, index): (&mut Burst, usize),
        stats: &mut BurstStats,
        counters: &PortCounters,
    ) -> Result<(), PortFault> {
        let began = ticks();
        let taken = queue.rx(burst, stats);
        if burst.is_empty() {
            return taken;
        }
        if self.armed == Some(0) {
            let received = ticks();
            counters.sampled_polls.add(1);
            counters.sampled_packets.add(burst.len() as u64);
            let receiving = received.saturating_sub(began);
            self.sample = Some(Sample { index, receiving, received, ..Sample::default() });
        }
        self.armed = self.armed.and_then(|before| before.checked_sub(1));
        taken
    }

    /// The pipeline begins with burst `index`. Returns whether it is sampled.
    pub(super) fn begin(&mut self, index: usize) -> bool {
        let Some(sample) = self.sample.as_mut().filter(|sample| sample.index == index) else { return false };
        sample.began = ticks();
        self.is_sending = true;
        true
    }

    /// The pipeline ends.
    pub(super) fn classified(&mut self) {
        if let Some(sample) = &mut self.sample {
            sample.classified = ticks();
        }
    }

    /// The sampled burst, of `packets` packets, is sent and completed.
    pub(super) fn finish(&mut self, packets: usize, counters: &WorkerCounters) {
        if !std::mem::take(&mut self.is_sending) {
            return;
        }
        if let Some(sample) = self.sample.take() {
            counters.step_receive.add(sample.receiving);
            counters.step_pipeline.add(sample.classified.saturating_sub(sample.began));
            counters.step_transmit.add(ticks().saturating_sub(sample.classified));
            counters.sampled_packets.add(packets as u64);
        }
    }

    /// Ticks since the burst that is being sent was received; `None` if it is not sampled.
    pub(super) fn age(&self) -> Option<u64> {
        self.sample.filter(|_| self.is_sending).map(|sample| ticks().saturating_sub(sample.received))
    }

    /// Burst `index` is carried over: returns when it was received, if it is sampled.
    pub(super) fn take(&mut self, index: usize) -> Option<u64> {
        let taken = self.sample.take_if(|sample| sample.index == index)?;
        self.is_sending = false;
        Some(taken.received)
    }

    /// Continues with a burst that was carried over. Its steps are not counted.
    pub(super) fn resume(&mut self, received: u64) {
        self.sample = Some(Sample { index: usize::MAX, received, ..Sample::default() });
        self.is_sending = true;
    }

    /// The turn of a burst that was carried over ends.
    pub(super) fn pause(&mut self) {
        self.take(usize::MAX);
    }
}
