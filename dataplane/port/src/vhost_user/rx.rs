//! Receive queue of a vhost-user port, on a guest's transmit ring.
//!
//! A batch of descriptors is snapshot and translated, the frames' first lines are prefetched, and the frames stay in
//! place until the burst is completed. If the guest may not leave offloads, the virtio-net header is not read (VIRTIO
//! 1.2 section 5.1.6.2). Otherwise headers are read after the batch ([`crate::header`]), when their lines have had
//! time to arrive.

use super::fill::{LONG_HEADER, SHORT_HEADER};
use super::setup::QueueSetup;
use crate::burst::FreeSlots;
use crate::eventfd;
use crate::header::{self, Allowed, Headers};
use crate::vhost::Features;
use crate::work::{self, RECEIVE_DESCRIPTORS};
use crate::{Burst, BurstStats, DropReason, PortFault, QueueState, RxQueue};
use mem::{MemTable, Translator, VolatileSlice, Window};
use ring::device::{DeviceRing, Logged, Packed, Split, VisitPlain};
use ring::{BufId, Descriptor, Direction, RingFault, resolve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Minimum frame length: an Ethernet header.
const MIN_FRAME: usize = 14;
/// Maximum frame length: 64 KiB, the longest of any offload.
const MAX_FRAME: usize = 65_550;

/// Creates receive queues. Selects the kinds of ring and header once.
#[derive(Debug)]
pub(super) struct VhostRx;

impl VhostRx {
    /// Creates a queue that continues the ring described by `setup`, at its base.
    pub(super) fn start(setup: &QueueSetup) -> Result<Box<dyn RxQueue>, PortFault> {
        match (setup.features.has(Features::RING_PACKED), &setup.log) {
            (false, None) => queue::<Split>(setup),
            (true, None) => queue::<Packed>(setup),
            (false, Some(_)) => queue::<Logged<Split>>(setup),
            (true, Some(_)) => queue::<Logged<Packed>>(setup),
        }
    }
}

fn queue<R: DeviceRing>(setup: &QueueSetup) -> Result<Box<dyn RxQueue>, PortFault> {
    Ok(match setup.features.header_len() {
        SHORT_HEADER => Box::new(Rx::<R, SHORT_HEADER>::new(setup)?),
        _ => Box::new(Rx::<R, LONG_HEADER>::new(setup)?),
    })
}

struct Rx<R, const HEADER: usize> {
    ring: R,
    memory: Arc<MemTable>,
    generation: u64,
    translator: Translator,
    /// Descriptors of the last buffer that was not plain.
    descriptors: Vec<Descriptor>,
    segs: Vec<VolatileSlice>,
    headers: Headers,
    kick: Option<Arc<OwnedFd>>,
    call: Option<Arc<OwnedFd>>,
}

impl<R: DeviceRing, const HEADER: usize> Rx<R, HEADER> {
    fn new(setup: &QueueSetup) -> Result<Self, PortFault> {
        let mut generation = 0;
        let translator = setup.memory.current(&mut generation);
        let mut ring = R::new(&setup.layout(), translator.map())?;
        setup.log.iter().for_each(|log| ring.set_log(log.clone(), Direction::Read));
        setup.record().into_iter().for_each(|record| ring.set_record(record));
        Ok(Self {
            ring,
            memory: setup.memory.clone(),
            generation,
            translator,
            descriptors: Vec::with_capacity(ring::MAX_CHAIN),
            segs: Vec::with_capacity(2 * ring::MAX_PIECES),
            headers: Headers::new(Allowed::of_driver(setup.features.from_guest())),
            kick: setup.kick.clone(),
            call: setup.call.clone(),
        })
    }

    /// Receives leading buffers that are plain: header and frame in one piece.
    #[inline(always)]
    fn plain<const HEADERS: bool>(
        &mut self,
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> Result<(), RingFault> {
        let (first, room) = (burst.len(), burst.room());
        let mut frames = Frames::<HEADER, HEADERS> {
            window: self.translator.window(),
            translator: &mut self.translator,
            headers: &mut self.headers,
            places: burst.places(),
            first,
        };
        let taken = self.ring.pop_plain(room, Some(Direction::Read), &mut frames)?;
        stats.packets += taken as u64;
        stats.bytes += burst.filled(taken);
        Ok(())
    }

    /// Receives a buffer in several pieces, or one with an invalid frame.
    #[cold]
    fn chain(
        &mut self,
        chain: &[Descriptor],
        buf_id: BufId,
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> Result<(), PortFault> {
        self.segs.clear();
        stats.work += chain.len() as u64 * work::DESCRIPTOR;
        match resolve(chain, Direction::Read, &mut self.translator, &mut self.segs) {
            Err(RingFault::TooManyPieces) => {
                drop_frame(0, DropReason::TooManyPieces, buf_id, burst, stats);
                return Ok(());
            }
            resolved => resolved?,
        }
        let offload = header::of_chain(&self.segs);
        skip_front(&mut self.segs, HEADER);
        let len = self.segs.iter().map(|s| s.len()).sum();
        if !(MIN_FRAME..=MAX_FRAME).contains(&len) {
            let reason = if len < MIN_FRAME { DropReason::TooShort } else { DropReason::TooLong };
            drop_frame(len, reason, buf_id, burst, stats);
            return Ok(());
        }
        self.segs.iter().take(2).for_each(|seg| seg.prefetch_read(0));
        self.headers.note(burst.len(), VolatileSlice::EMPTY);
        burst.push_chain(buf_id, &self.segs);
        stats.packets += 1;
        stats.bytes += len as u64;
        self.headers.validate_last(offload, burst, stats);
        Ok(())
    }
}

/// Adds plain buffers to a burst. Separate from the queue and the burst, so that its fields stay in registers.
/// `HEADERS`: whether headers, of `HEADER` bytes, may leave offloads.
struct Frames<'a, const HEADER: usize, const HEADERS: bool> {
    window: Window,
    translator: &'a mut Translator,
    headers: &'a mut Headers,
    places: FreeSlots<'a>,
    /// Index of the first packet.
    first: usize,
}

impl<const HEADER: usize, const HEADERS: bool> VisitPlain for Frames<'_, HEADER, HEADERS> {
    #[inline(always)]
    fn visit(&mut self, k: usize, buffer: Descriptor) -> bool {
        let Descriptor { address, len, .. } = buffer;
        if !((HEADER + MIN_FRAME) as u32..=(HEADER + MAX_FRAME) as u32).contains(&len) {
            return false;
        }
        let Some(seg) = self.window.translate(address, len) else {
            // At the end of its region, or in another region than the previous buffer.
            let (seg, window) = self.translator.beyond_window(address, len);
            let Some(seg) = seg else { return false };
            self.window = window;
            let (header, frame) = seg.split_at(HEADER);
            self.note(k, header);
            return self.places.fill_exact(k, buffer.buf_id(), frame);
        };
        let (header, frame) = seg.split_at(HEADER);
        frame.seg().prefetch_read(0);
        if frame.seg().len() > 64 {
            frame.seg().prefetch_read(64);
        }
        self.note(k, header);
        self.places.fill(k, buffer.buf_id(), frame)
    }
}

impl<const HEADER: usize, const HEADERS: bool> Frames<'_, HEADER, HEADERS> {
    #[inline(always)]
    fn note(&mut self, k: usize, header: VolatileSlice) {
        if HEADERS {
            self.headers.note(self.first + k, header);
        }
    }
}

