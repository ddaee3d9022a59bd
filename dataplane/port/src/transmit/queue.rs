//! Transmit queue of a ring, used by one worker or shared by several.
//!
//! Protocol of a shared queue: with the lock, a worker reserves slots and a ticket (`reserve`). Without the lock, it
//! writes the frames. With the lock again, it returns the ticket (`commit`), and the frames of all tickets without an
//! open older ticket are posted and published. Slots of different tickets never overlap. Every ticket has slots, so
//! the number of open tickets is at most the ring's size, regardless of how long a worker keeps its ticket. The slots
//! pin the map at the time of reservation, because another worker may refresh the ring meanwhile.

use super::slots::ReturnSlots;
use super::tickets::Ticket;
use super::tickets::Tickets;
use super::{Filled, Slots, Taken, TxRing};
use crate::{Burst, BurstStats, Capabilities, DropReason, PortFault, QueueState, TxQueue, eventfd};
use mem::copy::Kernel;
use rustix::fd::OwnedFd;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared by all handles of a ring.
struct Common<R> {
    ring: R,
    tickets: Tickets<Filled>,
    doorbell: Option<Arc<OwnedFd>>,
}

impl<R: TxRing> ReturnSlots for Mutex<Common<R>> {
    fn abandon(&self, ticket: Ticket, filled: &mut Vec<Filled>) {
        let Common { ring, tickets, doorbell } = &mut *lock(self);
        tickets.deliver(ticket, filled, |filled| ring.post(filled));
        ring.publish();
        // Frames after this ticket were committed before, and their workers have already checked for notifications.
        // Pairs with the same fence as in `notify`.
        fence(Ordering::SeqCst);
        if ring.needs_notification() {
            eventfd::call(doorbell.as_deref());
        }
    }
}

enum Ownership<R> {
    Alone(R),
    Shared(Arc<Mutex<Common<R>>>),
    /// Temporary state between the two.
    Taken,
}

/// A worker's handle of a ring.
pub(crate) struct RingTx<R, K> {
    ownership: Ownership<R>,
    /// Slots for packets of bursts.
    slots: Slots,
    /// Signalled if the peer needs a notification; `None` if it polls.
    doorbell: Option<Arc<OwnedFd>>,
    capabilities: Capabilities,
    kernel: PhantomData<K>,
}

fn lock<R>(common: &Mutex<Common<R>>) -> MutexGuard<'_, Common<R>> {
    common.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: TxRing, K: Kernel> RingTx<R, K> {
    /// Creates the only handle of `ring`.
    pub(crate) fn new(ring: R, doorbell: Option<Arc<OwnedFd>>, capabilities: Capabilities) -> Self {
        Self::over(Ownership::Alone(ring), doorbell, capabilities)
    }

    fn over(ownership: Ownership<R>, doorbell: Option<Arc<OwnedFd>>, capabilities: Capabilities) -> Self {
        let mut slots = Slots::new();
        if let Ownership::Shared(common) = &ownership {
            slots.belong_to(common);
        }
        Self { ownership, slots, doorbell, capabilities, kernel: PhantomData }
    }

    /// Creates another handle.
    pub(crate) fn another(&mut self) -> Self {
        let common = match std::mem::replace(&mut self.ownership, Ownership::Taken) {
            Ownership::Alone(ring) => {
                let (tickets, doorbell) = (Tickets::new(), self.doorbell.clone());
                Some(Arc::new(Mutex::new(Common { ring, tickets, doorbell })))
            }
            Ownership::Shared(common) => Some(common),
            Ownership::Taken => None,
        };
        if let Some(common) = &common {
            self.slots.belong_to(common);
        }
        let ownership = || common.clone().map_or(Ownership::Taken, Ownership::Shared);
        self.ownership = ownership();
        Self::over(ownership(), self.doorbell.clone(), self.capabilities)
    }

    /// Runs `f` on the ring, under the lock if it is shared. Returns `None` if there is no ring.
    pub(super) fn with_ring<T>(&mut self, f: impl FnOnce(&mut R) -> T) -> Option<T> {
        match &mut self.ownership {
            Ownership::Alone(ring) => Some(f(ring)),
            Ownership::Shared(common) => Some(f(&mut lock(common).ring)),
            Ownership::Taken => None,
        }
    }
}

