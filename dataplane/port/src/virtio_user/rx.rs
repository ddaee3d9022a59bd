//! Receive queue of a virtio-user port, on the driver side of a receive ring.
//!
//! All buffers are posted to the back end except those whose frames are in a burst. A frame stays in its buffer until
//! the burst is completed; the buffer is then posted again, under the same identifier and in arrival order, so that
//! most of a split ring never changes. The header is read only if frames may span buffers (for their number) or the
//! back end may leave offloads.
//!
//! The ring validates used identifiers; this module validates lengths and buffer counts, each once and in private
//! memory.

use super::buffers::{Buffers, HeaderHint};
use super::device::QueueSetup;
use crate::eventfd;
use crate::eventfd::signal;
use crate::header::Allowed;
use crate::{BURST, Burst, BurstStats, DriverQueue, DropReason, PortFault, QueueState, RxQueue, work};
use mem::VolatileSlice;
use ring::driver::{DriverRing, Packed, Split, Used};
use ring::{BufId, RingFault};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Minimum frame length: an Ethernet header.
const MIN_FRAME: usize = 14;
/// Maximum frame length: 64 KiB, the longest of any offload.
const MAX_FRAME: usize = 65_550;

/// Creates a queue that continues from `state`. A fresh queue posts every buffer. Otherwise the buffers that the state
/// does not name are lent to retained packets, and are posted when they return; those lent by another process are
/// posted at the first call. Selects the ring kind once.
pub(super) fn thaw(setup: &QueueSetup, state: QueueState) -> Result<Box<dyn RxQueue>, PortFault> {
    if setup.packed {
        return Ok(Box::new(Rx::<Packed>::thaw(setup, state)?));
    }
    Ok(Box::new(Rx::<Split>::thaw(setup, state)?))
}

struct Rx<R> {
    ring: R,
    buffers: Buffers,
    mergeable: bool,
    allowed: Allowed,
    /// Used buffers that are not in a burst: `used[..waiting]`, the beginning of an incomplete frame. Valid between
    /// calls only.
    used: [Used; BURST],
    waiting: usize,
    kick: Arc<OwnedFd>,
    call: Arc<OwnedFd>,
}

impl<R: DriverRing> Rx<R> {
    fn thaw(setup: &QueueSetup, state: QueueState) -> Result<Self, PortFault> {
        let (buffers, size) = (setup.buffers.clone(), setup.layout.size);
        let is_fresh = state == QueueState::Fresh;
        let (mut ring, state) = setup.ring::<R>(state)?;
        let DriverQueue { ring: out, waiting, links } = state;
        let is_waiting = |id: u16| waiting.iter().any(|used| used.id == id);
        if waiting.len() > BURST
            || !links.is_empty()
            || waiting.iter().any(|u| u.id >= size || out.is_out(u.id))
        {
            return Err(PortFault::State(
                "the buffers of an unfinished frame are not those of a receive queue",
            ));
        }
        let missing = (0..size).filter(|&id| !out.is_out(id) && !is_waiting(id));
        if is_fresh {
            missing.for_each(|id| ring.post(buffers.to_fill(id)));
            ring.publish();
        } else if !buffers.lender().is_lending() {
            // Posted by the first call, when no other process continues the ring any more.
            buffers.lender().add_returned(missing);
        }
        let mut used = [Used::default(); BURST];
        used[..waiting.len()].copy_from_slice(&waiting);
        Ok(Self {
            ring,
            buffers,
            mergeable: setup.mergeable,
            allowed: Allowed::of_device(setup.work),
            used,
            waiting: waiting.len(),
            kick: setup.kick.clone(),
            call: setup.call.clone(),
        })
    }

