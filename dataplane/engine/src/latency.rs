//! Latency through the switch: histograms of sampled packets, by output port.
//!
//! Buckets are log-linear, four for each power of two from 64 ns to 67 ms, so that a quantile is at most a quarter too
//! high. A histogram has one writer, the worker that sends, and is allocated when the first transmit queue of a port
//! starts there. A port that reuses a number subtracts what the histograms had before.

use crate::counters::{Counter, WorkerCounters};
use port::PortId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Power of two below which all times are in the first bucket.
const FIRST: u32 = 6;
/// Powers of two with buckets of their own.
const OCTAVES: usize = 20;
/// Buckets of a power of two.
const PARTS: usize = 4;
/// All buckets; the first and the last have the times outside.
const BUCKETS: usize = OCTAVES * PARTS + 2;

/// Counts of one worker for one output port.
#[derive(Debug)]
pub(crate) struct LatencyCounters {
    buckets: [Counter; BUCKETS],
    sum_ns: Counter,
    /// Sampled rings, and their entries with the peer.
    rings: Counter,
    entries: Counter,
}

impl Default for LatencyCounters {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum_ns: Counter::default(),
            rings: Counter::default(),
            entries: Counter::default(),
        }
    }
}

impl LatencyCounters {
    /// Counts `packets` packets with a latency of `ns` nanoseconds.
    pub(crate) fn add(&self, ns: u64, packets: u64) {
        self.buckets[bucket(ns)].add(packets);
        self.sum_ns.add(ns.saturating_mul(packets));
    }

    /// Counts a ring with this number of entries with the peer.
    pub(crate) fn add_depth(&self, entries: u64) {
        self.rings.add(1);
        self.entries.add(entries);
    }
}

/// Index of the bucket of a time.
fn bucket(ns: u64) -> usize {
    let Some(octave) = (ns | 1).ilog2().checked_sub(FIRST) else { return 0 };
    let part = ns >> (octave + FIRST - PARTS.ilog2()) & (PARTS as u64 - 1);
    (1 + octave as usize * PARTS + part as usize).min(BUCKETS - 1)
}

/// The time at which a bucket ends; `None` for the last one.
fn end(bucket: usize) -> Option<u64> {
    let Some(place) = bucket.checked_sub(1) else { return Some(1 << FIRST) };
    let (octave, part) = (place / PARTS, place % PARTS);
    (bucket < BUCKETS - 1).then(|| ((PARTS + part + 1) as u64) << (octave as u32 + FIRST - PARTS.ilog2()))
}

/// Sums over all workers for one port number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatencyTotals {
    buckets: Box<[u64]>,
    sum_ns: u64,
    depth: DepthSnapshot,
    transmit: RingDepthSnapshot,
}

impl LatencyTotals {
    pub(crate) fn of(id: PortId, workers: &[Arc<WorkerCounters>]) -> Self {
        let (depth, transmit) = (DepthSnapshot::default(), RingDepthSnapshot::default());
        let mut totals = Self { buckets: vec![0; BUCKETS].into(), sum_ns: 0, depth, transmit };
        for port in workers.iter().map(|worker| worker.port(id)) {
            totals.depth.polls += port.sampled_polls.get();
            totals.depth.packets += port.sampled_packets.get();
        }
        for counters in workers.iter().filter_map(|worker| worker.latency(id)) {
            for (total, counter) in totals.buckets.iter_mut().zip(&counters.buckets) {
                *total += counter.get();
            }
            totals.sum_ns = totals.sum_ns.wrapping_add(counters.sum_ns.get());
            totals.transmit.rings += counters.rings.get();
            totals.transmit.entries += counters.entries.get();
        }
        totals
    }

    /// Depth of the receive queues since the totals `before`; `None` if no poll was sampled.
    pub(crate) fn depth_since(&self, before: &Self) -> Option<DepthSnapshot> {
        let polls = self.depth.polls.wrapping_sub(before.depth.polls);
        let packets = self.depth.packets.wrapping_sub(before.depth.packets);
        (polls > 0).then_some(DepthSnapshot { polls, packets })
    }

    /// Depth of the transmit rings since the totals `before`; `None` if no ring was sampled.
    pub(crate) fn transmit_since(&self, before: &Self) -> Option<RingDepthSnapshot> {
        let rings = self.transmit.rings.wrapping_sub(before.transmit.rings);
        let entries = self.transmit.entries.wrapping_sub(before.transmit.entries);
        (rings > 0).then_some(RingDepthSnapshot { rings, entries })
    }

    /// The histogram since the totals `before`; `None` if no packet was sampled.
    pub(crate) fn since(&self, before: &Self) -> Option<LatencySnapshot> {
        let counts = self.buckets.iter().zip(&before.buckets).map(|(now, before)| now.wrapping_sub(*before));
        let buckets: Vec<_> = (0..BUCKETS).zip(counts).filter(|(_, packets)| *packets > 0).collect();
        let buckets = buckets.into_iter().map(|(at, packets)| LatencyBucket { up_to_ns: end(at), packets });
        let sum_ns = self.sum_ns.wrapping_sub(before.sum_ns);
        let snapshot = LatencySnapshot { sum_ns, buckets: buckets.collect() };
        (!snapshot.buckets.is_empty()).then_some(snapshot)
    }
}

