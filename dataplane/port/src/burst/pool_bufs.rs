//! Packets in pool buffers: a burst owns the buffers, and the next queue may take them over.
//!
//! Packets from another thread are in buffers with one owner. The burst owns them from [`Burst::push_buffers`] on, and
//! the queue that filled the burst frees the remaining ones ([`Burst::unload`]) when the burst is completed. A packet
//! passed on to another thread takes its buffers along ([`Burst::take_buffers`]), without a copy. The burst must not be
//! accessed for that packet afterwards, because its bytes belong to the other thread. A packet must therefore be
//! taken as the last step, and never if several outputs need it. Buffers hold a packet as received: the head in the
//! burst is a copy and must not be changed.

use super::{BURST, Burst, Frame, Shape};
use crate::burst::layout;
use crate::{Offload, PortId};
use mem::copy::Kernel;
use mem::pool::Buffer;
use std::cell::Cell;

/// Source of packets that came from another thread, and their destination if it is already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Input port.
    pub from: PortId,
    /// Queue pair of the input port.
    pub pair: u16,
    /// Output port; meaningless before it is decided.
    pub to: PortId,
}

impl Default for Route {
    fn default() -> Self {
        Self { from: PortId(0), pair: 0, to: PortId(0) }
    }
}

/// Buffers of a burst, in order, and their assignment to packets.
#[derive(Default)]
pub(super) struct PoolBufs {
    buffers: Vec<Cell<Option<Buffer>>>,
    /// If `is_listed`: index of the first buffer and number of buffers of each packet. Otherwise packet `i` has
    /// buffer `i`.
    of: Vec<(u32, u32)>,
    is_listed: bool,
    /// Number of buffers not taken yet.
    left: Cell<usize>,
}

impl PoolBufs {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.buffers.clear();
        self.of.clear();
        self.is_listed = false;
        self.left.set(0);
    }

    /// Swaps packets `i` and `k`.
    pub(super) fn swap(&mut self, i: usize, k: usize) {
        if !self.buffers.is_empty() {
            self.list();
            self.of.swap(i, k);
        }
    }

    /// Removes packets `n` and above. Their buffers stay until they are unloaded.
    pub(super) fn truncate(&mut self, n: usize) {
        if n < self.buffers.len() {
            self.list();
            self.of.truncate(n);
        }
    }

    /// Subtracts `n` taken buffers.
    #[inline(always)]
    fn took(&self, n: usize) {
        self.left.set(self.left.get() - n);
    }

    /// Switches to an explicit assignment of buffers to packets.
    fn list(&mut self) {
        if !std::mem::replace(&mut self.is_listed, true) {
            self.of.extend((0..self.buffers.len() as u32).map(|at| (at, 1)));
        }
    }

    /// First buffer of packet `i` and number of its buffers. Returns `None` if it is not in pool buffers.
    #[inline(always)]
    fn of(&self, i: usize) -> Option<(u32, u32)> {
        if !self.is_listed {
            return (i < self.buffers.len()).then_some((i as u32, 1));
        }
        self.of.get(i).copied()
    }
}

/// Result of taking a packet.
enum TakeResult {
    Taken(Buffer),
    /// Taken before.
    Missing,
    /// Not in exactly one pool buffer.
    NotPooled,
}

/// Iterator over packets taken from a burst: index and buffer.
#[derive(Debug)]
pub struct TakeRun<'a, 'b> {
    burst: &'a Burst,
    left: &'a mut &'b [u8],
    taken: usize,
}

impl Iterator for TakeRun<'_, '_> {
    type Item = (usize, Buffer);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, Buffer)> {
        while let Some((&pick, behind)) = self.left.split_first() {
            match self.burst.take_whole(pick.into()) {
                TakeResult::Taken(buffer) => {
                    self.taken += 1;
                    *self.left = behind;
                    return Some((pick.into(), buffer));
                }
                TakeResult::Missing => *self.left = behind,
                TakeResult::NotPooled => return None,
            }
        }
        None
    }
}

impl Drop for TakeRun<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.burst.pool_bufs.took(self.taken);
    }
}

impl Burst {
    /// Sets the route of the packets.
    #[inline]
    pub fn set_route(&mut self, route: Route) {
        self.route = route;
    }

