//! A memif port's transmit ring, as the switch sends to it.
//!
//! Buffers that come next stand in a private stock: read, judged, found and fetched for writing while the burst before
//! is on its way, so the peer may change their descriptors afterwards without effect. A frame is written into the
//! buffer in front, or over as many as it needs, and all frames of one call become visible with one store.
//!
//! One worker owns the queue outright, without a lock; or several share it after [`TxQueue::fork`], and then the
//! rules of the `shared` module hold.

use super::RingFault;
use super::buffers::{Buffers, Place};
use super::queue::Queue;
use super::ring::{self, End, Ring};
use super::shared::Shared;
use crate::eventfd::signal;
use crate::{BURST, Burst, DropReason, Frame, PortFault, Tally, TxQueue, work};
use mem::copy::Kernel;
use rustix::fd::{AsFd, OwnedFd};
use std::marker::PhantomData;
use std::sync::Arc;

/// Places of the stock, a power of two: a burst, and the most that one frame may take.
const STOCK: usize = 128;
/// Buffers kept found and fetched ahead of need.
const AHEAD: u16 = BURST as u16;
/// Most buffers of one frame.
const MOST_PIECES: u16 = BURST as u16;

/// A queue over a ring that was just connected. The copy kernel is chosen here, once.
pub(super) fn start<B: Buffers>(queue: Queue<B>) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(Owned::<B, K>::new(queue)) as Box<dyn TxQueue>)
}

/// Where a frame goes.
pub(super) enum Room {
    /// The buffer in front, or so many.
    Entries(u16),
    /// No buffers that the peer offers would hold it.
    TooSmall,
    /// There are not enough buffers now.
    Full,
}

/// A ring with its stock.
pub(super) struct Core<B> {
    pub(super) ring: Ring,
    buffers: B,
    stock: Box<[Place; STOCK]>,
    /// The next entry to give out.
    pub(super) at: u16,
    /// The stock ends before this entry.
    stocked: u16,
    /// Free entries end before this one, as last seen.
    limit: u16,
    /// Everything before this entry is published.
    pub(super) posted: u16,
    /// Buffers beyond the first that were counted together for frames since [`Core::take_work`].
    walked: u64,
}

impl<B: Buffers> Core<B> {
    pub(super) fn new(queue: Queue<B>) -> (Self, Arc<OwnedFd>) {
        let Queue { ring, buffers, wake } = queue;
        let limit = if B::End::LENDS { ring.size() } else { 0 };
        let stock = Box::new([Place::EMPTY; STOCK]);
        (Self { ring, buffers, stock, at: 0, stocked: 0, limit, posted: 0, walked: 0 }, wake)
    }

    /// The place of entry `at`, which is in the stock.
    #[inline(always)]
    pub(super) fn place(&self, at: u16) -> Place {
        self.stock[usize::from(at) % STOCK]
    }

    /// Sees to it that `n` places, [`STOCK`] at most, are in the stock, if the peer has offered as many.
    #[inline]
    pub(super) fn stock_up(&mut self, n: u16) -> Result<(), RingFault> {
        let target = self.at.wrapping_add(n);
        let short = n.saturating_sub(self.stocked.wrapping_sub(self.at));
        if short == 0 {
            return Ok(());
        }
        if self.limit.wrapping_sub(self.stocked) < short {
            self.look()?;
        }
        let short = short.min(self.limit.wrapping_sub(self.stocked));
        let end = self.stocked.wrapping_add(short);
        debug_assert!(end.wrapping_sub(self.at) <= target.wrapping_sub(self.at));
        while self.stocked != end {
            let place = self.buffers.to_fill(&self.ring, self.stocked)?;
            place.room.prefetch_write(0);
            self.stock[usize::from(self.stocked) % STOCK] = place;
            self.stocked = self.stocked.wrapping_add(1);
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

    /// Where a frame of `len` bytes goes, from the entry in front.
    #[inline(always)]
    pub(super) fn room(&mut self, len: usize) -> Result<Room, RingFault> {
        if self.at != self.stocked && len <= self.place(self.at).room.len() {
            return Ok(Room::Entries(1));
        }
        self.room_of_several(len)
    }

    #[cold]
    fn room_of_several(&mut self, len: usize) -> Result<Room, RingFault> {
        let most = MOST_PIECES.min(self.ring.size());
        let (mut n, mut room) = (0, 0);
        let found = loop {
            if room >= len {
                break Room::Entries(n.max(1));
            }
            if n == most {
                break Room::TooSmall;
            }
            if self.stocked.wrapping_sub(self.at) == n {
                self.stock_up(n + 1)?;
            }
            if self.stocked.wrapping_sub(self.at) == n {
                break Room::Full;
            }
            room += self.place(self.at.wrapping_add(n)).room.len();
            n += 1;
        };
        self.walked += u64::from(n.saturating_sub(1));
        Ok(found)
    }

    /// The work of finding buffers for long frames since this was asked last, in units ([`crate::work`]). The peer chooses
    /// how small its buffers are.
    #[inline(always)]
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.walked) * work::PIECE
    }

    /// Whether a buffer is there, of whatever size. A fault is found again, and reported, by the next call that sends.
    pub(super) fn has_room(&mut self) -> bool {
        self.stock_up(1).is_err() || self.at != self.stocked
    }

    /// Says what is in entry `at`; the peer sees it after [`Core::publish`].
    #[inline(always)]
    pub(super) fn describe(&self, at: u16, word: ring::Word) {
        B::describe(&self.ring, at, word);
    }

