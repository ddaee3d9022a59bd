//! Transmit queue of a virtio-user port, on the driver side of a transmit ring.
//!
//! Buffers are used in turn. The next ones are prefetched for writing, and used buffers are reclaimed a burst at a
//! time once half of the buffers are outstanding. A frame is written to one buffer, or to several that form a chain,
//! posted, and published with the others of the same call. Headers are maintained only while any of them is not zero
//! or an offload is to be left.
//!
//! [`RingTx`] implements the rest, for one worker or several.

use super::buffers::Buffers;
use super::device::QueueSetup;
use super::links::Links;
use super::offloads::Headers;
use crate::burst::layout::{ANY, IN_PLACE, WHOLE};
use crate::transmit::{Filled, Form, HeaderKind, RingTx, Slots, Taken, TxRing};
use crate::{BURST, Burst, BurstStats, DriverQueue, PortFault, QueueState, TxQueue, work};
use mem::GuestMemory;
use mem::copy::Kernel;
use ring::RingFault;
use ring::driver::{DriverRing, Packed, Split, Used};
use std::iter;
use std::sync::Arc;

/// Creates a queue that continues from `state`. Selects the ring kind and the copy kernel once.
pub(super) fn thaw(setup: &QueueSetup, state: QueueState) -> Result<Box<dyn TxQueue>, PortFault> {
    mem::with_kernel!(mem::copy::chosen(), K => {
        if setup.packed {
            Ok(Box::new(queue::<Packed, K>(setup, state)?) as Box<dyn TxQueue>)
        } else {
            Ok(Box::new(queue::<Split, K>(setup, state)?) as Box<dyn TxQueue>)
        }
    })
}

fn queue<R: DriverRing, K: Kernel>(
    setup: &QueueSetup,
    state: QueueState,
) -> Result<RingTx<Core<R>, K>, PortFault> {
    Ok(RingTx::new(Core::thaw(setup, state)?, Some(setup.kick.clone()), setup.work))
}

/// Identifiers of free buffers, in the order of their return: those at `(first + k) & mask` for `k < held`.
struct Free {
    ids: Box<[u16]>,
    mask: usize,
    first: usize,
    held: usize,
    /// Total number of identifiers.
    size: usize,
}

impl Free {
    /// Creates the list with the identifiers `ids` of a ring of `size`.
    fn of(ids: impl Iterator<Item = u16>, size: u16) -> Self {
        let places = usize::from(size).next_power_of_two();
        let mut free =
            Self { ids: vec![0; places].into(), mask: places - 1, first: 0, held: 0, size: size.into() };
        free.extend(ids);
        free
    }

    /// The `k`-th identifier.
    #[inline(always)]
    fn get(&self, k: usize) -> u16 {
        self.ids[(self.first + k) & self.mask]
    }

    /// Removes the first `n`, which must be present.
    #[inline(always)]
    fn advance(&mut self, n: usize) {
        self.first = (self.first + n) & self.mask;
        self.held -= n;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u16> {
        let id = (self.held > 0).then(|| self.get(0))?;
        self.advance(1);
        Some(id)
    }

    /// The ring returns each identifier once, so there is always room.
    #[inline(always)]
    fn extend(&mut self, ids: impl Iterator<Item = u16>) {
        let mut end = self.first + self.held;
        for id in ids {
            self.ids[end & self.mask] = id;
            end += 1;
        }
        self.held = end - self.first;
    }
}

/// A ring with its buffers.
pub(super) struct Core<R> {
    ring: R,
    buffers: Buffers,
    headers: Headers,
    links: Links,
    free: Free,
    /// Number of leading buffers of `free` that are prefetched.
    fetched: usize,
    used: [Used; BURST],
    /// Buffers after the first of each frame since [`TxRing::take_work`].
    walked: u64,
}

impl<R: DriverRing> Core<R> {
    /// Continues from `state`. Buffers reserved and not committed are free again.
    pub(super) fn thaw(setup: &QueueSetup, state: QueueState) -> Result<Self, PortFault> {
        let size = setup.layout.size;
        let headers = if state == QueueState::Fresh { Headers::new(size) } else { Headers::unknown(size) };
        let (ring, DriverQueue { ring: out, waiting, links }) = setup.ring::<R>(state)?;
        let links = Links::thaw(links, size, (0..size).filter(|&id| out.is_out(id)));
        let Some((links, taken)) = links.filter(|_| waiting.is_empty()) else {
            return Err(PortFault::State("the buffers of its frames are not those of a transmit queue"));
        };
        Ok(Self {
            ring,
            buffers: setup.buffers.clone(),
            headers,
            links,
            free: Free::of((0..size).filter(|&id| !taken[usize::from(id)]), size),
            fetched: 0,
            used: [Used::default(); BURST],
            walked: 0,
        })
    }

