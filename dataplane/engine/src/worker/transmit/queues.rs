//! Transmit queues from start to stop, and packets that they delay.

use super::Transmit;
use crate::command::{Event, QueueKey, Retired, XpsMap};
use crate::step::Step;
use crate::xps::TxSlot;
use port::{BurstStats, Flush, Now, PortFault, PortId, TxQueue};
use std::sync::atomic::{Ordering, fence};

impl Transmit {
    /// Starts a transmit queue.
    pub(in crate::worker) fn start(&mut self, port: PortId, slot: TxSlot, xps_map: XpsMap) {
        self.counters.open_latency(port);
        if slot.queue.keeps_back() {
            self.keeping.push(port);
        }
        self.tx[usize::from(port.0)].add(slot, xps_map, self.workers);
    }

    /// Replaces the map of the port's receive queues.
    pub(in crate::worker) fn set_xps_map(&mut self, port: PortId, xps_map: XpsMap) {
        self.tx[usize::from(port.0)].set_xps_map(xps_map, self.workers);
    }

    /// Stops a transmit queue and returns it. Delayed packets are sent first.
    pub(in crate::worker) fn stop(&mut self, key: QueueKey, now: Now) -> Option<TxSlot> {
        let slots = &mut self.tx[usize::from(key.port.0)];
        let at = slots.queues.iter().position(|slot| slot.pair == key.pair)?;
        let mut slot = slots.take(at);
        self.empty(key.port, slot.queue.as_mut(), now);
        Some(slot)
    }

    /// Has the queues of a port take over a changed memory table.
    pub(in crate::worker) fn refresh(&mut self, port: PortId) {
        let mut pair = 0;
        while let Some(slot) = self.tx[usize::from(port.0)].queues.get_mut(pair) {
            match slot.queue.refresh() {
                Ok(()) => pair += 1,
                Err(fault) => self.lose(port, pair, fault),
            }
        }
    }

    /// Has queues send delayed packets that are due.
    #[cold]
    pub(in crate::worker) fn flush(&mut self, now: Now, due: Flush) {
        for k in (0..self.keeping.len()).rev() {
            let Some(&to) = self.keeping.get(k) else { continue };
            self.counters.step.enter(Step::Flush, to);
            let mut at = 0;
            while let Some(slot) = self.tx[usize::from(to.0)].queues.get_mut(at) {
                let mut stats = BurstStats::default();
                let sent = slot.queue.flush(now, due, &mut stats);
                self.counters.port(to).count_tx(&stats);
                match sent {
                    Ok(sent) => {
                        self.mark(to, sent);
                        at += 1;
                    }
                    Err(fault) => self.lose(to, at, fault),
                }
            }
        }
    }

    fn mark(&mut self, to: PortId, sent: bool) {
        let slots = &mut self.tx[usize::from(to.0)];
        if sent && !slots.dirty {
            slots.dirty = true;
            self.dirty.push(to);
        }
    }

    /// Sends the delayed packets of a queue that is about to be returned; what remains is lost.
    fn empty(&mut self, port: PortId, queue: &mut dyn TxQueue, now: Now) {
        let mut stats = BurstStats::default();
        // A queue that fails here has counted its packets and is being removed anyway.
        let sent = queue.flush(now, Flush::All, &mut stats).unwrap_or(false);
        queue.abandon(&mut stats);
        self.counters.port(port).count_tx(&stats);
        if sent {
            fence(Ordering::SeqCst);
            queue.notify();
        }
        self.forget_keeping(port, queue);
    }

    fn forget_keeping(&mut self, port: PortId, queue: &dyn TxQueue) {
        if let Some(at) = self.keeping.iter().position(|&of| of == port).filter(|_| queue.keeps_back()) {
            self.keeping.swap_remove(at);
        }
    }

    #[cold]
    pub(in crate::worker) fn lose(&mut self, to: PortId, at: usize, fault: PortFault) {
        let slot = self.tx[usize::from(to.0)].take(at);
        self.forget_keeping(to, slot.queue.as_ref());
        let retired = Some(Retired::Tx(slot.generation, slot.queue));
        self.link.report(Event { port: to, generation: slot.generation, fault, retired });
    }

    /// [`crate::worker::Worker::fail`] for transmit queues.
    pub(in crate::worker) fn fail(&mut self) {
        self.rests.clear();
        self.dirty.clear();
        for port in 0..self.tx.len() {
            while !self.tx[port].queues.is_empty() {
                self.lose(PortId(port as u16), 0, PortFault::WorkerFailed);
            }
            self.tx[port].dirty = false;
        }
    }
}
