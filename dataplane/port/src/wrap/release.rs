//! Delayed outgoing packets, and the queue that sends them when due.
//!
//! All worker handles of a transmit queue put packets into one [`DelayedTx`], under a lock that is not held while
//! sending. [`ReleaseRx`] is a receive queue to the engine, so that one worker polls it, sleeps on its timer and takes
//! it through burst boundaries; it receives no packets, but sends due ones through its own handle. While its worker
//! sleeps, the timer is set to the earliest packet: by `enable_notification`, and by any thread that adds an earlier
//! one.

use super::counts::{Counts, FaultEvent};
use super::delay_queue::DelayQueue;
use crate::timer::Timer;
use crate::{Burst, BurstStats, Flush, PLACES, PortFault, RxQueue, TxQueue};
use mem::copy::Kernel;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Inside {
    queue: DelayQueue,
    timer: Timer,
    /// Due time that the timer is set to; `None` while the worker is awake.
    sleeps_until: Option<u64>,
}

/// Delayed packets of one transmit queue.
pub(super) struct DelayedTx {
    inside: Mutex<Inside>,
    /// The timer descriptor, for the engine to poll.
    kick: OwnedFd,
}

impl DelayedTx {
    /// A queue for `most` packets.
    pub(super) fn new(most: u32) -> Result<Self, PortFault> {
        let timer = Timer::new()?;
        let kick = timer.as_fd().try_clone_to_owned();
        let kick = kick.map_err(|e| PortFault::BadDescriptor("timer", e.to_string()))?;
        let inside = Inside { queue: DelayQueue::new(most)?, timer, sleeps_until: None };
        Ok(Self { inside: Mutex::new(inside), kick })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet that is due `delay` nanoseconds after its burst started. Returns `false` if there is no space.
    pub(super) fn put<K: Kernel>(&self, burst: &Burst, pick: u8, delay: u64, flip: Option<u64>) -> bool {
        let (now, len) = (burst.now().0, burst.frame_len(pick.into()));
        let mut inside = self.lock();
        let put = inside.queue.put::<K>(now + delay, &burst.frame(pick.into()), len, flip);
        inside.wake(now);
        put
    }

    /// Adds a packet to be sent after a later one. Returns `false` if there is no space.
    pub(super) fn put_behind<K: Kernel>(&self, burst: &Burst, pick: u8, flip: Option<u64>) -> bool {
        let (now, len) = (burst.now().0, burst.frame_len(pick.into()));
        let mut inside = self.lock();
        let put = inside.queue.put_behind::<K>(now, &burst.frame(pick.into()), len, flip);
        inside.wake(now);
        put
    }

    /// Reports that a packet was sent at `now`.
    pub(super) fn passed(&self, now: u64) {
        let mut inside = self.lock();
        inside.queue.passed(now);
        inside.wake(now);
    }
}

impl Inside {
    /// If the worker sleeps, sets its timer earlier if needed.
    fn wake(&mut self, now: u64) {
        let (Some(until), Some(next)) = (self.sleeps_until, self.queue.next()) else { return };
        if next < until {
            self.timer.set(next.saturating_sub(now));
            self.sleeps_until = Some(next);
        }
    }
}

/// Sends delayed packets when due.
pub(super) struct ReleaseRx<K> {
    late: Arc<DelayedTx>,
    out: Box<dyn TxQueue>,
    counts: Arc<Counts>,
    burst: Box<Burst>,
    now: u64,
    kernel: PhantomData<K>,
}

impl<K: Kernel> ReleaseRx<K> {
    pub(super) fn new(late: Arc<DelayedTx>, out: Box<dyn TxQueue>, counts: Arc<Counts>) -> Self {
        Self { late, out, counts, burst: Box::new(Burst::new()), now: 0, kernel: PhantomData }
    }

    fn send(&mut self) -> Result<(), PortFault> {
        self.burst.begin(0);
        self.burst.set_now(crate::Now(self.now));
        let (packets, _) = self.late.lock().queue.release(self.now, &mut self.burst);
        self.burst.load_heads::<K>();
        // They were counted as sent when they were delayed.
        let mut stats = BurstStats::default();
        let sent = self.out.tx(&self.burst, &PLACES[..packets], &mut stats);
        // No later call flushes packets buffered by this handle.
        let sent = sent.and_then(|_| self.out.flush(self.burst.now(), Flush::All, &mut stats));
        self.late.lock().queue.give_back(packets);
        self.counts.add(FaultEvent::LostLate, packets as u64 - stats.packets.min(packets as u64));
        // As in the worker: the fence orders the publish before the check for notification.
        fence(Ordering::SeqCst);
        self.out.notify();
        sent.map(drop)
    }
}

impl<K: Kernel> RxQueue for ReleaseRx<K> {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, _: &mut BurstStats) -> Result<(), PortFault> {
        self.now = burst.now().0;
        let next = self.late.lock().queue.next();
        if next.is_some_and(|due| due <= self.now) { self.send() } else { Ok(()) }
    }

    /// This queue receives no packets.
    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        let mut inside = self.late.lock();
        let next = inside.queue.next().unwrap_or(u64::MAX);
        if next <= self.now {
            return Ok(true);
        }
        inside.sleeps_until = Some(next);
        if next < u64::MAX {
            inside.timer.set(next - self.now);
        }
        Ok(false)
    }

    fn disable_notification(&mut self) {
        let mut inside = self.late.lock();
        inside.sleeps_until = None;
        inside.timer.clear();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.late.kick.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.out.refresh()
    }

    /// The transmit handle may be bound to its thread.
    fn is_bound(&self) -> bool {
        true
    }
}