    /// Removes the next free buffer.
    #[inline(always)]
    fn pop(&mut self) -> Option<u16> {
        self.fetched = self.fetched.saturating_sub(1);
        self.free.pop()
    }

    /// Reclaims buffers until `n` are free or the back end has returned no more.
    #[inline]
    fn gather(&mut self, n: usize) -> Result<(), RingFault> {
        while self.free.held < n && self.reclaim()? > 0 {}
        Ok(())
    }

    /// Reclaims used buffers if fewer than half are free, and prefetches the next free ones.
    #[inline]
    fn look_ahead(&mut self) -> Result<(), RingFault> {
        if self.free.held < self.free.size / 2 {
            self.reclaim()?;
        }
        let ahead = self.free.held.min(BURST);
        for k in self.fetched..ahead {
            self.buffers.prefetch_write(self.free.get(k));
        }
        self.fetched = self.fetched.max(ahead);
        Ok(())
    }

    #[inline]
    fn reclaim(&mut self) -> Result<usize, RingFault> {
        let n = self.ring.take(&mut self.used)?;
        if self.links.are_set() {
            self.unlink(n);
        } else {
            self.free.extend(self.used[..n].iter().map(|used| used.id));
        }
        Ok(n)
    }

    /// Reclaims the chains of the first `n` of `used`.
    #[cold]
    fn unlink(&mut self, n: usize) {
        for used in &self.used[..n] {
            self.free.extend(iter::successors(Some(used.id), |&id| self.links.take(id)));
        }
    }

    /// Reserves linked buffers for a frame of `len` bytes; `others` frames follow it.
    #[inline]
    fn take_linked(&mut self, len: usize, others: usize, slots: &mut Slots) -> Result<Taken, RingFault> {
        let n = self.buffers.count(len).max(1);
        if n > BURST.min(self.free.size) {
            return Ok(Taken::TooSmall);
        }
        self.gather(n + others)?;
        if self.free.held < n {
            return Ok(Taken::Full);
        }
        let mut last = None;
        for _ in 0..n {
            let Some(id) = self.pop() else { break };
            let piece = match last {
                None => self.buffers.whole(id),
                Some(before) => {
                    self.links.set(before, id);
                    self.buffers.frame(id, self.buffers.room())
                }
            };
            slots.add_piece(piece);
            slots.add_buffer(Filled::new(id, 0, piece.len()));
            last = Some(id);
        }
        self.walked += n as u64 - 1;
        Ok(Taken::Slot)
    }

    /// Returns the buffers of a frame that is not sent.
    #[cold]
    fn take_back(&mut self, frame: &[Filled]) {
        for buffer in frame {
            self.links.take(buffer.id);
            self.free.extend(iter::once(buffer.id));
        }
    }

    /// Posts the buffers of one frame.
    #[inline]
    fn post_frame(&mut self, frame: &[Filled]) {
        let Some((first, more)) = frame.split_first() else { return };
        self.headers.set(first.id, first.is_marked);
        if first.is_refused {
            return self.take_back(frame);
        }
        let post = self.buffers.to_send(first.id, first.len);
        if more.is_empty() {
            return self.ring.post(post);
        }
        let mut chain = [post; BURST];
        let posts = more.iter().map(|buffer| self.buffers.to_send_more(buffer.id, buffer.len));
        chain[1..].iter_mut().zip(posts).for_each(|(to, post)| *to = post);
        self.ring.post_chain(&chain[..frame.len().min(BURST)]);
    }
}

impl<R: DriverRing> TxRing for Core<R> {
    fn form(&self) -> Form {
        Form { header_len: self.buffers.header() as usize, kind: HeaderKind::Device }
    }