/// Counts a frame of invalid length; its buffer returns with the burst.
#[cold]
fn drop_frame(len: usize, reason: DropReason, buf_id: BufId, burst: &mut Burst, stats: &mut BurstStats) {
    stats.packets += 1;
    stats.bytes += len as u64;
    stats.drop(reason, 1);
    burst.give_back(buf_id);
}

/// Removes the first `n` bytes of a list of segments.
fn skip_front(segs: &mut Vec<VolatileSlice>, n: usize) {
    let mut left = n;
    let mut whole = 0;
    for seg in segs.iter_mut() {
        if seg.len() > left {
            *seg = seg.split_at(left).1;
            break;
        }
        left -= seg.len();
        whole += 1;
    }
    segs.drain(..whole);
}

impl<R: DeviceRing, const HEADER: usize> RxQueue for Rx<R, HEADER> {
    fn prefetch(&self) {
        self.ring.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let taken = self.take(burst, stats);
        // Truncated memory reads as zeros, which can look like any other fault.
        if self.translator.is_lost() { Err(PortFault::MemoryLost) } else { taken }
    }

    fn complete(&mut self, buffers: &[BufId]) {
        if buffers.is_empty() {
            return;
        }
        self.ring.push_read(buffers);
        self.ring.flush_used();
    }

    fn notify(&mut self) {
        if self.ring.needs_notification() {
            eventfd::call(self.call.as_deref());
        }
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.ring.enable_notification())
    }

    fn disable_notification(&mut self) {
        self.ring.disable_notification();
        if let Some(kick) = &self.kick {
            eventfd::clear(kick);
        }
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(|fd| fd.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        if let Some(translator) = self.memory.refresh(&mut self.generation) {
            self.translator = translator;
            self.ring.remap(self.translator.map())?;
        }
        Ok(())
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Ring { base: self.ring.base() }
    }
}

impl<R: DeviceRing, const HEADER: usize> Rx<R, HEADER> {
    #[inline]
    fn take(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        burst.pin(self.translator.map());
        if !self.headers.are_read() {
            self.plain::<false>(burst, stats)?;
            return self.take_odd(burst, stats);
        }
        let before = burst.len();
        self.plain::<true>(burst, stats)?;
        let taken = self.take_odd(burst, stats);
        self.headers.read(before, burst, stats);
        taken
    }

    /// Receives the buffers after the plain ones, while chains fit.
    #[inline]
    fn take_odd(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let mut walked = 0;
        while walked < RECEIVE_DESCRIPTORS && burst.has_chain_room() && self.ring.has_beyond(0) {
            walked += self.take_one(burst, stats)?;
        }
        Ok(())
    }

    /// Receives one buffer of any form and the plain ones after it. Returns its number of descriptors.
    #[cold]
    fn take_one(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut chain = std::mem::take(&mut self.descriptors);
        chain.clear();
        let buf_id = self.ring.pop_any(&mut self.translator, &mut chain);
        let taken = match buf_id {
            Ok(Some(buf_id)) => self.chain(&chain, buf_id, burst, stats),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault.into()),
        };
        let walked = chain.len().max(1);
        self.descriptors = chain;
        taken?;
        if self.headers.are_read() {
            self.plain::<true>(burst, stats)?;
        } else {
            self.plain::<false>(burst, stats)?;
        }
        Ok(walked)
    }
}
