//! A memif port's transmit ring, as the switch sends to it.
//!
//! Buffers that come next stand in a private avail cache: read, judged, found and fetched for writing while the burst before
//! is on its way, so the peer may change their descriptors afterwards without effect. A frame is written into the
//! buffer in front, or over as many as it needs, and all frames of one call become visible with one store.
//!
//! [`RingTx`] does the rest, for one worker or several.

use super::RingFault;
use super::buffers::{Buffers, Place};
use super::queue::Queue;
use super::ring::{self, End, Ring, Word};
use crate::state::{MemifQueue, OTHER_KIND, QueueState};
use crate::transmit::{Filled, Form, RingTx, Slots, Taken, TxRing};
use crate::{BURST, Burst, BurstStats, Capabilities, PortFault, TxQueue, work};
use mem::GuestMemory;
use mem::copy::Kernel;
use std::sync::Arc;

/// Places of the avail cache, a power of two: a burst, and the most that one frame may take.
const CACHED: usize = 128;
/// Buffers kept found and fetched ahead of need.
const AHEAD: u16 = BURST as u16;
/// Most buffers of one frame.
const MOST_PIECES: u16 = BURST as u16;

/// A queue that continues from `state`. The copy kernel is chosen here, once.
pub(super) fn thaw<B: Buffers>(queue: Queue<B>, state: QueueState) -> Result<Box<dyn TxQueue>, PortFault> {
    let wake = queue.wake.clone();
    let core = Core::thaw(queue, state)?;
    Ok(mem::with_kernel!(mem::copy::chosen(), K => {
        Box::new(RingTx::<_, K>::new(core, Some(wake), Capabilities::NONE)) as Box<dyn TxQueue>
    }))
}

/// A ring with its avail cache.
pub(super) struct Core<B> {
    ring: Ring,
    buffers: B,
    cache: Box<[Place; CACHED]>,
    /// The next entry to give out.
    at: u16,
    /// The avail cache ends before this entry.
    cached_end: u16,
    /// Free entries end before this one, as last seen.
    limit: u16,
    /// Everything before this entry is described.
    described: u16,
    /// Everything before this entry is published.
    posted: u16,
    /// Buffers beyond the first that were counted together for frames since [`TxRing::take_work`].
    walked: u64,
}

impl<B: Buffers> Core<B> {
    /// Continues from `state`. Entries that were reserved and not committed are free again.
    fn thaw(Queue { ring, buffers, wake: _ }: Queue<B>, state: QueueState) -> Result<Self, PortFault> {
        let (at, limit) = match state {
            QueueState::Fresh => (0, if B::End::LENDS { ring.size() } else { 0 }),
            // How many entries are free is read anew.
            QueueState::Memif(state) if state.done == state.at && state.held.is_empty() => {
                (state.at, state.at)
            }
            _ => return Err(OTHER_KIND),
        };
        let cache = Box::new([Place::EMPTY; CACHED]);
        Ok(Self { ring, buffers, cache, at, cached_end: at, limit, described: at, posted: at, walked: 0 })
    }

    /// The place of entry `at`, which is in the avail cache.
    #[inline(always)]
    fn place(&self, at: u16) -> Place {
        self.cache[usize::from(at) % CACHED]
    }

    /// Sees to it that `n` places, [`CACHED`] at most, are in the avail cache, if the peer has offered as many.
    #[inline]
    fn fill_cache(&mut self, n: u16) -> Result<(), RingFault> {
        let target = self.at.wrapping_add(n);
        let short = n.saturating_sub(self.cached_end.wrapping_sub(self.at));
        if short == 0 {
            return Ok(());
        }
        if self.limit.wrapping_sub(self.cached_end) < short {
            self.look()?;
        }
        let short = short.min(self.limit.wrapping_sub(self.cached_end));
        let end = self.cached_end.wrapping_add(short);
        debug_assert!(end.wrapping_sub(self.at) <= target.wrapping_sub(self.at));
        while self.cached_end != end {
            let place = self.buffers.to_fill(&self.ring, self.cached_end)?;
            place.room.prefetch_write(0);
            self.cache[usize::from(self.cached_end) % CACHED] = place;
            self.cached_end = self.cached_end.wrapping_add(1);
        }
        Ok(())
    }

    /// Reads how far the peer is.
    #[inline]
    fn look(&mut self) -> Result<(), RingFault> {
        let (theirs, size) = (self.ring.theirs::<B::End>(), self.ring.size());
        let limit = if B::End::LENDS { theirs.wrapping_add(size) } else { theirs };
        let free = limit.wrapping_sub(self.posted);
        // It may neither give more than the ring has nor take back what it gave.
        if free > size || free < self.limit.wrapping_sub(self.posted) {
            return Err(RingFault::Index { theirs, ours: self.posted, size });
        }
        self.limit = limit;
        Ok(())
    }