impl<R: TxRing, K: Kernel> TxQueue for RingTx<R, K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        match &mut self.ownership {
            Ownership::Alone(ring) => send_alone::<R, K>(ring, &mut self.slots, burst, indices, stats),
            Ownership::Shared(common) => {
                let lengths = indices.iter().map(|&pick| burst.frame_len(pick.into()));
                let done = reserve_shared(common, lengths, &mut self.slots, stats)?;
                write_all::<K>(&mut self.slots, burst, indices);
                commit_shared(common, &mut self.slots, stats)?;
                Ok(done)
            }
            Ownership::Taken => Ok(0),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn room(&mut self, len: usize) -> usize {
        self.with_ring(|ring| ring.room(len)).unwrap_or(0)
    }

    fn depth(&mut self) -> Option<usize> {
        self.with_ring(TxRing::depth)
    }

    fn reserve(
        &mut self,
        lengths: &[u32],
        slots: &mut Slots,
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let lengths = lengths.iter().map(|&len| len as usize);
        // Abandons an uncommitted reservation of this or another queue.
        slots.abandon();
        slots.accept(self.capabilities);
        match &mut self.ownership {
            Ownership::Alone(ring) => reserve(ring, lengths, slots, stats),
            Ownership::Shared(common) => {
                slots.belong_to(common);
                reserve_shared(common, lengths, slots, stats)
            }
            Ownership::Taken => Ok(0),
        }
    }

    fn commit(&mut self, slots: &mut Slots, stats: &mut BurstStats) -> Result<(), PortFault> {
        match &mut self.ownership {
            Ownership::Alone(ring) => {
                ring.post(slots.filled());
                finish(ring, slots, stats)
            }
            Ownership::Shared(common) => commit_shared(common, slots, stats),
            Ownership::Taken => Ok(()),
        }
    }

    fn reap(&mut self) -> Result<(), PortFault> {
        self.with_ring(TxRing::refill).unwrap_or(Ok(()))
    }

    fn notify(&mut self) {
        let is_wanted = match &mut self.ownership {
            Ownership::Alone(ring) => ring.needs_notification(),
            Ownership::Shared(common) => {
                let mut common = lock(common);
                // Another worker may have published after this worker's fence, and one check covers everything
                // published. Executed under the lock under which both publish, this fence pairs with the peer's fence
                // between enabling notifications and reading the ring again.
                fence(Ordering::SeqCst);
                common.ring.needs_notification()
            }
            Ownership::Taken => false,
        };
        if is_wanted {
            eventfd::call(self.doorbell.as_deref());
        }
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(self.another())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.slots.unpin();
        self.with_ring(TxRing::refresh).unwrap_or(Ok(()))
    }

    fn freeze(mut self: Box<Self>) -> QueueState {
        self.with_ring(TxRing::freeze).unwrap_or_default()
    }
}

/// Sends on a ring without other handles.
#[inline(always)]
fn send_alone<R: TxRing, K: Kernel>(
    ring: &mut R,
    slots: &mut Slots,
    burst: &Burst,
    indices: &[u8],
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    let sent = send_all::<R, K>(ring, slots, burst, indices, stats);
    // Also after a fault: packets counted as sent must be delivered.
    ring.publish();
    let refilled = if sent.is_ok() { ring.refill() } else { Ok(()) };
    stats.work += ring.take_work();
    // Truncated memory reads as zeros, which can look like any other fault; this check comes first.
    ring.check_memory()?;
    refilled.and(sent)
}

/// Sends until the ring is full. Returns the number of indices processed.
#[inline(always)]
fn send_all<R: TxRing, K: Kernel>(
    ring: &mut R,
    slots: &mut Slots,
    burst: &Burst,
    indices: &[u8],
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    ring.prepare(indices.len())?;
    let mut done = 0;
    loop {
        done += ring.send_plain::<K>(burst, &indices[done..], stats);
        if done == indices.len() {
            return Ok(done);
        }
        let others = send_others::<R, K>(ring, slots, (burst, &indices[done..]), stats)?;
        if others == 0 {
            return Ok(done);
        }
        done += others;
    }
}

