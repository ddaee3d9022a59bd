//! A receive queue behind a bad wire.
//!
//! What the inner queue brings is judged by the dice. What is lost is taken out and counted as a drop of this port. What
//! is late, comes twice, or is changed where only its source's memory holds it, is copied into the hold and comes by a
//! burst of its own, which counts it as received then. As long as anything is due, it comes before the inner queue's
//! next burst, and turn by turn with it.

use super::counts::{Counts, Happened};
use super::hold::{Hold, turn};
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

/// A burst that was not completed yet.
enum Filled {
    /// By the inner queue.
    Inner,
    /// With so many packets of the hold.
    Hold(usize),
}

/// A receive queue with faults.
pub(super) struct FaultRx<K> {
    inner: Box<dyn RxQueue>,
    rng: FaultRng,
    hold: Hold,
    counts: Arc<Counts>,
    filled: VecDeque<Filled>,
    /// Whether the last burst was the hold's.
    was_held: bool,
    now: u64,
    timer: Timer,
    /// The inner queue's kick and the timer; `None` where the inner queue has none.
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
            hold: Hold::new(faults.hold)?,
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
        let (packets, bytes) = self.hold.release(self.now, burst);
        stats.packets += packets as u64;
        stats.bytes += bytes;
        self.filled.push_back(Filled::Hold(packets));
    }

    /// Judges what the inner queue brought.
    fn validate(&mut self, burst: &mut Burst, stats: &mut BurstStats) {
        burst.load_heads::<K>();
        let mut behind = false;
        burst.filter(0, |burst, i, _| {
            let verdict = self.rng.roll();
            if verdict.drop {
                stats.drop(DropReason::Injected, 1);
                self.counts.add(Happened::Dropped, 1);
                return false;
            }
            let held = self.keep(&verdict, i, &mut behind, burst);
            if held {
                // It counts as received when it comes.
                stats.packets -= 1;
                stats.bytes -= burst.frame_len(i) as u64;
            }
            !held
        });
        if !burst.is_empty() {
            self.hold.passed(self.now);
        }
    }

    /// Does what the verdict says of packet `i`, which is not lost. Whether it went into the hold. What comes `behind` a
    /// packet that did and is already due goes there too, so that the order stays.
    fn keep(&mut self, verdict: &Verdict, i: usize, behind: &mut bool, burst: &mut Burst) -> bool {
        let (now, len, frame) = (self.now, burst.frame_len(i), burst.frame(i));
        let flip = verdict.corrupt.map(|bit| bit % (len as u64 * 8));
        let in_head = flip.filter(|bit| *bit < frame.head.len() as u64 * 8);
        let due = now + verdict.delay;
        let wanted = verdict.is_kept() || flip != in_head || *behind;
        let kept = match (wanted, verdict.reorder) {
            (false, _) => false,
            (true, false) => self.hold.put::<K>(due, &frame, len, flip),
            (true, true) => self.hold.put_behind::<K>(now, &frame, len, flip),
        };
        *behind |= kept && due <= now && !verdict.reorder;
        if verdict.duplicate {
            let twice = self.hold.put::<K>(due, &frame, len, None);
            self.counts.add(if twice { Happened::Duplicated } else { Happened::HoldFull }, 1);
        }
        if let (false, Some(bit)) = (kept, in_head) {
            turn(burst.head_mut(i), bit);
        }
        self.count(verdict, kept || in_head.is_some(), wanted, kept);
        kept
    }

    fn count(&self, verdict: &Verdict, can_turn: bool, wanted: bool, kept: bool) {
        self.counts.add(Happened::Corrupted, u64::from(can_turn && verdict.corrupt.is_some()));
        self.counts.add(Happened::HoldFull, u64::from(wanted && !kept));
        self.counts.add(Happened::Reordered, u64::from(kept && verdict.reorder));
        self.counts.add(Happened::Delayed, u64::from(kept && verdict.delay > 0 && !verdict.reorder));
    }
}

/// A set that is readable when either is.
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
        let is_due = self.hold.next().is_some_and(|due| due <= self.now);
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
            Some(Filled::Hold(packets)) => self.hold.give_back(packets),
            Some(Filled::Inner) | None => self.inner.complete(buffers),
        }
    }

    fn notify(&mut self) {
        self.inner.notify();
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        if let Some(due) = self.hold.next() {
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