    fn map(&self) -> &Arc<GuestMemory> {
        self.buffers.map()
    }

    #[inline(always)]
    fn prepare(&mut self, n: usize) -> Result<(), PortFault> {
        self.gather(n).map_err(PortFault::UsedRing)
    }

    #[inline(always)]
    fn send_plain<K: Kernel>(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize {
        let marked = burst.has_offloads() || self.headers.any_nonzero();
        let run = match (marked, burst.layout()) {
            // Headers are maintained where frames are written to slots.
            (true, _) => return 0,
            (false, WHOLE) => send_plain::<R, K, WHOLE>,
            (false, IN_PLACE) => send_plain::<R, K, IN_PLACE>,
            (false, _) => send_plain::<R, K, ANY>,
        };
        run(self, burst, indices, stats)
    }

    fn take(&mut self, len: usize, others: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        self.take_linked(len, others, slots).map_err(PortFault::UsedRing)
    }

    fn post(&mut self, filled: &[Filled]) {
        filled.chunk_by(|buffer, _| buffer.has_next).for_each(|frame| self.post_frame(frame));
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.ring.publish();
    }

    #[inline(always)]
    fn refill(&mut self) -> Result<(), PortFault> {
        self.look_ahead().map_err(PortFault::UsedRing)
    }

    fn room(&mut self, len: usize) -> usize {
        let each = self.buffers.count(len).max(1);
        match self.gather(BURST) {
            // A frame that can never fit is accepted here, so that it is counted.
            Ok(()) if each <= BURST.min(self.free.size) => self.free.held / each,
            // The next call that sends finds and reports the fault again.
            _ => 1,
        }
    }

    #[cold]
    fn depth(&mut self) -> usize {
        // The next call that sends finds and reports a fault again.
        let _ = self.gather(self.free.size);
        self.free.size - self.free.held
    }

    #[inline(always)]
    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.walked) * work::PIECE
    }

    #[inline(always)]
    fn needs_notification(&mut self) -> bool {
        self.ring.should_kick()
    }

    /// The port's own memory does not change.
    #[inline(always)]
    fn check_memory(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(&mut self) -> QueueState {
        let (ring, links) = (self.ring.freeze(), self.links.freeze());
        QueueState::Driver(Box::new(DriverQueue { ring, waiting: Vec::new(), links }))
    }
}

/// Sends while frames fit in one buffer and one is free; no header is marked. Returns the number of frames sent.
/// `LAYOUT`: [`Burst::layout`] or `ANY`.
fn send_plain<R: DriverRing, K: Kernel, const LAYOUT: u8>(
    core: &mut Core<R>,
    burst: &Burst,
    indices: &[u8],
    stats: &mut BurstStats,
) -> usize {
    let (mut done, mut bytes) = (0, 0);
    let Core { ring, buffers, free, .. } = core;
    ring.post_each(indices[..indices.len().min(free.held)].iter().map_while(|&pick| {
        let i = usize::from(pick) % BURST;
        let (len, id) = (burst.frame_len(i), free.get(done));
        buffers.fill::<K, LAYOUT>(id, (burst, i), len)?;
        done += 1;
        bytes += len as u64;
        Some(buffers.to_send(id, buffers.header() + len as u32))
    }));
    core.free.advance(done);
    core.fetched = core.fetched.saturating_sub(done);
    stats.packets += done as u64;
    stats.bytes += bytes;
    done
}

#[cfg(test)]
mod tests {
    use super::super::device::Device;
    use super::super::{Negotiated, Options};
    use super::*;
    use crate::transmit::tests::{SIZE, hang};
    use crate::vhost::Features;
    use crate::vhost::message::ProtocolFeatures;

    #[test]
    fn memory_does_not_grow_while_a_worker_hangs() {
        let options = Options { queue_size: SIZE, ..Options::default() };
        let features = Features(Features::VERSION_1);
        let agreed = Negotiated { features, protocol: ProtocolFeatures(0), queue_pairs: 1, memory_slots: 1 };
        let device = Device::new(options, agreed).unwrap();
        let (_, setup) = device.pairs().next().unwrap();
        hang(Core::<Split>::thaw(setup, QueueState::Fresh).unwrap(), |core| {
            usize::from(SIZE) - core.ring.free()
        });
    }
}
