//! How a worker sends what was judged: by port, where it has several queues by flow, and finished where an output does
//! not do what is left to be done.

use super::{PATIENCE, Worker};
use crate::command::QueueKey;
use crate::config::QueueFull;
use crate::finish::{Push, push_finished};
use mem::ticks;
use port::{Burst, DropReason, Flush, PortFault, PortId, Tally, TxQueue};
use std::sync::atomic::{Ordering, fence};

impl Worker {
    #[inline]
    pub(super) fn send_all(&mut self, index: usize, from: QueueKey) {
        let counters = &self.counters.ports[from.port.0 as usize];
        if self.outputs.replicated > 0 {
            counters.replicated.add(self.outputs.replicated);
        }
        counters.count_drops(&self.outputs.dropped);
        for k in 0..self.outputs.ports().len() {
            let to = self.outputs.ports()[k];
            let n = self.outputs.picks(to).as_slice().len();
            self.picks[..n].copy_from_slice(self.outputs.picks(to).as_slice());
            if self.pipeline.rewrites(to) {
                self.pipeline.egress(&mut self.bursts[index], to, &self.picks[..n]);
            }
            self.send(index, from, to, n);
        }
    }

    /// Sends the first `n` of `self.picks` to one port.
    #[inline]
    fn send(&mut self, index: usize, from: QueueKey, to: PortId, n: usize) {
        match self.tx[to.0 as usize].queues.len() {
            0 => self.send_on(index, from, to, n),
            1 => self.send_by(index, from, (to, 0), n),
            queues => self.steer(index, from, (to, queues), n),
        }
    }

    /// Sends the first `n` of `self.picks` to one port, each by the queue of its flow.
    #[inline(never)]
    fn steer(&mut self, index: usize, from: QueueKey, (to, queues): (PortId, usize), n: usize) {
        if !self.looks {
            mem::with_kernel!(self.kernel, K => self.bursts[index].load_heads::<K>());
        }
        let (picks, slots) = (self.picks, &self.tx[to.0 as usize]);
        for (pick, place) in picks[..n].iter().zip(&mut self.places) {
            let hash = self.steering.hash(self.bursts[index].head(usize::from(*pick)));
            *place = slots.choose(hash, from.pair) as u8;
        }
        let places = self.places;
        // From the back, because a queue that turns out to be broken is taken out of its place.
        for at in (0..queues).rev() {
            let mut mine = 0;
            for (pick, _) in picks[..n].iter().zip(&places).filter(|(_, place)| usize::from(**place) == at) {
                self.picks[mine] = *pick;
                mine += 1;
            }
            if mine > 0 {
                self.send_by(index, from, (to, at), mine);
            }
        }
    }

    /// Sends the first `n` of `self.picks` by the queue at place `at` of one port.
    #[inline]
    fn send_by(&mut self, index: usize, from: QueueKey, (to, at): (PortId, usize), n: usize) {
        let mut tally = Tally::default();
        let slots = &mut self.tx[to.0 as usize];
        let slot = &mut slots.queues[at];
        let waits = self.config.queue_full == QueueFull::Wait;
        let patience = if waits { (PATIENCE as f64 * self.ticks_per_ns) as u64 } else { 0 };
        let mut output = Output { queue: slot.queue.as_mut(), patience };
        let (burst, picks) = (&self.bursts[index], &self.picks[..n]);
        let (made, sent) = if burst.has_offloads() {
            push_finished(&mut output, slot.capabilities, (burst, picks), &mut self.made, &mut tally)
        } else {
            (0, output.push(burst, picks, &mut tally))
        };
        if !slots.dirty {
            slots.dirty = true;
            self.dirty_tx.push(to);
        }
        if made > 0 {
            self.counters.ports[from.port.0 as usize].replicated.add(made);
        }
        if let Err(fault) = sent {
            // A queue that keeps packets back has counted older ones, too, and all of them.
            let told = tally.packets + tally.dropped();
            tally.drop(DropReason::PortFault, (n as u64 + made).saturating_sub(told));
            self.lose_tx(to, at, fault);
        }
        self.counters.ports[to.0 as usize].count_tx(&tally);
    }

