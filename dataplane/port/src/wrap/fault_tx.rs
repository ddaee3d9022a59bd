//! Fault injection on transmit.
//!
//! The fault generator decides per packet. Lost packets count as drops of this port. Delayed packets go into a delay
//! queue shared by all handles of a queue and count as sent; a `release` queue sends them when due. A packet with a
//! flipped bit is sent in a separate burst, in its place.

use super::counts::{Counts, FaultEvent};
use super::delay_queue::DelayQueue;
use super::options::Faults;
use super::release::DelayedTx;
use super::rng::{FaultRng, Verdict};
use crate::{Burst, BurstStats, Capabilities, DropReason, Flush, Now, PortFault, QueueState, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;
use std::sync::Arc;

/// A transmit queue with fault injection.
pub(super) struct FaultTx<K> {
    inner: Box<dyn TxQueue>,
    faults: Faults,
    rng: FaultRng,
    /// Verdict of a packet that found the queue full; applied to the next packet.
    pending: Option<Verdict>,
    late: Arc<DelayedTx>,
    counts: Arc<Counts>,
    /// Buffer for a packet with a flipped bit, and its burst.
    own: DelayQueue,
    burst: Box<Burst>,
    /// Number of this handle, and number of its forks.
    number: u64,
    forks: u64,
    kernel: PhantomData<K>,
}

impl<K: Kernel> FaultTx<K> {
    pub(super) fn new(
        inner: Box<dyn TxQueue>,
        faults: &Faults,
        pair: u16,
        late: Arc<DelayedTx>,
        counts: Arc<Counts>,
    ) -> Result<Self, PortFault> {
        let number = u64::from(pair) << 1 | 1;
        Self::numbered(inner, faults, number, late, counts)
    }

    fn numbered(
        inner: Box<dyn TxQueue>,
        faults: &Faults,
        number: u64,
        late: Arc<DelayedTx>,
        counts: Arc<Counts>,
    ) -> Result<Self, PortFault> {
        Ok(Self {
            inner,
            rng: FaultRng::new(faults, number),
            faults: faults.clone(),
            pending: None,
            late,
            counts,
            own: DelayQueue::new(1)?,
            burst: Box::new(Burst::new()),
            number,
            forks: 0,
            kernel: PhantomData,
        })
    }

    /// Sends one packet. Returns `false` if the queue is full.
    fn one(&mut self, burst: &Burst, pick: u8, stats: &mut BurstStats) -> Result<bool, PortFault> {
        let verdict = self.pending.take().unwrap_or_else(|| self.rng.roll());
        if verdict.drop {
            stats.drop(DropReason::Injected, 1);
            self.counts.add(FaultEvent::Dropped, 1);
            return Ok(true);
        }
        if verdict.is_kept() && self.keep(&verdict, burst, pick) {
            stats.packets += 1;
            stats.bytes += burst.frame_len(pick.into()) as u64;
            return Ok(true);
        }
        if !self.pass(&verdict, burst, pick, stats)? {
            self.pending = Some(verdict);
            return Ok(false);
        }
        if verdict.duplicate {
            let twice = self.late.put::<K>(burst, pick, 0, None);
            self.counts.add(if twice { FaultEvent::Duplicated } else { FaultEvent::HoldFull }, 1);
        }
        Ok(true)
    }

    /// Puts the packet into the delay queue, and its duplicate as well. Returns whether there was space.
    fn keep(&mut self, verdict: &Verdict, burst: &Burst, pick: u8) -> bool {
        let Verdict { reorder, corrupt, delay, duplicate, .. } = *verdict;
        let kept = if reorder {
            self.late.put_behind::<K>(burst, pick, corrupt)
        } else {
            self.late.put::<K>(burst, pick, delay, corrupt)
        };
        if !kept {
            self.counts.add(FaultEvent::HoldFull, 1);
            return false;
        }
        self.counts.add(if reorder { FaultEvent::Reordered } else { FaultEvent::Delayed }, 1);
        self.counts.add(FaultEvent::Corrupted, u64::from(corrupt.is_some()));
        if duplicate {
            let twice = self.late.put::<K>(burst, pick, delay, None);
            self.counts.add(if twice { FaultEvent::Duplicated } else { FaultEvent::HoldFull }, 1);
        }
        true
    }

    /// Sends the packet immediately.
    fn pass(
        &mut self,
        verdict: &Verdict,
        burst: &Burst,
        pick: u8,
        stats: &mut BurstStats,
    ) -> Result<bool, PortFault> {
        let done = match verdict.corrupt {
            None => self.inner.tx(burst, &[pick], stats)?,
            Some(bit) => self.turned(bit, burst, pick, stats)?,
        };
        if done > 0 {
            self.late.passed(burst.now().0);
        }
        Ok(done > 0)
    }

    fn turned(
        &mut self,
        bit: u64,
        burst: &Burst,
        pick: u8,
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let (now, len) = (burst.now(), burst.frame_len(pick.into()));
        if !self.own.put::<K>(0, &burst.frame(pick.into()), len, Some(bit)) {
            self.counts.add(FaultEvent::HoldFull, 1);
            return self.inner.tx(burst, &[pick], stats);
        }
        self.burst.begin(0);
        self.burst.set_now(now);
        let (packets, _) = self.own.release(u64::MAX, &mut self.burst);
        self.burst.load_heads::<K>();
        let done = self.inner.tx(&self.burst, &[0], stats);
        self.own.give_back(packets);
        self.counts.add(FaultEvent::Corrupted, u64::from(matches!(done, Ok(1))));
        done
    }
}

impl<K: Kernel> TxQueue for FaultTx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        for (done, &pick) in indices.iter().enumerate() {
            if !self.one(burst, pick, stats)? {
                return Ok(done);
            }
        }
        Ok(indices.len())
    }

    /// None with corruption: a checksum that is completed behind the flipped bit would cover it.
    fn capabilities(&self) -> Capabilities {
        if self.faults.corrupt > 0.0 { Capabilities::NONE } else { self.inner.capabilities() }
    }

    fn room(&mut self, len: usize) -> usize {
        self.inner.room(len)
    }

    fn depth(&mut self) -> Option<usize> {
        self.inner.depth()
    }

    fn reap(&mut self) -> Result<(), PortFault> {
        self.inner.reap()
    }

    fn keeps_back(&self) -> bool {
        self.inner.keeps_back()
    }

    fn flush(&mut self, now: Now, due: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        self.inner.flush(now, due, stats)
    }

    fn abandon(&mut self, stats: &mut BurstStats) {
        self.inner.abandon(stats);
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        self.forks += 1;
        // Pair numbers are below 2^20.
        let number = self.number + (self.forks << 20);
        let (late, counts) = (self.late.clone(), self.counts.clone());
        let inner = self.inner.fork();
        match Self::numbered(inner, &self.faults, number, late, counts) {
            Ok(fork) => Box::new(fork),
            // Out of memory: this handle injects no faults.
            Err(_) => self.inner.fork(),
        }
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        self.inner.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offload;
    use mem::copy::Portable;
    use std::sync::Mutex;

    /// A queue with all offloads, which notes those of its packets.
    struct Sink(Arc<Mutex<Vec<Offload>>>);

    impl TxQueue for Sink {
        fn tx(&mut self, burst: &Burst, indices: &[u8], _: &mut BurstStats) -> Result<usize, PortFault> {
            self.0.lock().unwrap().extend(indices.iter().map(|i| burst.offload((*i).into())));
            Ok(indices.len())
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::ALL
        }

        fn notify(&mut self) {}

        fn fork(&mut self) -> Box<dyn TxQueue> {
            Box::new(Self(self.0.clone()))
        }

        fn refresh(&mut self) -> Result<(), PortFault> {
            Ok(())
        }
    }

    /// Capabilities of a queue, and the offloads of a packet with a verified checksum that passed it.
    fn pass(corrupt: f64) -> (Capabilities, Vec<Offload>) {
        let (sent, faults) = (Arc::default(), Faults { corrupt, ..Faults::default() });
        let (late, counts) = (Arc::new(DelayedTx::new(1).unwrap()), Arc::new(Counts::outward()));
        let mut tx =
            FaultTx::<Portable>::new(Box::new(Sink(Arc::clone(&sent))), &faults, 0, late, counts).unwrap();
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]));
        burst.set_offload(0, Offload::VALID);
        assert_eq!(tx.tx(&burst, &[0], &mut stats), Ok(1));
        let capabilities = tx.capabilities();
        drop(tx);
        (capabilities, sent.lock().unwrap().clone())
    }

    #[test]
    fn corruption_leaves_checksums_to_be_verified() {
        assert_eq!(pass(0.0), (Capabilities::ALL, vec![Offload::VALID]));
        assert_eq!(pass(1.0), (Capabilities::NONE, vec![Offload::NONE]));
    }
}
