//! A TAP's receive queue through `io_uring`: packets come into slots that were offered ahead.

use super::super::rx::take;
use super::super::slots::Slots;
use super::super::verdict::gone;
use super::sys::{Received, Receiver};
use super::unavailable;
use crate::eventfd;
use crate::{BURST, Burst, BurstStats, PortFault, RxQueue};
use ring::BufId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of packets that may come at once: as few slots are offered as hold them, so that they stay in the second cache.
const ENOUGH: usize = 256 * 1024;
/// Slots that are offered at least.
const FEWEST: usize = 4;

/// A queue over number `pair` of the interface's descriptors; `thread` has a thread of the kernel's receive.
pub(in super::super) fn start(
    queues: &Arc<[OwnedFd]>,
    pair: usize,
    thread: bool,
) -> Result<Box<dyn RxQueue>, PortFault> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let made = event.map_err(Into::into).and_then(|event| Receiver::new(queues, pair, event, thread));
    // The receiver stands before the slots, because fields drop in this order.
    let receiver = made.map_err(|error| unavailable(&error))?;
    Ok(Box::new(Rx { receiver, slots: Slots::new()?, offered: 0, wanted: BURST, bound: !thread }))
}

struct Rx {
    receiver: Receiver,
    slots: Slots,
    /// Slots that the kernel has.
    offered: usize,
    /// How many it should have.
    wanted: usize,
    /// Whether the ring belongs to the thread that enables it.
    bound: bool,
}

impl Rx {
    /// Lets the kernel have slots, and posts the read where it ended.
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

    /// Many slots for short packets, few for long ones.
    #[inline]
    fn tune(&mut self, packets: usize, bytes: usize) {
        self.wanted =
            if bytes <= ENOUGH / BURST * packets { BURST } else { (ENOUGH * packets / bytes).max(FEWEST) };
    }
}

impl RxQueue for Rx {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.slots.collect();
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
        Ok(self.receiver.enable_notification())
    }

    fn disable_notification(&mut self) {
        self.receiver.disable_notification();
        eventfd::clear(&self.receiver.event());
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.event())
    }

    /// The memory is the port's own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn is_bound(&self) -> bool {
        self.bound
    }
}
