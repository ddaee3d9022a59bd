//! Transmit queue of a memif port.
//!
//! The next buffers are kept in a private avail cache: read, validated, translated and prefetched for writing while
//! the previous burst is sent, so later changes of their descriptors by the peer have no effect. A frame is written
//! to the first buffer, or to as many as it needs, and all frames of one call are published with one store.
//!
//! [`RingTx`] implements the rest, for one worker or several.

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

/// Slots of the avail cache, a power of two: a burst, plus the maximum buffers of one frame.
const CACHED: usize = 128;
/// Number of buffers translated and prefetched ahead of need.
const PREFETCH: u16 = BURST as u16;
/// Maximum buffers of one frame.
const MAX_PIECES: u16 = BURST as u16;

/// Creates a queue that continues from `state`. Selects the copy kernel once.
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
    /// Next entry to use.
    at: u16,
    /// End of the avail cache (exclusive).
    cached_end: u16,
    /// End of the free entries (exclusive), as last read.
    limit: u16,
    /// Entries before this one are described.
    described: u16,
    /// Entries before this one are published.
    posted: u16,
    /// Buffers after the first, counted for frames that span buffers, since [`TxRing::take_work`].
    walked: u64,
}

impl<B: Buffers> Core<B> {
    /// Continues from `state`. Entries reserved and not committed are free again.
    fn thaw(Queue { ring, buffers, wake: _ }: Queue<B>, state: QueueState) -> Result<Self, PortFault> {
        let (at, limit) = match state {
            QueueState::Fresh => (0, if B::End::OWNS_BUFFERS { ring.size() } else { 0 }),
            // The number of free entries is read again.
            QueueState::Memif(state) if state.done == state.at && state.held.is_empty() => {
                (state.at, state.at)
            }
            _ => return Err(OTHER_KIND),
        };
        let cache = Box::new([Place::EMPTY; CACHED]);
        Ok(Self { ring, buffers, cache, at, cached_end: at, limit, described: at, posted: at, walked: 0 })
    }

    /// The buffer of entry `at`, which must be in the avail cache.
    #[inline(always)]
    fn place(&self, at: u16) -> Place {
        self.cache[usize::from(at) % CACHED]
    }

    /// Fills the avail cache to `n` buffers, at most [`CACHED`], if the peer has offered as many.
    #[inline]
    fn fill_cache(&mut self, n: u16) -> Result<(), RingFault> {
        let target = self.at.wrapping_add(n);
        let short = n.saturating_sub(self.cached_end.wrapping_sub(self.at));
        if short == 0 {
            return Ok(());
        }
        if self.limit.wrapping_sub(self.cached_end) < short {
            self.read_peer_index()?;
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

    /// Reads the peer's index.
    #[inline]
    fn read_peer_index(&mut self) -> Result<(), RingFault> {
        let (theirs, size) = (self.ring.theirs::<B::End>(), self.ring.size());
        let limit = if B::End::OWNS_BUFFERS { theirs.wrapping_add(size) } else { theirs };
        let free = limit.wrapping_sub(self.posted);
        // The free entries must not exceed the ring's size, and entries offered before must stay free.
        if free > size || free < self.limit.wrapping_sub(self.posted) {
            return Err(RingFault::Index { theirs, ours: self.posted, size });
        }
        self.limit = limit;
        Ok(())
    }

    /// Number of leading buffers for a frame of `len` bytes, or the reason why there are none.
    #[inline(always)]
    fn count(&mut self, len: usize) -> Result<Result<u16, Taken>, RingFault> {
        if self.at != self.cached_end && len <= self.place(self.at).room.len() {
            return Ok(Ok(1));
        }
        self.count_several(len)
    }

    #[cold]
    fn count_several(&mut self, len: usize) -> Result<Result<u16, Taken>, RingFault> {
        let most = MAX_PIECES.min(self.ring.size());
        let (mut n, mut room) = (0, 0);
        let found = loop {
            // An empty frame takes a buffer too.
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
        Ok(self.fill_cache(PREFETCH)?)
    }

    /// Buffers may have any size. The next call that sends finds and reports a fault again.
    fn room(&mut self, len: usize) -> usize {
        if self.fill_cache(PREFETCH).is_err() {
            // The next call that sends finds and reports the fault again.
            return 1;
        }
        let (mut frames, mut room) = (0, 0);
        for k in 0..self.cached_end.wrapping_sub(self.at) {
            room += self.place(self.at.wrapping_add(k)).room.len();
            if room >= len {
                (frames, room) = (frames + 1, 0);
            }
        }
        // A frame that can never fit is accepted here, so that it is counted.
        if frames == 0 && matches!(self.count(len), Ok(Ok(_) | Err(Taken::TooSmall)) | Err(_)) {
            1
        } else {
            frames
        }
    }

    #[cold]
    fn depth(&mut self) -> usize {
        let (theirs, size) = (self.ring.theirs::<B::End>(), self.ring.size());
        let limit = if B::End::OWNS_BUFFERS { theirs.wrapping_add(size) } else { theirs };
        size.saturating_sub(limit.wrapping_sub(self.posted)).into()
    }

    /// The peer chooses the size of its buffers.
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

    /// The memory does not change during the connection.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(&mut self) -> QueueState {
        let at = self.posted;
        QueueState::Memif(Box::new(MemifQueue { at, done: at, held: Vec::new() }))
    }
}