    /// The route set last. Receive queues of ports do not set it.
    #[inline]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Adds a packet in these buffers, which the burst then owns. Returns the first buffer if the burst is full;
    /// nothing is added then. Either all packets of a burst are added from pool buffers, or none.
    #[inline]
    pub fn push_buffers(&mut self, first: Buffer, more: impl Iterator<Item = Buffer>) -> Result<(), Buffer> {
        let i = self.n;
        if i == BURST {
            return Err(first);
        }
        self.pool_bufs.list();
        let (at, spilled) = (self.pool_bufs.buffers.len(), self.spill.len());
        let (seg, is_wide) = (first.seg(), first.wide().is_some());
        let mut bytes = seg.len();
        self.pool_bufs.buffers.push(Cell::new(Some(first)));
        for buffer in more {
            bytes += buffer.len();
            self.spill.push(buffer.seg());
            self.pool_bufs.buffers.push(Cell::new(Some(buffer)));
        }
        let n = self.pool_bufs.buffers.len() - at;
        self.pool_bufs.of.push((at as u32, n as u32));
        *self.pool_bufs.left.get_mut() += n;
        self.rest[i] = seg;
        if !is_wide {
            self.is_at_least(Shape::Single);
        }
        if self.spill.len() > spilled {
            self.set_more(i, spilled as u32);
        }
        self.len[i] = bytes as u32;
        self.n += 1;
        Ok(())
    }

    /// [`Burst::push_buffers`] for packets of one buffer each. The burst must have space for all of them.
    #[inline(always)]
    pub fn push_run(&mut self, packets: impl ExactSizeIterator<Item = (Buffer, Offload)>) {
        let (first, n) = (self.n, packets.len());
        if self.pool_bufs.is_listed {
            self.pool_bufs.of.extend((self.pool_bufs.buffers.len() as u32..).map(|at| (at, 1)).take(n));
        }
        let Self { rest, len, offload: offloads, pool_bufs, .. } = self;
        let (rest, len, offloads) =
            (&mut rest[first..][..n], &mut len[first..][..n], &mut offloads[first..][..n]);
        let held = pool_bufs.buffers.len();
        pool_bufs.buffers.reserve(n);
        let spare = &mut pool_bufs.buffers.spare_capacity_mut()[..n];
        let mut places = rest.iter_mut().zip(len).zip(offloads).zip(spare);
        let (mut wide, mut work, mut taken) = (true, Offload::NONE, 0);
        // `fold` is not always inlined, which costs 30 instructions a packet.
        for (buffer, offload) in packets {
            let Some((((rest, len), left), place)) = places.next() else { break };
            let seg = buffer.seg();
            seg.prefetch_read(0);
            seg.prefetch_read(64);
            (*rest, *len, *left) = (seg, seg.len() as u32, offload);
            wide &= buffer.wide().is_some();
            place.write(Cell::new(Some(buffer)));
            work = if offload == Offload::NONE { work } else { offload };
            taken += 1;
        }
        // SAFETY: `taken` elements after the first `held` were just initialised.
        unsafe { pool_bufs.buffers.set_len(held + taken) };
        *pool_bufs.left.get_mut() += taken;
        let n = taken;
        self.n += n;
        if !wide {
            self.is_at_least(Shape::Single);
        }
        if self.shape == Shape::Chained {
            self.more[first..first + n].fill((0, 0));
        }
        if work != Offload::NONE && !self.offloads {
            self.offloads = true;
            self.offload[..first].fill(Offload::NONE);
            self.offload[first + n..].fill(Offload::NONE);
        }
    }

    /// Copies packet `i` to a buffer, after `headroom` bytes. Returns `false` if it does not fit.
    #[inline(always)]
    pub fn copy_to_buffer<K: Kernel>(&self, i: usize, buffer: &mut Buffer, headroom: u16) -> bool {
        if !buffer.lay_out(headroom, self.frame_len(i)) {
            return false;
        }
        // SAFETY: the caller owns the buffer exclusively, and its data has the packet's length.
        unsafe {
            if self.layout() == layout::WHOLE {
                self.write_to::<K, { layout::WHOLE }>((i, self.frame_len(i)), buffer.seg());
            } else {
                self.write_to::<K, { layout::ANY }>((i, self.frame_len(i)), buffer.seg());
            }
        }
        true
    }