    /// Has queues send what they keep back, as far as it is due.
    #[cold]
    pub(super) fn flush(&mut self, due: Flush) {
        for k in (0..self.keeping.len()).rev() {
            let Some(&to) = self.keeping.get(k) else { continue };
            let mut at = 0;
            while let Some(slot) = self.tx[to.0 as usize].queues.get_mut(at) {
                let mut tally = Tally::default();
                let sent = slot.queue.flush(self.now, due, &mut tally);
                self.counters.ports[to.0 as usize].count_tx(&tally);
                match sent {
                    Ok(sent) => {
                        self.mark(to, sent);
                        at += 1;
                    }
                    Err(fault) => self.lose_tx(to, at, fault),
                }
            }
        }
    }

    fn mark(&mut self, to: PortId, sent: bool) {
        let slots = &mut self.tx[to.0 as usize];
        if sent && !slots.dirty {
            slots.dirty = true;
            self.dirty_tx.push(to);
        }
    }

    /// A queue is about to be given back: what it keeps back leaves now, or is lost with the port.
    pub(super) fn empty(&mut self, port: PortId, queue: &mut dyn TxQueue) {
        let mut tally = Tally::default();
        // A queue that breaks now has counted its packets and is on its way out as it is.
        let sent = queue.flush(self.now, Flush::All, &mut tally).unwrap_or(false);
        queue.abandon(&mut tally);
        self.counters.ports[port.0 as usize].count_tx(&tally);
        if sent {
            fence(Ordering::SeqCst);
            queue.notify();
        }
        self.keeps_no_more(port, queue);
    }

    pub(super) fn keeps_no_more(&mut self, port: PortId, queue: &dyn TxQueue) {
        if let Some(at) = self.keeping.iter().position(|&of| of == port).filter(|_| queue.keeps_back()) {
            self.keeping.swap_remove(at);
        }
    }

    /// One fence for everything published since the last round, then the questions that need it.
    #[inline]
    pub(super) fn notify(&mut self) {
        if self.dirty_tx.is_empty() && !self.hops.are_dirty() && !self.rx.iter().any(|slot| slot.dirty) {
            return;
        }
        if self.hops.are_dirty() {
            self.hops.publish();
        }
        // Orders our used indices before our loads of the drivers' suppression fields; pairs with the fence that
        // a driver executes between enabling calls and looking at the used index again.
        fence(Ordering::SeqCst);
        for slot in self.rx.iter_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
            slot.queue.notify();
        }
        for port in self.dirty_tx.drain(..) {
            let slots = &mut self.tx[port.0 as usize];
            slots.dirty = false;
            slots.queues.iter_mut().for_each(|slot| slot.queue.notify());
        }
        if self.hops.are_dirty() {
            self.hops.notify();
        }
    }
}

/// A transmit queue, and how many ticks it is waited for when it is full.
struct Output<'a> {
    queue: &'a mut dyn TxQueue,
    patience: u64,
}

impl Push for Output<'_> {
    /// Sends all picks, waiting for a full queue where that is wanted. What still does not fit is counted.
    #[inline]
    fn push(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<(), PortFault> {
        let mut done = self.queue.tx(burst, picks, tally)?;
        if done < picks.len() && self.patience > 0 {
            // A guest that sleeps has to hear of what it already got before it can make room.
            fence(Ordering::SeqCst);
            self.queue.notify();
            let until = ticks() + self.patience;
            while done < picks.len() && ticks() < until {
                std::hint::spin_loop();
                done += self.queue.tx(burst, &picks[done..], tally)?;
            }
        }
        tally.drop(DropReason::QueueFull, (picks.len() - done) as u64);
        Ok(())
    }
}
