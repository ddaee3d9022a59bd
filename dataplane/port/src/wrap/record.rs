//! Queues that spool their packets for a capture or a trace.
//!
//! Only packets actually sent are recorded as sent, so packets go to the inner queue one by one: a queue does not
//! report which of several it dropped. Packets that a queue keeps back have no outcome yet. If the spool is full,
//! records are lost, but not packets.

use super::inspect::Inspect;
use crate::spool::{Direction, Feed, Outcome, Record};
use crate::{Burst, BurstStats, Capabilities, DropReason, Flush, Now, PortFault, QueueState, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;

/// Records what a receive queue receives.
pub(super) struct Recording<K> {
    feed: Feed,
    kernel: PhantomData<K>,
}

impl<K: Kernel> Recording<K> {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, kernel: PhantomData }
    }
}

impl<K: Kernel> Inspect for Recording<K> {
    fn inspect(&mut self, burst: &mut Burst, _stats: &mut BurstStats) {
        burst.load_heads::<K>();
        for i in 0..burst.len() {
            let record = Record::of(burst, i, Direction::In, Outcome::Moved);
            self.feed.put_or_count::<K>(&record, &burst.frame(i));
        }
        self.feed.notify();
    }
}

/// A recorded transmit queue.
pub(super) struct RecordTx<K> {
    inner: Box<dyn TxQueue>,
    feed: Feed,
    /// Whether dropped packets are recorded too.
    losses: bool,
    /// The last packets that found the queue full: burst time, source and first index. They may be retried.
    full: Option<(u64, usize, u8)>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> RecordTx<K> {
    pub(super) fn new(inner: Box<dyn TxQueue>, feed: Feed, losses: bool) -> Self {
        Self { inner, feed, losses, full: None, kernel: PhantomData }
    }

    fn record(&mut self, burst: &Burst, index: u8, fate: Outcome) {
        let i = usize::from(index);
        self.feed.put_or_count::<K>(&Record::of(burst, i, Direction::Out, fate), &burst.frame(i));
    }

    /// Records that `rest` found the queue full, once, even if retried.
    fn record_full(&mut self, burst: &Burst, rest: &[u8]) {
        let Some(&first) = rest.first().filter(|_| self.losses) else { return };
        let which = (burst.now().0, burst.source(), first);
        if self.full.replace(which) != Some(which) {
            for &index in rest {
                self.record(burst, index, Outcome::Lost(DropReason::QueueFull));
            }
        }
    }

    fn send(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let keeps_back = self.inner.keeps_back();
        for (done, &index) in indices.iter().enumerate() {
            let before = *stats;
            if self.inner.tx(burst, &[index], stats)? == 0 {
                self.record_full(burst, &indices[done..]);
                return Ok(done);
            }
            match fate(&before, stats, keeps_back) {
                Outcome::Lost(_) if !self.losses => {}
                fate => self.record(burst, index, fate),
            }
        }
        Ok(indices.len())
    }
}

/// Outcome of one packet, from the statistics before and after it. Those of a queue that keeps packets back also have
/// older ones, which it sends or drops now, so they tell only what happens in front of it: injected loss.
fn fate(before: &BurstStats, after: &BurstStats, keeps_back: bool) -> Outcome {
    let rose = |reason: &&DropReason| after.drops[**reason as usize] > before.drops[**reason as usize];
    match DropReason::ALL.iter().find(rose) {
        Some(DropReason::Injected) => Outcome::Lost(DropReason::Injected),
        _ if keeps_back => Outcome::Queued,
        Some(reason) if after.packets == before.packets => Outcome::Lost(*reason),
        _ => Outcome::Moved,
    }
}

impl<K: Kernel> TxQueue for RecordTx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let sent = self.send(burst, indices, stats);
        self.feed.notify();
        sent
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
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
        Box::new(Self::new(self.inner.fork(), self.feed.another(), self.losses))
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        self.inner.freeze()
    }
}
