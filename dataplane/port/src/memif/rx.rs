//! Receive queue of a memif port.
//!
//! A frame stays in its buffer until the burst is completed; one store of this end's index then returns all buffers
//! of the burst. If this end owns the buffers (client), buffers of retained packets return later; the others are
//! placed into the next entries, so fewer entries are lent meanwhile. Descriptors are read once, validated, and
//! translated to the shared memory. Only frames cause notifications; returned buffers do not, because the protocol
//! has no means for it.

use super::RingFault;
use super::buffers::{Borrowed, Buffers};
use super::queue::Queue;
use super::ring::{End, Ring};
use crate::eventfd;
use crate::state::{MemifQueue, OTHER_KIND, QueueState};
use crate::{BURST, Burst, BurstStats, DropReason, PortFault, RxQueue, work};
use mem::VolatileSlice;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Minimum frame length: an Ethernet header.
const MIN_FRAME: usize = 14;
/// Maximum frame length: 64 KiB, the longest of any offload.
const MAX_FRAME: usize = 65_550;
/// Descriptors per cache line.
const LINE: u16 = 4;

/// Creates a queue that continues from `state`. A client lends its buffers from here on.
pub(super) fn thaw<B: Buffers>(queue: Queue<B>, state: QueueState) -> Result<Box<dyn RxQueue>, PortFault> {
    let Queue { ring, mut buffers, wake } = queue;
    let (at, done) = match state {
        QueueState::Fresh => (0, 0),
        QueueState::Memif(state) => {
            let MemifQueue { at, done, held } = *state;
            (at, buffers.thaw(&ring, at, done, &held)?)
        }
        _ => return Err(OTHER_KIND),
    };
    let rx = Rx { ring, buffers, wake, at, done, seen: at };
    rx.ring.disable_notification();
    rx.publish();
    Ok(Box::new(rx))
}

struct Rx<B> {
    ring: Ring,
    buffers: B,
    wake: Arc<OwnedFd>,
    /// Next entry to receive.
    at: u16,
    /// Entries before this one were returned.
    done: u16,
    /// The peer's index as last read: entries before it are frames.
    seen: u16,
}

impl<B: Buffers> Rx<B> {
    /// Publishes the return of everything before `done`.
    #[inline(always)]
    fn publish(&self) {
        let lent = if B::End::OWNS_BUFFERS { self.ring.size() } else { 0 };
        self.ring.publish::<B::End>(self.done.wrapping_add(lent));
    }

    /// Number of available entries. The peer's index is read only if the known entries do not fill a burst.
    #[inline(always)]
    fn waiting(&mut self) -> Result<u16, RingFault> {
        let known = self.seen.wrapping_sub(self.at);
        if usize::from(known) >= BURST {
            return Ok(known);
        }
        let theirs = self.ring.theirs::<B::End>();
        let ahead = theirs.wrapping_sub(self.done);
        // The index must not be ahead by more than the ring's size, nor less than an index read before.
        if ahead > self.ring.size() || ahead < self.seen.wrapping_sub(self.done) {
            return Err(RingFault::Index { theirs, ours: self.done, size: self.ring.size() });
        }
        self.seen = theirs;
        Ok(theirs.wrapping_sub(self.at))
    }

    #[inline]
    fn take(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), RingFault> {
        let waiting = self.waiting()?;
        if waiting == 0 {
            return Ok(());
        }
        self.buffers.pin(burst);
        let mut at = self.at;
        let end = at.wrapping_add(waiting.min(burst.room() as u16));
        while at != end {
            let (word, frame) = match self.buffers.received(&self.ring, at) {
                Ok(found) => found,
                Err(fault) => return self.stop(at, fault),
            };
            if word.has_next() {
                return self.take_chain(at, burst, stats);
            }
            frame.prefetch_read(0);
            let (buf_id, len) = (self.buffers.buf_id(&self.ring, at), frame.len());
            at = at.wrapping_add(1);
            stats.packets += 1;
            stats.bytes += len as u64;
            if (MIN_FRAME..=MAX_FRAME).contains(&len) {
                burst.push(buf_id, frame);
            } else {
                drop_frame(len, buf_id, burst, stats);
            }
        }
        self.at = at;
        Ok(())
    }

    /// Records the position at which a fault occurred.
    #[cold]
    fn stop(&mut self, at: u16, fault: RingFault) -> Result<(), RingFault> {
        self.at = at;
        Err(fault)
    }

    /// Receives a frame in several buffers, from entry `at`. It is the last frame of its burst.
    #[cold]
    fn take_chain(&mut self, at: u16, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), RingFault> {
        self.at = at;
        if !burst.has_chain_room() {
            return Ok(());
        }
        let (mut pieces, mut n, mut len) = ([VolatileSlice::EMPTY; Borrowed::MAX_PIECES], 0, 0);
        let mut slots = 0;
        loop {
            if at.wrapping_add(slots) == self.seen {
                return Err(RingFault::Unfinished);
            }
            if usize::from(slots) == B::MAX_PIECES {
                return Err(RingFault::ChainTooLong(B::MAX_PIECES));
            }
            let (word, piece) = self.buffers.received(&self.ring, at.wrapping_add(slots))?;
            slots += 1;
            if !piece.is_empty() {
                piece.prefetch_read(0);
                pieces[n] = piece;
                (n, len) = (n + 1, len + piece.len());
            }
            if !word.has_next() {
                break;
            }
        }
        if B::End::OWNS_BUFFERS && usize::from(slots) > burst.buffer_room() {
            return Ok(());
        }
        self.at = at.wrapping_add(slots);
        let buf_id = self.buffers.chain_id(&self.ring, at, slots, burst);
        stats.work += u64::from(slots) * work::DESCRIPTOR;
        stats.packets += 1;
        stats.bytes += len as u64;
        if (MIN_FRAME..=MAX_FRAME).contains(&len) {
            burst.push_chain(buf_id, &pieces[..n]);
        } else {
            drop_frame(len, buf_id, burst, stats);
        }
        Ok(())
    }
}

/// Counts a frame of invalid length; its buffers return with the burst.
#[cold]
fn drop_frame(len: usize, buf_id: BufId, burst: &mut Burst, stats: &mut BurstStats) {
    stats.drop(if len < MIN_FRAME { DropReason::TooShort } else { DropReason::TooLong }, 1);
    burst.give_back(buf_id);
}

impl<B: Buffers> RxQueue for Rx<B> {
    fn prefetch(&self) {
        // Descriptors that are not published may be written at this moment: a prefetch would take their line from the
        // sender's cache.
        let known = self.seen.wrapping_sub(self.at);
        if known < BURST as u16 {
            self.ring.prefetch_theirs::<B::End>();
        }
        if known > 0 {
            self.ring.prefetch_word(self.at);
            self.ring.prefetch_word(self.at.wrapping_add(LINE));
        }
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let taken = self.take(burst, stats);
        if self.buffers.is_lost() {
            return Err(PortFault::MemoryLost);
        }
        taken.map_err(PortFault::PeerRing)
    }

    fn complete(&mut self, buffers: &[BufId]) {
        self.done = self.buffers.give_back(&self.ring, self.done, buffers);
        self.publish();
    }

    /// Not supported by the protocol: a sender that waits for buffers polls the index.
    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.ring.enable_notification::<B::End>(self.at))
    }

    fn disable_notification(&mut self) {
        self.ring.disable_notification();
        eventfd::clear(&self.wake);
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    /// The memory does not change during the connection.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Memif(Box::new(MemifQueue { at: self.at, done: self.done, held: self.buffers.freeze() }))
    }
}