    /// Buffers in front for a frame of `len` bytes: how many, or why there are none.
    #[inline(always)]
    fn count(&mut self, len: usize) -> Result<Result<u16, Taken>, RingFault> {
        if self.at != self.cached_end && len <= self.place(self.at).room.len() {
            return Ok(Ok(1));
        }
        self.count_several(len)
    }

    #[cold]
    fn count_several(&mut self, len: usize) -> Result<Result<u16, Taken>, RingFault> {
        let most = MOST_PIECES.min(self.ring.size());
        let (mut n, mut room) = (0, 0);
        let found = loop {
            // Also a frame without bytes takes a buffer.
            if n > 0 && room >= len {
                break Ok(n);
            }
            if n == most {
                break Err(Taken::TooSmall);
            }
            if self.cached_end.wrapping_sub(self.at) == n {
                self.fill_cache(n + 1)?;
            }
            if self.cached_end.wrapping_sub(self.at) == n {
                break Err(Taken::Full);
            }
            room += self.place(self.at.wrapping_add(n)).room.len();
            n += 1;
        };
        self.walked += u64::from(n.saturating_sub(1));
        Ok(found)
    }

    fn take_entries(&mut self, len: usize, slots: &mut Slots) -> Result<Taken, RingFault> {
        let n = match self.count(len)? {
            Ok(n) => n,
            Err(taken) => return Ok(taken),
        };
        for _ in 0..n {
            let Place { room, region } = self.place(self.at);
            slots.add_piece(room);
            slots.add_buffer(Filled::new(self.at, region, room.len()));
            self.at = self.at.wrapping_add(1);
        }
        Ok(Taken::Slot)
    }
}

impl<B: Buffers> TxRing for Core<B> {
    fn form(&self) -> Form {
        Form::default()
    }

    fn map(&self) -> &Arc<GuestMemory> {
        self.ring.map()
    }

    #[inline(always)]
    fn prepare(&mut self, n: usize) -> Result<(), PortFault> {
        Ok(self.fill_cache(n.min(BURST) as u16)?)
    }

    #[inline(always)]
    fn send_plain<K: Kernel>(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize {
        let (mut done, mut bytes) = (0, 0);
        for &pick in indices {
            let (i, at) = (usize::from(pick), self.at);
            let (len, place) = (burst.frame_len(i), self.place(at));
            if at == self.cached_end || len > place.room.len() {
                break;
            }
            ring::fill::<K>(self.ring.map(), place.room, &burst.frame(i), len);
            B::describe(&self.ring, at, place.filled(len));
            self.at = at.wrapping_add(1);
            done += 1;
            bytes += len as u64;
        }
        self.described = self.at;
        stats.packets += done as u64;
        stats.bytes += bytes;
        done
    }

    fn take(&mut self, len: usize, _: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        Ok(self.take_entries(len, slots)?)
    }

    fn post(&mut self, filled: &[Filled]) {
        for buffer in filled {
            let word = Word::new(buffer.tag, buffer.len).and_next(buffer.has_next);
            B::describe(&self.ring, buffer.id, word);
            self.described = buffer.id.wrapping_add(1);
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.posted = self.described;
        self.ring.publish::<B::End>(self.posted);
    }

    #[inline(always)]
    fn refill(&mut self) -> Result<(), PortFault> {
        Ok(self.fill_cache(AHEAD)?)
    }

    /// Buffers of whatever size. A fault is found again, and reported, by the next call that sends.
    fn room(&mut self, len: usize) -> usize {
        if self.fill_cache(AHEAD).is_err() {
            // A fault is found again, and reported, by the next call that sends.
            return 1;
        }
        let (mut frames, mut room) = (0, 0);
        for k in 0..self.cached_end.wrapping_sub(self.at) {
            room += self.place(self.at.wrapping_add(k)).room.len();
            if room >= len {
                (frames, room) = (frames + 1, 0);
            }
        }
        // A frame that no buffers would hold has to come here to be counted.
        if frames == 0 && matches!(self.count(len), Ok(Ok(_) | Err(Taken::TooSmall)) | Err(_)) {
            1
        } else {
            frames
        }
    }

    /// The peer chooses how small its buffers are.
    #[inline(always)]
    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.walked) * work::PIECE
    }

    #[inline(always)]
    fn needs_notification(&mut self) -> bool {
        self.ring.wants_interrupt()
    }

    #[inline(always)]
    fn check_memory(&mut self) -> Result<(), PortFault> {
        if self.buffers.is_lost() { Err(PortFault::MemoryLost) } else { Ok(()) }
    }

    /// The memory stays as it is for as long as the connection does.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(&mut self) -> QueueState {
        let at = self.posted;
        QueueState::Memif(Box::new(MemifQueue { at, done: at, held: Vec::new() }))
    }
}