/// Sends the first of `indices`, for which the next buffer is not plain, and the following ones up to the next that
/// has a plain buffer. Returns the number of indices processed; 0 if the ring is full.
#[cold]
fn send_others<R: TxRing, K: Kernel>(
    ring: &mut R,
    slots: &mut Slots,
    (burst, indices): (&Burst, &[u8]),
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    slots.begin(ring.map(), ring.form());
    let lengths = indices.iter().map(|&pick| burst.frame_len(pick.into()));
    let done = take_all::<R, true>(ring, lengths, slots, stats)?;
    write_all::<K>(slots, burst, indices);
    ring.post(slots.filled());
    count(slots, stats);
    Ok(done)
}

fn write_all<K: Kernel>(slots: &mut Slots, burst: &Burst, indices: &[u8]) {
    for k in 0..slots.len() {
        let packet = indices[slots.number(k)];
        slots.write_packet::<K>(k, burst, packet.into());
    }
}

fn count(slots: &Slots, stats: &mut BurstStats) {
    let refused = slots.refused();
    stats.packets += (slots.len() - refused) as u64;
    stats.bytes += slots.bytes();
    if refused > 0 {
        stats.drop(DropReason::BadOffload, refused as u64);
    }
}

/// Reserves slots for frames of these lengths. Returns the number of lengths processed. Slots reserved before a fault
/// must still be sent: the next call finds the fault again.
fn reserve<R: TxRing>(
    ring: &mut R,
    lengths: impl ExactSizeIterator<Item = usize>,
    slots: &mut Slots,
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    slots.begin(ring.map(), ring.form());
    let all = lengths.len();
    let done = ring.prepare(all).and_then(|()| take_all::<R, false>(ring, lengths, slots, stats));
    stats.work += ring.take_work();
    ring.check_memory()?;
    done
}

/// `ODD`: stop after the first frame with a plain buffer.
fn take_all<R: TxRing, const ODD: bool>(
    ring: &mut R,
    lengths: impl ExactSizeIterator<Item = usize>,
    slots: &mut Slots,
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    let all = lengths.len();
    for (number, len) in lengths.enumerate() {
        match ring.take(len, all - number - 1, slots) {
            Ok(Taken::Slot) => {
                slots.add_slot(number, len);
                if ODD && slots.ends_plain() {
                    return Ok(number + 1);
                }
            }
            Ok(Taken::TooSmall) => stats.drop(DropReason::BufferTooSmall, 1),
            Err(fault) if slots.is_empty() => return Err(fault),
            Ok(Taken::Full) | Err(_) => return Ok(number),
        }
    }
    Ok(all)
}

/// Publishes everything posted, and prepares for the next call.
fn finish<R: TxRing>(ring: &mut R, slots: &mut Slots, stats: &mut BurstStats) -> Result<(), PortFault> {
    count(slots, stats);
    slots.clear();
    ring.publish();
    let refilled = ring.refill();
    stats.work += ring.take_work();
    ring.check_memory()?;
    refilled
}

fn reserve_shared<R: TxRing>(
    common: &Mutex<Common<R>>,
    lengths: impl ExactSizeIterator<Item = usize>,
    slots: &mut Slots,
    stats: &mut BurstStats,
) -> Result<usize, PortFault> {
    let Common { ring, tickets, .. } = &mut *lock(common);
    let done = reserve(ring, lengths, slots, stats);
    match &done {
        Ok(_) if !slots.is_empty() => slots.ticket = Some(tickets.reserve()),
        Ok(_) => {}
        // The peer's memory was removed, with the slots.
        Err(_) => slots.clear(),
    }
    done
}

fn commit_shared<R: TxRing>(
    common: &Mutex<Common<R>>,
    slots: &mut Slots,
    stats: &mut BurstStats,
) -> Result<(), PortFault> {
    let Some(ticket) = slots.ticket.take() else { return Ok(()) };
    let Common { ring, tickets, .. } = &mut *lock(common);
    tickets.deliver(ticket, slots.filled_mut(), |filled| ring.post(filled));
    finish(ring, slots, stats)
}

#[cfg(test)]
impl<R: TxRing, K: Kernel> RingTx<R, K> {
    /// Number of tickets that are open or wait for an older one.
    pub(super) fn open_tickets(&self) -> usize {
        match &self.ownership {
            Ownership::Shared(common) => lock(common).tickets.open(),
            _ => 0,
        }
    }
}
