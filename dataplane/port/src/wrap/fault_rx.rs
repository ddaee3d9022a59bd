//! Fault injection on receive.
//!
//! The fault generator decides per packet of the inner queue. Lost packets are removed and counted as drops of this
//! port. A packet is copied into the delay queue if it is delayed, reordered or duplicated, or if a bit outside its
//! private head is flipped; it is then delivered in a separate burst, which counts it as received. Bursts of due
//! packets alternate with bursts of the inner queue.

use super::counts::{Counts, FaultEvent};
use super::delay_queue::{DelayQueue, turn, unverified};
use super::options::Faults;
use super::rng::{FaultRng, Verdict};
use crate::timer::Timer;
use crate::{Burst, BurstStats, DropReason, PortFault, QueueState, RxQueue};
use mem::copy::Kernel;
use ring::BufId;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// Source of a burst that is not completed yet.
enum Filled {
    /// The inner queue.
    Inner,
    /// The delay queue, with this number of packets.
    Queue(usize),
}

/// A receive queue with fault injection.
pub(super) struct FaultRx<K> {
    inner: Box<dyn RxQueue>,
    rng: FaultRng,
    delayed: DelayQueue,
    counts: Arc<Counts>,
    filled: VecDeque<Filled>,
    /// Whether the last burst came from the delay queue.
    was_held: bool,
    now: u64,
    timer: Timer,
    /// Epoll set of the inner queue's kick and the timer; `None` if the inner queue has no kick.
    kicks: Option<OwnedFd>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> FaultRx<K> {
    pub(super) fn new(
        inner: Box<dyn RxQueue>,
        faults: &Faults,
        pair: u16,
        counts: Arc<Counts>,
    ) -> Result<Self, PortFault> {
        let timer = Timer::new()?;
        let kicks = inner.kick_fd().map(|kick| both(kick, timer.as_fd())).transpose();
        let kicks = kicks.map_err(|e| PortFault::BadDescriptor("kick", e.to_string()))?;
        Ok(Self {
            inner,
            rng: FaultRng::new(faults, u64::from(pair) << 1),
            delayed: DelayQueue::new(faults.hold)?,
            counts,
            filled: VecDeque::with_capacity(8),
            was_held: false,
            now: 0,
            timer,
            kicks,
            kernel: PhantomData,
        })
    }

    fn release(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        let (packets, bytes) = self.delayed.release(self.now, burst);
        stats.packets += packets as u64;
        stats.bytes += bytes;
        self.filled.push_back(Filled::Queue(packets));
    }

    /// Applies faults to the packets of the inner queue.
    fn validate(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        burst.load_heads::<K>();
        let mut behind = false;
        burst.filter(0, |burst, i, _| {
            let verdict = self.rng.roll();
            if verdict.drop {
                stats.drop(DropReason::Injected, 1);
                self.counts.add(FaultEvent::Dropped, 1);
                return false;
            }
            let held = self.keep(&verdict, i, &mut behind, burst);
            if held {
                // It is counted as received on delivery.
                stats.packets -= 1;
                stats.bytes -= burst.frame_len(i) as u64;
            }
            !held
        });
        if !burst.is_empty() {
            self.delayed.passed(self.now);
        }
    }

    /// Applies the verdict to packet `i`, which is not lost. Returns whether it went into the delay queue. If a held
    /// packet is already due, the packets `behind` it are held too, to keep the order.
    fn keep(&mut self, verdict: &Verdict, i: usize, behind: &mut bool, burst: &mut Burst) -> bool {
        let (now, len, frame) = (self.now, burst.frame_len(i), burst.frame(i));
        let flip = verdict.corrupt.map(|bit| bit % (len as u64 * 8));
        let in_head = flip.filter(|bit| *bit < frame.head.len() as u64 * 8);
        let due = now + verdict.delay;
        let wanted = verdict.is_kept() || flip != in_head || *behind;
        let kept = match (wanted, verdict.reorder) {
            (false, _) => false,
            (true, false) => self.delayed.put::<K>(due, &frame, len, flip),
            (true, true) => self.delayed.put_behind::<K>(now, &frame, len, flip),
        };
        *behind |= kept && due <= now && !verdict.reorder;
        if verdict.duplicate {
            let twice = self.delayed.put::<K>(due, &frame, len, None);
            self.counts.add(if twice { FaultEvent::Duplicated } else { FaultEvent::HoldFull }, 1);
        }
        if let (false, Some(bit)) = (kept, in_head) {
            turn(burst.head_mut(i), bit);
            burst.set_offload(i, unverified(burst.offload(i)));
        }
        self.count(verdict, kept || in_head.is_some(), wanted, kept);
        kept
    }

    fn count(&self, verdict: &Verdict, can_turn: bool, wanted: bool, kept: bool) {
        self.counts.add(FaultEvent::Corrupted, u64::from(can_turn && verdict.corrupt.is_some()));
        self.counts.add(FaultEvent::HoldFull, u64::from(wanted && !kept));
        self.counts.add(FaultEvent::Reordered, u64::from(kept && verdict.reorder));
        self.counts.add(FaultEvent::Delayed, u64::from(kept && verdict.delay > 0 && !verdict.reorder));
    }
}

/// An epoll set that is readable if either descriptor is.
fn both(kick: BorrowedFd<'_>, timer: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in [kick, timer] {
        epoll::add(&set, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(set)
}

impl<K: Kernel> RxQueue for FaultRx<K> {
    fn prefetch(&self) {
        self.inner.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.now = burst.now().0;
        let is_due = self.delayed.next().is_some_and(|due| due <= self.now);
        self.was_held = is_due && !self.was_held;
        if self.was_held {
            self.release(burst, stats);
            return Ok(());
        }
        let taken = self.inner.rx(burst, stats);
        if !burst.is_untouched() {
            self.filled.push_back(Filled::Inner);
            self.validate(burst, stats);
        }
        taken
    }

    fn complete(&mut self, buffers: &[BufId]) {
        match self.filled.pop_front() {
            Some(Filled::Queue(packets)) => self.delayed.give_back(packets),
            Some(Filled::Inner) | None => self.inner.complete(buffers),
        }
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        if let Some(due) = self.delayed.next() {
            if due <= self.now {
                return Ok(true);
            }
            self.timer.set(due - self.now);
        }
        self.inner.enable_notification()
    }

    fn disable_notification(&mut self) {
        self.timer.clear();
        self.inner.disable_notification();
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kicks.as_ref().map(AsFd::as_fd)
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.inner.refresh()
    }

    fn freeze(self: Box<Self>) -> QueueState {
        self.inner.freeze()
    }

    fn is_bound(&self) -> bool {
        self.inner.is_bound()
    }
}
