//! Mismatched burst sizes (144/32): a pipeline whose unit exceeds the port's maximum burst and drops the rest.
//!
//! A switch of the study wrote and read its rings 144 packets at a time, while the driver sent at most 32 per call: 112
//! of 144 were lost each time. This module builds the same stage from our ring and our port with that limit, and
//! compares it with linerate's design: a unit is never larger than a burst, a call of [`TxQueue::tx`] returns the
//! number of packets it is done with, and the caller offers the others again or counts them under a drop reason.

use super::budget::BudgetError;
use super::queues::{Frames, Wire, discard};
use port::{BURST, Burst, BurstStats, DropReason, PLACES, PortFault, RxQueue, TxQueue};
use ring::spsc::{Consumer, Producer, ring};
use serde::{Deserialize, Serialize};
use std::time::Instant;

const RING: u16 = 1024;
const SIZE: usize = 64;
/// Packets per call of the study's driver, and unit of its pipeline.
pub const DRIVER: usize = 32;
/// See [`DRIVER`].
pub const UNIT: usize = 144;

/// Handling of packets that the port did not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rest {
    /// Dropped.
    Dropped,
    /// Offered to the port again.
    Retried,
}

/// Result of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Packets that it takes from its ring at once.
    pub unit: usize,
    /// Maximum packets per call of the port; `None`: as many as it has room for.
    pub most: Option<usize>,
    /// Handling of packets that the port did not accept.
    pub rest: Rest,
    /// Packets taken from the ring.
    pub taken: u64,
    /// Packets that the port counted as sent.
    pub sent: u64,
    /// Packets counted as lost, all of them under `queue-full`.
    pub lost: u64,
    /// Packets received at the other end.
    pub came: u64,
    /// Millions of received packets per second.
    pub mpps: f64,
}

/// A port that accepts at most `most` packets per call, like the study's driver.
struct AtMost<'a> {
    inner: &'a mut dyn TxQueue,
    most: usize,
}

impl AtMost<'_> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        self.inner.tx(burst, &indices[..indices.len().min(self.most)], stats)
    }
}

/// Runs the mismatched stage, the study's fix (a unit of 32), the mismatched stage with retries, and linerate's design,
/// over `units` units of packets each.
pub fn measure(units: u64) -> Result<Vec<Stage>, BudgetError> {
    let kinds = [
        (UNIT, Some(DRIVER), Rest::Dropped),
        (DRIVER, Some(DRIVER), Rest::Dropped),
        (UNIT, Some(DRIVER), Rest::Retried),
        (BURST, None, Rest::Retried),
    ];
    let packets = units * UNIT as u64;
    kinds.into_iter().map(|(unit, most, rest)| run(unit, most, rest, packets)).collect()
}

/// Runs one stage for `packets` packets. The stage and its neighbours run alternately on one core.
fn run(unit: usize, most: Option<usize>, rest: Rest, packets: u64) -> Result<Stage, BudgetError> {
    let (mut before, mut behind) = ring::<u64>(usize::from(RING));
    let mut wire = Wire::new(RING, None)?;
    let frames = Frames::new(BURST, SIZE);
    let (mut stats, mut taken, mut came, mut given) = (BurstStats::default(), 0, 0, 0);
    let (mut burst, began) = (Burst::new(), Instant::now());
    while taken < packets {
        given = give(&mut before, given, packets);
        let mut port = AtMost { inner: wire.tx.as_mut(), most: most.unwrap_or(usize::MAX) };
        let n = take(&mut behind, unit.min((packets - taken) as usize));
        taken += n as u64;
        send(&mut port, &frames.burst, (n, rest), &mut stats, wire.rx.as_mut(), &mut came)?;
        came += discard(wire.rx.as_mut(), &mut burst)? as u64;
    }
    came += drain(wire.rx.as_mut())?;
    let mpps = came as f64 / began.elapsed().as_secs_f64() / 1e6;
    let lost = stats.drops[DropReason::QueueFull as usize];
    Ok(Stage { unit, most, rest, taken, sent: stats.packets, lost, came, mpps })
}

/// The previous stage: pushes numbers while there is room; returns the next number.
fn give(ring: &mut Producer<u64>, from: u64, until: u64) -> u64 {
    from + ring.push_all(&mut (from..until)) as u64
}

fn take(ring: &mut Consumer<u64>, most: usize) -> usize {
    ring.drain(most).count()
}

/// The stage itself: sends `n` packets in as many bursts as they need.
fn send(
    port: &mut AtMost<'_>,
    frames: &Burst,
    (n, rest): (usize, Rest),
    stats: &mut BurstStats,
    sink: &mut dyn RxQueue,
    came: &mut u64,
) -> Result<(), PortFault> {
    if rest == Rest::Dropped {
        // One call for the whole unit, as in the study.
        let done = port.tx(frames, &PLACES[..n.min(BURST)], stats)?;
        stats.drop(DropReason::QueueFull, (n - done) as u64);
        return Ok(());
    }
    let mut left = n;
    while left > 0 {
        let done = port.tx(frames, &PLACES[..left.min(BURST)], stats)?;
        left -= done;
        if done == 0 {
            *came += drain(sink)?;
        }
    }
    Ok(())
}

/// The next stage: takes all available packets.
fn drain(sink: &mut dyn RxQueue) -> Result<u64, PortFault> {
    let (mut burst, mut came) = (Burst::new(), 0);
    loop {
        match discard(sink, &mut burst)? {
            0 => return Ok(came),
            n => came += n as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mismatched_units_lose_112_of_144_and_both_fixes_lose_none() {
        let stages = measure(50).unwrap();
        let [mismatch, smaller, retried, ours] = stages.as_slice() else { panic!("{stages:?}") };
        assert_eq!((mismatch.taken, mismatch.sent, mismatch.lost), (7_200, 50 * 32, 50 * 112));
        for stage in [smaller, retried, ours] {
            assert_eq!((stage.sent, stage.lost), (7_200, 0), "{stage:?}");
        }
        for stage in &stages {
            assert_eq!((stage.came, stage.sent + stage.lost), (stage.sent, stage.taken), "{stage:?}");
        }
    }
}