    /// Shows the peer everything before `at`.
    #[inline(always)]
    pub(super) fn publish(&mut self, at: u16) {
        self.posted = at;
        self.ring.publish::<B::End>(at);
    }

    /// Whether the file behind the buffers was cut.
    #[inline(always)]
    pub(super) fn check_memory(&mut self) -> Result<(), PortFault> {
        if self.buffers.is_lost() { Err(PortFault::MemoryLost) } else { Ok(()) }
    }

    /// Writes a frame over `n` buffers from the entry in front.
    #[cold]
    fn send_over<K: Kernel>(&mut self, frame: &Frame<'_>, len: usize, n: u16) {
        let places = (0..n).map(|k| self.place(self.at.wrapping_add(k)));
        ring::spread::<K>(self.ring.map(), places.clone().map(|place| place.room), frame);
        let mut left = len;
        for (k, place) in (0..n).zip(places) {
            let here = place.room.len().min(left);
            left -= here;
            self.describe(self.at.wrapping_add(k), place.filled(here).and_next(k + 1 < n));
        }
        self.at = self.at.wrapping_add(n);
    }

    /// Sends private bytes; `false` where the peer has no buffers for them now.
    pub(super) fn send_bytes<K: Kernel>(&mut self, mut bytes: &[u8]) -> Result<Option<Sent>, RingFault> {
        let n = match self.room(bytes.len())? {
            Room::Entries(n) => n,
            Room::TooSmall => return Ok(Some(Sent::TooSmall)),
            Room::Full => return Ok(None),
        };
        for k in 0..n {
            let place = self.place(self.at.wrapping_add(k));
            let (here, rest) = bytes.split_at(place.room.len().min(bytes.len()));
            ring::copy_in::<K>(self.ring.map(), place.room, here);
            self.describe(self.at.wrapping_add(k), place.filled(here.len()).and_next(k + 1 < n));
            bytes = rest;
        }
        self.at = self.at.wrapping_add(n);
        Ok(Some(Sent::Whole))
    }
}

/// What became of bytes that are done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// They are in the ring.
    Whole,
    /// The peer's buffers cannot hold them.
    TooSmall,
}

/// The queue in the hands of one worker.
struct Owned<B, K> {
    core: Option<Core<B>>,
    shared: Option<Shared<B, K>>,
    wake: Arc<OwnedFd>,
    kernel: PhantomData<K>,
}

impl<B: Buffers, K: Kernel> Owned<B, K> {
    fn new(queue: Queue<B>) -> Self {
        let (core, wake) = Core::new(queue);
        Self { core: Some(core), shared: None, wake, kernel: PhantomData }
    }
}

impl<B: Buffers, K: Kernel> TxQueue for Owned<B, K> {
    fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => send_alone::<B, K>(core, burst, picks, tally),
            (None, Some(shared)) => shared.tx(burst, picks, tally),
            (None, None) => Ok(0),
        }
    }

    fn has_room(&mut self, _len: usize) -> bool {
        match (&mut self.core, &mut self.shared) {
            (Some(core), _) => core.has_room(),
            (None, Some(shared)) => shared.has_room(),
            (None, None) => false,
        }
    }

    fn notify(&mut self) {
        let wanted = match (&self.core, &self.shared) {
            (Some(core), _) => core.ring.wants_interrupt(),
            (None, Some(shared)) => shared.ring().wants_interrupt(),
            (None, None) => false,
        };
        if wanted {
            signal(self.wake.as_fd());
        }
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        if let Some(core) = self.core.take() {
            self.shared = Some(Shared::new(core));
        }
        let shared = self.shared.as_ref().map(Shared::another);
        Box::new(Self { core: None, shared, wake: self.wake.clone(), kernel: PhantomData })
    }

    /// The memory stays as it is for as long as the connection does.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Each connection begins with fresh rings, so nobody asks where an old one stopped.
    fn base(&self) -> u32 {
        0
    }
}

/// Sends with nobody else at the queue.
fn send_alone<B: Buffers, K: Kernel>(
    core: &mut Core<B>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, PortFault> {
    let sent = write_all::<B, K>(core, burst, picks, tally);
    tally.work += core.take_work();
    core.publish(core.at);
    let stocked = if sent.is_ok() { core.stock_up(AHEAD) } else { Ok(()) };
    core.check_memory()?;
    stocked?;
    Ok(sent?)
}

#[inline]
fn write_all<B: Buffers, K: Kernel>(
    core: &mut Core<B>,
    burst: &Burst,
    picks: &[u8],
    tally: &mut Tally,
) -> Result<usize, RingFault> {
    core.stock_up(picks.len() as u16)?;
    let mut done = 0;
    for &pick in picks {
        let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
        done += 1;
        match core.room(len)? {
            Room::Entries(1) => {
                let place = core.place(core.at);
                ring::fill::<K>(core.ring.map(), place.room, &frame, len);
                core.describe(core.at, place.filled(len));
                core.at = core.at.wrapping_add(1);
            }
            Room::Entries(n) => core.send_over::<K>(&frame, len, n),
            Room::TooSmall => {
                tally.drop(DropReason::BufferTooSmall, 1);
                continue;
            }
            Room::Full => {
                done -= 1;
                break;
            }
        }
        tally.packets += 1;
        tally.bytes += len as u64;
    }
    Ok(done)
}
