//! TAP receive queue with plain system calls: one `read` per packet, until none is left or the burst is full.
//!
//! A packet is read into a slot with its header in front; the header is copied out, validated and passed on as the
//! packet's offload. The slot belongs to the packet until its burst is completed.

use super::slots::{MAX_FRAME, MIN_FRAME, Slots};
use super::sys;
use super::verdict::gone;
use super::waiting::Waiting;
use crate::{Burst, BurstStats, DropReason, OFFLOAD_HEADER, Offload, PortFault, QueueState, RxQueue};
use mem::VolatileSlice;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Bytes per burst after which no further packet is read, so that the two bursts in flight stay in the L2 cache until
/// they are written out.
pub(super) const MAX_BURST_BYTES: usize = 128 * 1024;

/// A receive queue on descriptor `pair` of the interface.
pub(super) fn start(
    queues: &Arc<[OwnedFd]>,
    pair: usize,
    waiting: Waiting,
) -> Result<Box<dyn RxQueue>, PortFault> {
    Ok(Box::new(Rx { queues: queues.clone(), pair, slots: Slots::new()?, waiting }))
}

struct Rx {
    queues: Arc<[OwnedFd]>,
    pair: usize,
    slots: Slots,
    waiting: Waiting,
}

impl RxQueue for Rx {
    /// The next packet is in kernel memory.
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.slots.collect();
        self.waiting.receive(&mut self.slots, burst, stats);
        let before = stats.bytes;
        while burst.room() > 0 && stats.bytes - before < MAX_BURST_BYTES as u64 {
            let Some(slot) = self.slots.take() else { break };
            let whole = self.slots.whole(slot);
            match sys::read(self.queues[self.pair].as_fd(), whole) {
                Ok(len) => {
                    self.slots.pin(burst);
                    take(slot, whole.split_at(len).0, burst, stats);
                }
                Err(errno) => {
                    self.slots.give(slot);
                    return if errno == Errno::AGAIN { Ok(()) } else { Err(gone(errno)) };
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, buffers: &[BufId]) {
        for buf_id in buffers {
            self.slots.give(buf_id.id);
        }
    }

    /// No slots are published.
    fn notify(&mut self) {}

    /// The descriptor is level-triggered: it stays readable while a packet is available.
    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(!self.waiting.is_empty())
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queues[self.pair].as_fd())
    }

    /// Private memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Frames(self.waiting.into())
    }
}

/// Validates the content of a slot: `whole` is header and frame. The slot is returned with the burst in any case.
#[inline(always)]
pub(super) fn take(slot: u16, whole: VolatileSlice, burst: &mut Burst, stats: &mut BurstStats) {
    let buf_id = BufId { id: slot, slots: 1 };
    let (header, frame) = whole.split_at(OFFLOAD_HEADER);
    let len = frame.len();
    stats.packets += 1;
    stats.bytes += len as u64;
    if !(MIN_FRAME..=MAX_FRAME).contains(&len) {
        stats.drop(if len < MIN_FRAME { DropReason::TooShort } else { DropReason::TooLong }, 1);
        return burst.give_back(buf_id);
    }
    let Ok(offload) = Offload::validate(sys::header(header), len) else {
        stats.drop(DropReason::BadOffload, 1);
        return burst.give_back(buf_id);
    };
    burst.push(buf_id, frame);
    burst.set_offload(burst.len() - 1, offload);
}
