//! Buffered transmit: packets are kept back until there are enough of them, or until the first has waited long enough,
//! and then leave by one call.
//!
//! What is kept is a copy in memory of the queue's own, because a burst's packets are their source's again once the burst
//! is completed; so buffering costs a copy, and sending at once, which every port does of itself, does not. Copies lie
//! behind one another and start at the front again whenever nothing is kept, so a small buffer stays in the cache. Each
//! worker's handle keeps its own packets. A packet counts as sent, or as lost, when it leaves the buffer; where the inner
//! queue is full, it stays, and the worker hears of a full queue when there is no room left to keep more.

use super::options::TxCoalesce;
use crate::arena::Arena;
use crate::spool::MOST;
use crate::{
    BURST, Burst, BurstStats, Capabilities, DropReason, Flush, Now, Offload, PLACES, PortFault, QueueState,
    TxQueue,
};
use mem::VolatileSlice;
use mem::copy::Kernel;
use mem::line::LINE;
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Memory for each packet that is kept; a longer one takes more of it.
const EACH: usize = 2048;

/// Bytes of memory that a packet of `len` bytes takes.
fn size(len: usize) -> usize {
    len.max(1).next_multiple_of(LINE)
}

/// A packet that is kept: where, and how much of the memory is free again when it has left.
#[derive(Clone, Copy)]
struct Kept {
    frame: VolatileSlice,
    ends: usize,
    offload: Offload,
    /// When it came, in nanoseconds.
    since: u64,
}

/// A transmit queue that keeps packets back.
pub(super) struct GatherTx<K> {
    inner: Box<dyn TxQueue>,
    tx_coalesce: TxCoalesce,
    arena: Arena,
    kept: VecDeque<Kept>,
    /// Where the next copy begins.
    next: usize,
    staging: Box<[u8]>,
    burst: Box<Burst>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> GatherTx<K> {
    pub(super) fn new(inner: Box<dyn TxQueue>, tx_coalesce: TxCoalesce) -> Result<Self, PortFault> {
        let packets = usize::from(tx_coalesce.packets);
        // The longest packet fits behind another of the same length.
        let arena = Arena::new(1, (packets * EACH).max(2 * MOST.next_multiple_of(LINE)))?;
        Ok(Self {
            inner,
            tx_coalesce,
            arena,
            kept: VecDeque::with_capacity(packets),
            next: 0,
            staging: vec![0; MOST].into(),
            burst: Box::new(Burst::new()),
            kernel: PhantomData,
        })
    }

    /// Copies packets until the buffer is full. How many.
    fn keep(&mut self, burst: &Burst, indices: &[u8]) -> usize {
        let room = usize::from(self.tx_coalesce.packets) - self.kept.len();
        let keep = |pick: &&u8| self.keep_one(burst, usize::from(**pick));
        indices.iter().take(room).take_while(keep).count()
    }

    /// `false`: there is no room for it.
    fn keep_one(&mut self, burst: &Burst, pick: usize) -> bool {
        let (frame, len) = (burst.frame(pick), burst.frame_len(pick));
        let Some(place) = self.place(len) else { return false };
        let len = frame.copy_to::<K>(&mut self.staging[..len]);
        // SAFETY: the arena holds its map; `place` has as many bytes as were asked for.
        unsafe { place.copy_in::<K>(&self.staging[..len]) };
        let kept = Kept { frame: place, ends: self.next, offload: frame.offload, since: burst.now().0 };
        self.kept.push_back(kept);
        true
    }

    /// Memory for `len` bytes behind the last packet, or at the front.
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
        // Kept packets lie before `next` alone, or before the end and, once it began anew, in front of the first.
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

    /// How many packets of `len` bytes the empty memory holds, at least.
    fn all_places(&self, len: usize) -> usize {
        if len > self.staging.len() { 0 } else { self.arena.slot(0).len() / size(len) }
    }

    /// How many packets of `len` bytes [`GatherTx::place`] finds memory for, at least.
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
        let enough = self.kept.len() >= usize::from(self.tx_coalesce.packets);
        enough || self.tx_coalesce.within.is_some_and(|within| now >= first.since + within.as_nanos() as u64)
    }

    /// Has the inner queue send what is kept, as far as it has room.
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

    /// The same, with `others` that are to come. Where the inner queue turns out to be broken, none of them leaves by it.
    fn send_or_lose(&mut self, now: Now, others: usize, stats: &mut BurstStats) -> Result<(), PortFault> {
        let all = (self.kept.len() + others) as u64;
        let before = stats.packets + stats.lost;
        let sent = self.send(now, stats);
        if sent.is_err() {
            let told = stats.packets + stats.lost - before;
            stats.drop(DropReason::PortFault, all - told);
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
            // A buffer without room for the next packet is full, however few it holds.
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

    /// What the buffer has room for; if it is full, what it has room for when all that it keeps has left.
    fn room(&mut self, len: usize) -> usize {
        let most = usize::from(self.tx_coalesce.packets);
        match (most - self.kept.len()).min(self.places(len)) {
            // A frame that the buffer could never keep has to come to be counted.
            0 if self.kept.is_empty() => 1,
            0 => {
                let longest = self.kept.iter().map(|kept| kept.frame.len()).max().unwrap_or(0);
                let has_room = self.inner.room(longest) >= self.kept.len();
                if has_room { most.min(self.all_places(len)).max(1) } else { 0 }
            }
            room => room,
        }
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
            Flush::Idle => self.tx_coalesce.within.is_none() || self.is_due(now.0),
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
            // Without memory to keep packets in, they are sent at once.
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