    /// Whether any packet is in pool buffers that were not taken.
    #[inline(always)]
    pub fn has_buffers(&self) -> bool {
        self.pool_bufs.left.get() > 0
    }

    /// Takes the packets at the indices `left`, up to the first that is not in exactly one buffer; packets taken
    /// before are skipped. The burst must not be accessed for a taken packet.
    #[inline(always)]
    pub fn take_run<'a, 'b>(&'a self, left: &'a mut &'b [u8]) -> TakeRun<'a, 'b> {
        TakeRun { burst: self, left, taken: 0 }
    }

    /// Takes packet `i` if it is in exactly one buffer. The caller must subtract it with `took`.
    #[inline(always)]
    fn take_whole(&self, i: usize) -> TakeResult {
        let Some((at, 1)) = self.pool_bufs.of(i) else { return TakeResult::NotPooled };
        self.pool_bufs.buffers[at as usize].take().map_or(TakeResult::Missing, TakeResult::Taken)
    }

    /// Number of buffers that [`Burst::take_buffers`] would take for packet `i`: zero if it is not in pool buffers,
    /// `None` if it was taken.
    #[inline]
    pub fn pool_bufs(&self, i: usize) -> Option<usize> {
        let Some((at, n)) = self.pool_bufs.of(i) else { return Some(0) };
        self.id_at(at).map(|_| n as usize)
    }

    /// [`Buffer::id`] of the first buffer of packet `i`; `None` if it is not in pool buffers, or was taken.
    pub fn buffer_id(&self, i: usize) -> Option<usize> {
        self.id_at(self.pool_bufs.of(i)?.0)
    }

    /// A `Cell` cannot be borrowed, so the buffer is taken and put back.
    #[inline]
    fn id_at(&self, at: u32) -> Option<usize> {
        let place = &self.pool_bufs.buffers[at as usize];
        let buffer = place.take()?;
        let id = buffer.id();
        place.set(Some(buffer));
        Some(id)
    }

    /// Takes the buffers of packet `i`, which hold it as received. The caller must check [`Burst::pool_bufs`] before;
    /// the burst must not be accessed for the packet afterwards.
    #[inline]
    pub fn take_buffers(&self, i: usize, mut each: impl FnMut(Buffer)) {
        let Some((at, n)) = self.pool_bufs.of(i) else { return };
        let buffers = &self.pool_bufs.buffers[at as usize..(at + n) as usize];
        for buffer in buffers.iter().filter_map(Cell::take) {
            self.pool_bufs.took(1);
            each(buffer);
        }
    }

    /// Takes all remaining buffers, to be freed.
    #[inline]
    pub fn unload(&self) -> impl Iterator<Item = Buffer> {
        self.pool_bufs.left.set(0);
        self.pool_bufs.buffers.iter().filter_map(Cell::take)
    }
}

impl Frame<'_> {
    /// Copies the next part of the frame, after its first `skip` bytes, to `to`. Returns the number of bytes copied.
    /// Called repeatedly to fill several buffers.
    #[inline]
    pub fn copy_behind<K: Kernel>(&self, skip: usize, to: &mut [u8]) -> usize {
        match self.head.get(skip..skip + to.len()) {
            Some(bytes) => {
                to.copy_from_slice(bytes);
                to.len()
            }
            None => self.copy_pieces::<K>(skip, to),
        }
    }

    fn copy_pieces<K: Kernel>(&self, mut skip: usize, to: &mut [u8]) -> usize {
        let head = self.head.get(skip..).unwrap_or_default();
        let mut at = head.len().min(to.len());
        to[..at].copy_from_slice(&head[..at]);
        skip = skip.saturating_sub(self.head.len());
        for seg in self.rest() {
            let piece = seg.split_at(skip).1.split_at(to.len() - at).0;
            skip = skip.saturating_sub(seg.len());
            // SAFETY: the segment is pinned by the burst that lent this frame; the slice has the piece's length.
            unsafe { piece.copy_out::<K>(&mut to[at..at + piece.len()]) };
            at += piece.len();
        }
        at
    }
}

#[cfg(test)]
mod tests;
