//! TAP receive queue with `io_uring`: packets arrive in slots provided in advance.

use super::super::rx::take;
use super::super::slots::Slots;
use super::super::verdict::gone;
use super::super::waiting::Waiting;
use super::sys::{Received, Receiver};
use super::unavailable;
use crate::eventfd;
use crate::{BURST, Burst, BurstStats, PortFault, QueueState, RxQueue};
use ring::BufId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes that may arrive at once: the number of provided slots is limited to this, so that they stay in the L2 cache.
const MAX_SLOT_BYTES: usize = 256 * 1024;
/// Minimum number of provided slots.
const MIN_SLOTS: usize = 4;

/// A receive queue on descriptor `pair` of the interface; `thread` enables a kernel thread (SQPOLL).
pub(in super::super) fn start(
    queues: &Arc<[OwnedFd]>,
    pair: usize,
    thread: bool,
    waiting: Waiting,
) -> Result<Box<dyn RxQueue>, PortFault> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let made = event.map_err(Into::into).and_then(|event| Receiver::new(queues, pair, event, thread));
    // `receiver` is declared before `slots`, because fields drop in this order.
    let receiver = made.map_err(|error| unavailable(&error))?;
    let slots = Slots::new()?;
    Ok(Box::new(Rx { receiver, slots, offered: 0, wanted: BURST, bound: !thread, waiting }))
}

struct Rx {
    receiver: Receiver,
    slots: Slots,
    /// Number of slots owned by the kernel.
    offered: usize,
    /// Target number of slots owned by the kernel.
    wanted: usize,
    /// Whether the ring belongs to the thread that enables it.
    bound: bool,
    waiting: Waiting,
}

impl Rx {
    /// Provides slots to the kernel, and reposts the read if it has ended.
    #[inline]
    fn refill(&mut self) -> Result<(), PortFault> {
        let before = self.offered;
        while self.offered < self.wanted {
            let Some(slot) = self.slots.take() else { break };
            self.receiver.offer(slot, self.slots.whole(slot));
            self.offered += 1;
        }
        if self.offered > before {
            self.receiver.publish();
        }
        if !self.receiver.is_posted() && self.offered > 0 {
            self.receiver.enable().and_then(|()| self.receiver.post()).map_err(|e| unavailable(&e))?;
        }
        Ok(())
    }

    /// Provides many slots for short packets, few for long ones.
    #[inline]
    fn tune(&mut self, packets: usize, bytes: usize) {
        self.wanted = if bytes <= MAX_SLOT_BYTES / BURST * packets {
            BURST
        } else {
            (MAX_SLOT_BYTES * packets / bytes).max(MIN_SLOTS)
        };
    }
}

impl RxQueue for Rx {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.slots.collect();
        self.waiting.receive(&mut self.slots, burst, stats);
        self.refill()?;
        if !self.receiver.is_ready() {
            return Ok(());
        }
        self.receiver.enter().map_err(|error| unavailable(&error))?;
        self.slots.pin(burst);
        let (mut failed, before) = (None, (self.offered, stats.bytes));
        let (slots, offered) = (&self.slots, &mut self.offered);
        self.receiver.harvest(burst.room(), |received| match received {
            Received::Packet(slot, len) => {
                *offered -= 1;
                take(slot, slots.whole(slot).split_at(len).0, burst, stats);
            }
            Received::Ended => {}
            Received::Failed(errno) => failed = Some(errno),
        });
        let (packets, bytes) = (before.0 - self.offered, (stats.bytes - before.1) as usize);
        if packets > 0 {
            self.tune(packets, bytes);
        }
        failed.map_or(Ok(()), |errno| Err(gone(errno)))
    }

    fn complete(&mut self, buffers: &[BufId]) {
        for buf_id in buffers {
            self.slots.give(buf_id.id);
        }
    }

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        self.refill()?;
        Ok(self.receiver.enable_notification() || !self.waiting.is_empty())
    }

    fn disable_notification(&mut self) {
        self.receiver.disable_notification();
        eventfd::clear(&self.receiver.event());
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.event())
    }

    /// Private memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// The kernel may have filled slots that were not received.
    fn freeze(mut self: Box<Self>) -> QueueState {
        let (slots, mut frames) = (&self.slots, Vec::new());
        self.receiver.end(|received| {
            if let Received::Packet(slot, len) = received {
                frames.push(slots.copy(slot, len));
            }
        });
        QueueState::Frames(Vec::from(self.waiting).into_iter().chain(frames).collect())
    }

    fn is_bound(&self) -> bool {
        self.bound
    }
}