/// Latencies of sampled packets, from the end of their reception to the end of the call that sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LatencySnapshot {
    /// Sum of the latencies in nanoseconds.
    pub sum_ns: u64,
    /// Buckets with packets, in ascending order.
    pub buckets: Vec<LatencyBucket>,
}

/// Packets that waited in receive queues of a port when they were polled, in sampled polls that found some. A poll
/// takes at most a burst of 64 packets, so that 64 means at least 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DepthSnapshot {
    /// Sampled polls.
    pub polls: u64,
    /// Packets that they found.
    pub packets: u64,
}

/// Entries of transmit rings of a port that the peer had not returned when a sampled burst had been sent: packets that
/// wait, and in the ring of a guest also buffers that it has not offered again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RingDepthSnapshot {
    /// Sampled rings.
    pub rings: u64,
    /// Sum of their entries.
    pub entries: u64,
}

/// One bucket of a histogram: packets with at most this latency and more than that of the buckets before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LatencyBucket {
    /// End of the bucket in nanoseconds; null for the last one, which has no end.
    pub up_to_ns: Option<u64>,
    /// Number of sampled packets.
    pub packets: u64,
}

impl LatencySnapshot {
    /// Number of sampled packets.
    pub fn packets(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.packets).sum()
    }

    /// Latency that a `share` of the packets does not exceed, in nanoseconds; 1 is the maximum. `None` without packets.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = ((self.packets() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|bucket| {
            seen += bucket.packets;
            seen >= wanted
        })?;
        Some(found.up_to_ns.unwrap_or(1 << (FIRST + OCTAVES as u32)))
    }

    /// The packets since the histogram `before` of the same port.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let old = |up_to_ns| {
            before.buckets.iter().find(|own| own.up_to_ns == up_to_ns).map_or(0, |own| own.packets)
        };
        let buckets = self
            .buckets
            .iter()
            .map(|own| LatencyBucket { packets: own.packets.saturating_sub(old(own.up_to_ns)), ..*own });
        let buckets = buckets.filter(|own| own.packets > 0).collect();
        Self { sum_ns: self.sum_ns.saturating_sub(before.sum_ns), buckets }
    }

    /// Cumulative counts at the powers of two, as Prometheus wants them: end in nanoseconds and packets up to there.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..OCTAVES as u32).map(|octave| {
            let end = 1_u64 << (octave + FIRST + 1);
            let below = self.buckets.iter().filter(|own| own.up_to_ns.is_some_and(|up_to| up_to <= end));
            (end, below.map(|own| own.packets).sum())
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_no_gap_and_are_a_quarter_wide() {
        assert_eq!((bucket(0), bucket(63), bucket(64), bucket(u64::MAX)), (0, 0, 1, BUCKETS - 1));
        for at in 0..BUCKETS - 1 {
            let end = end(at).unwrap();
            assert_eq!((bucket(end - 1), bucket(end)), (at, at + 1), "{end}");
        }
        assert_eq!(
            (end(1), end(4), end(BUCKETS - 2), end(BUCKETS - 1)),
            (Some(80), Some(128), Some(1 << 26), None)
        );
    }

    #[test]
    fn quantiles_are_ends_of_buckets_and_a_reused_number_starts_at_zero() {
        let id = PortId(3);
        let workers = [Arc::new(WorkerCounters::new(8)), Arc::new(WorkerCounters::new(8))];
        let before = LatencyTotals::of(id, &workers);
        assert_eq!(before.since(&before), None);
        for worker in &workers {
            worker.open_latency(id);
            worker.count_latency(id, 1_000, 49);
            worker.count_latency(id, 100_000, 1);
        }
        let now = LatencyTotals::of(id, &workers);
        let latency = now.since(&before).unwrap();
        assert_eq!((latency.packets(), latency.sum_ns), (100, 2 * 149_000));
        assert_eq!(
            [0.5, 0.98, 0.99, 1.0].map(|share| latency.quantile(share).unwrap()),
            [1024, 1024, 114_688, 114_688]
        );
        assert_eq!(now.since(&now), None);
        workers[0].count_latency(id, 1 << 40, 5);
        let later = LatencyTotals::of(id, &workers).since(&before).unwrap();
        assert_eq!(later.since(&latency).buckets, [LatencyBucket { up_to_ns: None, packets: 5 }]);
        let cumulative: Vec<_> = later.cumulative().collect();
        assert_eq!(
            (cumulative[3], cumulative[10], cumulative[19]),
            ((1024, 98), (131_072, 100), (1 << 26, 100))
        );
    }
}
