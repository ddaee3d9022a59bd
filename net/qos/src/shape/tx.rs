//! A worker's handle of the queues.

use super::Shaper;
use crate::packet::{CHUNK, Chunk, Chunks, LONGEST, Packet, chunks};
use mem::copy::Kernel;
use port::{BURST, Burst, BurstStats, DropReason, Flush, Now, PortFault, QueueState, TxQueue};
use std::marker::PhantomData;
use std::sync::Arc;

/// Chunks of each handle, beside those of the queues.
const SPARE: usize = 64;
const _: () = assert!(SPARE * CHUNK >= LONGEST);

/// A worker's handle of the queues.
pub(crate) struct ShapeTx<K> {
    inner: Box<dyn TxQueue>,
    shaper: Arc<Shaper>,
    spare: Chunks,
    /// Copied packets that are not in the queues yet, with class and hash.
    copied: Vec<(Packet, usize, u32)>,
    staging: Box<[u8]>,
    is_counted: bool,
    kernel: PhantomData<K>,
}

impl<K: Kernel> ShapeTx<K> {
    pub(crate) fn new(inner: Box<dyn TxQueue>, shaper: Arc<Shaper>) -> Self {
        shaper.lock().handles += 1;
        Self {
            inner,
            shaper,
            spare: std::iter::repeat_with(Chunk::new).take(SPARE).collect(),
            copied: Vec::with_capacity(BURST),
            staging: vec![0; LONGEST].into(),
            is_counted: true,
            kernel: PhantomData,
        }
    }

    /// Puts copied packets into the queues, and takes empty chunks for the next ones.
    fn enqueue(&mut self, now: u64, stats: &mut BurstStats) {
        let mut state = self.shaper.lock();
        // A handle may be used again by another worker.
        state.handles += usize::from(!std::mem::replace(&mut self.is_counted, true));
        for (packet, class, hash) in self.copied.drain(..) {
            state.queues.enqueue(class, packet, hash, now);
        }
        self.shaper.settle(&mut state, now);
        Shaper::count_drops(&mut state, stats);
        let wanted = (SPARE - self.spare.len()).min(state.pool.len());
        let from = state.pool.len() - wanted;
        self.spare.extend(state.pool.drain(from..));
    }

    fn copy(&mut self, burst: &Burst, i: usize) -> Option<()> {
        let frame = burst.frame(i);
        let packet = Packet::copy::<K>(&frame, burst.frame_len(i), &mut self.spare, &mut self.staging)?;
        let (class, hash) = self.shaper.map.classify(burst, i);
        self.copied.push((packet, class, hash));
        Some(())
    }
}

impl<K: Kernel> TxQueue for ShapeTx<K> {
    /// Always takes all packets; those without space are dropped.
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let now = burst.now().0;
        for &i in indices {
            let i = usize::from(i);
            if self.spare.len() < chunks(burst.frame_len(i)) {
                self.enqueue(now, stats);
            }
            if self.copy(burst, i).is_none() {
                stats.drop(DropReason::ClassFull, 1);
            }
        }
        self.enqueue(now, stats);
        Ok(indices.len())
    }

    fn depth(&mut self) -> Option<usize> {
        self.inner.depth()
    }

    fn reap(&mut self) -> Result<(), PortFault> {
        self.inner.reap()
    }

    fn keeps_back(&self) -> bool {
        true
    }

    /// Packets leave by the release queue only.
    fn flush(&mut self, _: Now, _: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        self.shaper.report(stats);
        Ok(false)
    }

    /// The last handle drops the packets that wait.
    fn abandon(&mut self, stats: &mut BurstStats) {
        self.shaper.report(stats);
        let mut state = self.shaper.lock();
        state.handles -= usize::from(std::mem::take(&mut self.is_counted));
        if state.handles == 0 {
            state.queues.clear();
            let now = state.now;
            self.shaper.settle(&mut state, now);
            let drops = state.queues.take_drops();
            stats.drop(DropReason::PortDown, drops.full + drops.codel);
        }
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::new(self.inner.fork(), self.shaper.clone()))
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(mut self: Box<Self>) -> QueueState {
        let inner = std::mem::replace(&mut self.inner, Box::new(Absent));
        inner.freeze()
    }
}

impl<K> Drop for ShapeTx<K> {
    fn drop(&mut self) {
        self.shaper.lock().handles -= usize::from(self.is_counted);
    }
}

/// Takes the place of a queue that was frozen.
struct Absent;

impl TxQueue for Absent {
    fn tx(&mut self, _: &Burst, _: &[u8], _: &mut BurstStats) -> Result<usize, PortFault> {
        Ok(0)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Absent)
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
