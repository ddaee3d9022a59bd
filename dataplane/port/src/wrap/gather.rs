//! Transmit coalescing: packets are buffered until enough are present or the first has waited long enough, and are then
//! sent with one call.
//!
//! Packets are copied to private memory, because a burst's packets belong to their source again once the burst is
//! completed; without coalescing there is no copy. Copies are contiguous and restart at the front whenever the buffer
//! is empty, so a small buffer stays in the cache. Each worker's handle has its own buffer. A packet counts as sent or
//! dropped when it leaves the buffer; if the inner queue is full it stays, and the queue reports full once the buffer
//! is full.

use super::options::TxCoalesce;
use crate::arena::Arena;
use crate::spool::MAX_PACKET;
use crate::{
    BURST, Burst, BurstStats, Capabilities, DropReason, Flush, Now, Offload, PLACES, PortFault, QueueState,
    TxQueue,
};
use mem::VolatileSlice;
use mem::copy::Kernel;
use mem::line::LINE;
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Buffer memory per packet in bytes; longer packets use more.
const EACH: usize = 2048;

/// Bytes of memory that a packet of `len` bytes occupies.
fn size(len: usize) -> usize {
    len.max(1).next_multiple_of(LINE)
}

/// A buffered packet: its memory range, and the end of the range to free.
#[derive(Clone, Copy)]
struct Buffered {
    frame: VolatileSlice,
    ends: usize,
    offload: Offload,
    /// Arrival time in nanoseconds.
    since: u64,
}