    /// `OFFLOADS`: whether the back end may leave offloads.
    #[inline]
    fn take<const OFFLOADS: bool>(
        &mut self,
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> Result<(), RingFault> {
        let (before, room) = (self.waiting, self.room(burst)?);
        let n = before + self.ring.take(&mut self.used[before..room.max(before)])?;
        if n == before {
            return Ok(());
        }
        self.used[before..n].iter().for_each(|u| self.buffers.prefetch(u.id, self.mergeable || OFFLOADS));
        burst.pin_own(self.buffers.map(), self.buffers.lender());
        let mut at = if self.mergeable || OFFLOADS {
            self.take_plain::<true>(n.min(room), burst, stats)
        } else {
            self.take_plain::<false>(n.min(room), burst, stats)
        };
        while at < n.min(room) {
            let used = self.used[at];
            let hint = if self.mergeable || OFFLOADS { self.buffers.hint(used.id) } else { HeaderHint::NONE };
            let span = if self.mergeable { span(hint)? } else { 1 };
            if at + span > n.min(room) {
                break;
            }
            let there = burst.len();
            if span == 1 {
                self.plain(used, burst, stats)?;
            } else {
                self.merged(at, span, burst, stats)?;
            }
            if OFFLOADS && hint.is_marked && burst.len() > there {
                self.validate_header(used.id, burst, stats);
            }
            at += span;
        }
        self.used.copy_within(at..n, 0);
        self.waiting = n - at;
        Ok(())
    }

    /// Maximum number of buffers for a burst: as many as packets, or those of the frame that has begun.
    #[inline(always)]
    fn room(&self, burst: &Burst) -> Result<usize, RingFault> {
        let begun = if self.waiting > 0 { span(self.buffers.hint(self.used[0].id))? } else { 0 };
        Ok(burst.room().max(begun).min(burst.buffer_room()))
    }

    /// Receives the leading single-buffer frames of the first `n` buffers. Stops at a frame of invalid length, or
    /// with a header that marks an offload or several buffers. `HEADERS`: whether headers may do so. Returns the
    /// number of frames.
    #[inline(always)]
    fn take_plain<const HEADERS: bool>(&self, n: usize, burst: &mut Burst, stats: &mut BurstStats) -> usize {
        let header = self.buffers.header();
        let longest = self.buffers.room().min(MAX_FRAME);
        let (mergeable, buffers) = (self.mergeable, &self.buffers);
        let (mut places, mut taken) = (burst.places(), 0);
        for used in &self.used[..n] {
            if HEADERS {
                let hint = buffers.hint(used.id);
                if hint.is_marked || mergeable && hint.buffers != 1 {
                    break;
                }
            }
            let len = used.len.wrapping_sub(header) as usize;
            if !(MIN_FRAME..=longest).contains(&len) {
                break;
            }
            let Some(frame) = buffers.wide_frame(used.id, len) else { break };
            if !places.fill(taken, buf_id(*used), frame) {
                break;
            }
            taken += 1;
        }
        stats.packets += taken as u64;
        stats.bytes += burst.filled(taken);
        taken
    }

    #[inline(always)]
    fn validate(&self, used: Used) -> Result<(), RingFault> {
        let room = self.buffers.capacity();
        if used.len > room { Err(RingFault::UsedLength { len: used.len, room }) } else { Ok(()) }
    }

    /// Receives a frame in one buffer.
    #[inline(always)]
    fn plain(&self, used: Used, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), RingFault> {
        self.validate(used)?;
        let len = used.len.saturating_sub(self.buffers.header()) as usize;
        stats.packets += 1;
        stats.bytes += len as u64;
        if (MIN_FRAME..=MAX_FRAME).contains(&len) {
            burst.push(buf_id(used), self.buffers.frame(used.id, len));
        } else {
            drop_frame(len, &[used], burst, stats);
        }
        Ok(())
    }

    /// Receives a frame in several buffers. Buffers after the first have no header (VIRTIO 1.2 section 5.1.6.4).
    #[cold]
    fn merged(
        &self,
        at: usize,
        span: usize,
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> Result<(), RingFault> {
        let buffers = &self.used[at..at + span];
        let mut pieces = [VolatileSlice::EMPTY; BURST];
        for (piece, used) in pieces.iter_mut().zip(buffers) {
            self.validate(*used)?;
            *piece = self.buffers.continued(used.id, used.len as usize);
        }
        pieces[0] = pieces[0].split_at(self.buffers.header() as usize).1;
        let pieces = &pieces[..span];
        let len = pieces.iter().map(|piece| piece.len()).sum();
        stats.packets += 1;
        stats.bytes += len as u64;
        if (MIN_FRAME..=MAX_FRAME).contains(&len) {
            stats.work += (span as u64 - 1) * work::PIECE;
            burst.push_chain(buf_id(buffers[0]), pieces);
            buffers[1..].iter().for_each(|used| burst.give_back(buf_id(*used)));
        } else {
            drop_frame(len, buffers, burst, stats);
        }
        Ok(())
    }

    /// Validates the header in buffer `id` for the last packet of the burst.
    #[inline(never)]
    fn validate_header(&self, id: u16, burst: &mut Burst, stats: &mut BurstStats) {
        let words = self.buffers.words(id);
        burst.filter(burst.len() - 1, |burst, i, _| self.allowed.validate(i, words, burst, stats));
    }
}

/// Number of buffers of the frame.
#[inline(always)]
fn span(hint: HeaderHint) -> Result<usize, RingFault> {
    match hint.buffers {
        n @ 1..=64 => Ok(usize::from(n)),
        n => Err(RingFault::Merged(n)),
    }
}

fn buf_id(used: Used) -> BufId {
    BufId { id: used.id, slots: 1 }
}

/// Counts a frame of invalid length; its buffers return with the burst.
#[cold]
fn drop_frame(len: usize, buffers: &[Used], burst: &mut Burst, stats: &mut BurstStats) {
    stats.drop(if len < MIN_FRAME { DropReason::TooShort } else { DropReason::TooLong }, 1);
    for used in buffers {
        burst.give_back(buf_id(*used));
    }
}

impl<R: DriverRing> RxQueue for Rx<R> {
    fn prefetch(&self) {
        self.ring.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let Self { ring, buffers, .. } = self;
        if buffers.lender().collect(|id| ring.post(buffers.to_fill(id))) {
            ring.publish();
        }
        let take = if self.allowed.is_any() { Self::take::<true> } else { Self::take::<false> };
        take(self, burst, stats).map_err(PortFault::UsedRing)
    }

    fn complete(&mut self, buffers: &[BufId]) {
        self.ring.post_again(buffers.iter().map(|buf_id| self.buffers.to_fill(buf_id.id)));
        self.ring.publish();
    }

    fn notify(&mut self) {
        if self.ring.should_kick() {
            signal(self.kick.as_fd());
        }
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.ring.enable_notification())
    }

    fn disable_notification(&mut self) {
        self.ring.disable_notification();
        eventfd::clear(&self.call);
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.as_fd())
    }

    /// The port's own memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(mut self: Box<Self>) -> QueueState {
        let (ring, waiting) = (self.ring.freeze(), self.used[..self.waiting].to_vec());
        QueueState::Driver(Box::new(DriverQueue { ring, waiting, links: Vec::new() }))
    }
}
