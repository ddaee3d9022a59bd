//! The queue that sends packets when they may leave.

use super::{Shaper, State, add};
use crate::packet::Packet;
use port::{
    BURST, Burst, BurstStats, DropReason, Flush, GeneratedBurst, Now, PLACES, PortFault, RxQueue, TxQueue,
};
use ring::BufId;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Sends packets when they may leave.
pub(crate) struct ReleaseRx {
    shaper: Arc<Shaper>,
    pair: u16,
    out: Box<dyn TxQueue>,
    burst: GeneratedBurst,
    packets: Vec<Packet>,
    now: u64,
}

impl ReleaseRx {
    pub(crate) fn new(shaper: Arc<Shaper>, pair: u16, out: Box<dyn TxQueue>) -> Self {
        let (burst, packets) = (GeneratedBurst::new(), Vec::with_capacity(BURST));
        Self { shaper, pair, out, burst, packets, now: 0 }
    }

    /// Takes a burst of packets that may leave now. Returns `false` if there is none.
    fn take(&mut self) -> bool {
        let mut state = self.shaper.lock();
        if *state.owner.get_or_insert(self.pair) != self.pair {
            return false;
        }
        while self.packets.len() < BURST {
            let Some((_, packet)) = state.queues.dequeue(self.now) else { break };
            self.packets.push(packet);
        }
        self.shaper.settle(&mut state, self.now);
        let mut stats = std::mem::take(&mut state.unreported);
        Shaper::count_drops(&mut state, &mut stats);
        state.unreported = stats;
        self.shaper.has_unreported.store(true, Ordering::Relaxed);
        !self.packets.is_empty()
    }

    fn send(&mut self) -> Result<(), PortFault> {
        self.burst.restart();
        self.burst.set_now(Now(self.now));
        let all = self.packets.iter().filter(|packet| packet.push(&mut self.burst)).count();
        let mut stats = BurstStats::default();
        let sent = self.out.tx(&self.burst, &PLACES[..all], &mut stats);
        // No later call flushes packets that this handle holds back.
        let sent = sent.and_then(|_| self.out.flush(Now(self.now), Flush::All, &mut stats));
        let counted = stats.packets + stats.lost;
        let reason = if sent.is_ok() { DropReason::QueueFull } else { DropReason::PortFault };
        stats.drop(reason, (all as u64).saturating_sub(counted));
        self.give_back(&stats);
        // As in the worker: the fence orders the publish before the check for notification.
        fence(Ordering::SeqCst);
        self.out.notify();
        sent.map(drop)
    }

    fn give_back(&mut self, stats: &BurstStats) {
        let mut state = self.shaper.lock();
        let State { pool, unreported, .. } = &mut *state;
        self.packets.drain(..).for_each(|packet| packet.free(pool));
        add(unreported, stats);
        self.shaper.has_unreported.store(true, Ordering::Relaxed);
    }
}

impl RxQueue for ReleaseRx {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, _: &mut BurstStats) -> Result<(), PortFault> {
        self.now = burst.now().0;
        // One burst in a turn, as for any other queue.
        if self.shaper.next.load(Ordering::Relaxed) <= self.now && self.take() {
            return self.send();
        }
        Ok(())
    }

    /// This queue receives no packets.
    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        let mut state = self.shaper.lock();
        if *state.owner.get_or_insert(self.pair) != self.pair {
            return Ok(false);
        }
        let next = self.shaper.next.load(Ordering::Relaxed);
        if next <= self.now {
            return Ok(true);
        }
        state.sleeps_until = Some(next);
        if next < u64::MAX {
            state.timer.set(next - self.now);
        }
        Ok(false)
    }

    fn disable_notification(&mut self) {
        let mut state = self.shaper.lock();
        if state.owner == Some(self.pair) {
            state.sleeps_until = None;
            state.timer.clear();
        }
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shaper.kick.as_fd())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        self.out.refresh()
    }

    /// The transmit handle may be bound to its thread.
    fn is_bound(&self) -> bool {
        true
    }
}

impl Drop for ReleaseRx {
    fn drop(&mut self) {
        let mut state = self.shaper.lock();
        if state.owner == Some(self.pair) {
            (state.owner, state.sleeps_until) = (None, None);
            // Wakes the workers of the other release queues, the first of which becomes the owner.
            state.timer.set(0);
        }
    }
}