/// A transmit queue with coalescing.
pub(super) struct GatherTx<K> {
    inner: Box<dyn TxQueue>,
    tx_coalesce: TxCoalesce,
    arena: Arena,
    kept: VecDeque<Buffered>,
    /// Offset of the next copy.
    next: usize,
    staging: Box<[u8]>,
    burst: Box<Burst>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> GatherTx<K> {
    pub(super) fn new(inner: Box<dyn TxQueue>, tx_coalesce: TxCoalesce) -> Result<Self, PortFault> {
        let packets = usize::from(tx_coalesce.frames);
        // Sized so that two packets of maximum length fit.
        let arena = Arena::new(1, (packets * EACH).max(2 * MAX_PACKET.next_multiple_of(LINE)))?;
        Ok(Self {
            inner,
            tx_coalesce,
            arena,
            kept: VecDeque::with_capacity(packets),
            next: 0,
            staging: vec![0; MAX_PACKET].into(),
            burst: Box::new(Burst::new()),
            kernel: PhantomData,
        })
    }

    /// Buffers packets until full. Returns their number.
    fn keep(&mut self, burst: &Burst, indices: &[u8]) -> usize {
        let room = usize::from(self.tx_coalesce.frames) - self.kept.len();
        let keep = |pick: &&u8| self.keep_one(burst, usize::from(**pick));
        indices.iter().take(room).take_while(keep).count()
    }

    /// Buffers one packet. Returns `false` if there is no space.
    fn keep_one(&mut self, burst: &Burst, pick: usize) -> bool {
        let (frame, len) = (burst.frame(pick), burst.frame_len(pick));
        let Some(place) = self.place(len) else { return false };
        let len = frame.copy_to::<K>(&mut self.staging[..len]);
        // SAFETY: the arena keeps its memory table alive; `place` has `len` bytes.
        unsafe { place.copy_in::<K>(&self.staging[..len]) };
        let kept = Buffered { frame: place, ends: self.next, offload: frame.offload, since: burst.now().0 };
        self.kept.push_back(kept);
        true
    }

    /// Memory for `len` bytes after the last packet, or at the front.
    fn place(&mut self, len: usize) -> Option<VolatileSlice> {
        if len > self.staging.len() {
            return None;
        }
        let all = self.arena.slot(0);
        let size = len.next_multiple_of(LINE);
        let first = match self.kept.front() {
            None => {
                self.next = 0;
                all.len()
            }
            Some(kept) => kept.frame.addr() - all.addr(),
        };
        // Buffered packets end at `next`; or, after wrap-around, they are at the end and, before `next`, at the front.
        let began_anew = self.kept.back().is_some_and(|kept| kept.ends <= first);
        let at = if began_anew {
            (self.next + size <= first).then_some(self.next)
        } else if self.next + size <= all.len() {
            Some(self.next)
        } else {
            (size <= first && !self.kept.is_empty()).then_some(0)
        }?;
        self.next = at + size;
        Some(all.split_at(at).1.split_at(len).0)
    }

    /// Number of packets of `len` bytes that fit in the empty buffer, at least.
    fn all_places(&self, len: usize) -> usize {
        if len > self.staging.len() { 0 } else { self.arena.slot(0).len() / size(len) }
    }

    /// Number of packets of `len` bytes that [`GatherTx::place`] finds memory for, at least.
    fn places(&self, len: usize) -> usize {
        let (Some(first), Some(last)) = (self.kept.front(), self.kept.back()) else {
            return self.all_places(len);
        };
        if len > self.staging.len() {
            return 0;
        }
        let all = self.arena.slot(0);
        let first = first.frame.addr() - all.addr();
        let began_anew = last.ends <= first;
        let stretches = if began_anew { [first - self.next, 0] } else { [all.len() - self.next, first] };
        stretches.iter().map(|bytes| bytes / size(len)).sum()
    }

    fn is_due(&self, now: u64) -> bool {
        let Some(first) = self.kept.front() else { return false };
        let enough = self.kept.len() >= usize::from(self.tx_coalesce.frames);
        enough || self.tx_coalesce.delay.is_some_and(|within| now >= first.since + within.as_nanos() as u64)
    }

    /// Sends buffered packets until the inner queue is full.
    fn send(&mut self, now: Now, stats: &mut BurstStats) -> Result<(), PortFault> {
        while !self.kept.is_empty() {
            let n = self.kept.len().min(BURST);
            self.burst.begin(0);
            self.burst.set_now(now);
            self.burst.pin(self.arena.map());
            for (i, kept) in self.kept.iter().take(n).enumerate() {
                self.burst.push_kept(kept.frame);
                self.burst.set_offload(i, kept.offload);
            }
            self.burst.load_heads::<K>();
            let done = self.inner.tx(&self.burst, &PLACES[..n], stats)?;
            self.kept.drain(..done);
            if done < n {
                break;
            }
        }
        Ok(())
    }

    /// [`Self::send`], with `others` pending packets. If the inner queue fails, buffered and pending packets are
    /// dropped.
    fn send_or_lose(&mut self, now: Now, others: usize, stats: &mut BurstStats) -> Result<(), PortFault> {
        let all = (self.kept.len() + others) as u64;
        let before = stats.packets + stats.lost;
        let sent = self.send(now, stats);
        if sent.is_err() {
            let counted = stats.packets + stats.lost - before;
            stats.drop(DropReason::PortFault, all - counted);
            self.kept.clear();
        }
        sent
    }
}

impl<K: Kernel> TxQueue for GatherTx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut done = 0;
        loop {
            done += self.keep(burst, &indices[done..]);
            // Without space for the next packet, the buffer counts as full.
            if done == indices.len() && !self.is_due(burst.now().0) {
                return Ok(done);
            }
            let kept = self.kept.len();
            self.send_or_lose(burst.now(), indices.len() - done, stats)?;
            if done == indices.len() || self.kept.len() == kept {
                return Ok(done);
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    /// Number of packets that fit in the buffer; if it is full, the number that fit once it is drained.
    fn room(&mut self, len: usize) -> usize {
        let most = usize::from(self.tx_coalesce.frames);
        match (most - self.kept.len()).min(self.places(len)) {
            // A frame that can never fit must be passed to `tx`, to be counted.
            0 if self.kept.is_empty() => 1,
            0 => {
                let longest = self.kept.iter().map(|kept| kept.frame.len()).max().unwrap_or(0);
                let has_room = self.inner.room(longest) >= self.kept.len();
                if has_room { most.min(self.all_places(len)).max(1) } else { 0 }
            }
            room => room,
        }
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

    fn flush(&mut self, now: Now, due: Flush, stats: &mut BurstStats) -> Result<bool, PortFault> {
        let is_due = match due {
            Flush::Waited => self.is_due(now.0),
            Flush::Idle => self.tx_coalesce.delay.is_none() || self.is_due(now.0),
            Flush::All => true,
        };
        if self.kept.is_empty() || !is_due {
            return Ok(false);
        }
        let before = stats.packets;
        self.send_or_lose(now, 0, stats).map(|()| stats.packets > before)
    }

    fn abandon(&mut self, stats: &mut BurstStats) {
        stats.drop(DropReason::PortDown, self.kept.len() as u64);
        self.kept.clear();
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        let inner = self.inner.fork();
        match Self::new(inner, self.tx_coalesce) {
            Ok(fork) => Box::new(fork),
            // Out of memory for a buffer: packets are sent immediately.
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
mod tests;
