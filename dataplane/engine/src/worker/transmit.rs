//! How a worker sends what was decided: by port, and where a port has several queues by flow.
//!
//! [`Transmit::send_all`] sends at once what is cheap: a burst that fits into the turn, to outputs that take its packets as
//! they are and have room. Everything else is put on a list of rests, which [`Transmit::deliver`] works off within the turn's
//! budget, this turn or a later one. Nothing here waits: a full queue that is to be waited for is tried again in the next
//! round, by which time other queues had their turns.

use super::carried::{Carried, Emissions, Rest};
use crate::command::{Event, QueueKey, Retired};
use crate::config::QueueFull;
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::handoff::Handoffs;
use crate::link::Link;
use crate::xps::{TxSlot, TxSlots};
use mem::copy::Choice;
use port::work::{self, TURN};
use port::{
    BURST, Batch, Burst, BurstStats, Capabilities, DropReason, EditId, Edits, Flush, Indices, Now, PLACES,
    PortFault, PortId, Route, Steering, TxQueue, Verdicts,
};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A worker's transmit queues and what leads to other stages.
pub(super) struct Transmit {
    pub(super) tx: Vec<TxSlots>,
    dirty: Vec<PortId>,
    /// Ports of which a queue may keep packets back.
    pub(super) keeping: Vec<PortId>,
    /// Where this is one stage of several: the next ones.
    pub(super) handoffs: Handoffs,
    pub(super) counters: Arc<WorkerCounters>,
    link: Arc<Link>,
    kernel: Choice,
    steering: Steering,
    workers: usize,
    /// Whether full queues are waited for, by configuration.
    pub(super) may_wait: bool,
    /// Whether packets for a full queue are left over instead of dropped.
    pub(super) waits: bool,
    /// Emissions of the last call for which a queue was full, where those are waited for.
    pub(super) leftover: Batch,
    /// Packets as their edits leave them, for one output at a time.
    edited: Option<Box<Burst>>,
    /// Whether each packet of the burst leaves by one port at most.
    pub(super) alone: bool,
    /// Units of work of this turn so far.
    pub(super) spent: u64,
    /// What was charged in front of a handoff queue for a burst that came by one: work up to that is paid for. `None` without handoff queues.
    pub(super) credit: Option<u64>,
    /// What a packet of the queue that is served is expected to cost behind handoff queues, beyond what is charged in front.
    pub(super) price: u64,
    /// What `send_all` has left to `deliver`.
    pub(super) rests: Vec<Rest>,
    /// By pick: the place of the queue that it takes, where an output has several.
    places: [u8; BURST],
}

impl Transmit {
    pub(super) fn new(config: &WorkerConfig, parts: TransmitParts) -> Self {
        let may_wait = config.queue_full == QueueFull::Wait;
        Self {
            tx: (0..parts.numbers).map(|_| TxSlots::default()).collect(),
            dirty: Vec::with_capacity(parts.numbers),
            keeping: Vec::new(),
            handoffs: parts.handoffs,
            counters: parts.counters,
            link: parts.link,
            kernel: parts.kernel,
            steering: Steering::new(parts.rss),
            workers: parts.workers,
            may_wait,
            waits: may_wait,
            leftover: Batch::new(PortId(0)),
            edited: None,
            alone: true,
            spent: 0,
            credit: parts.staged.then_some(0),
            price: 0,
            rests: Vec::new(),
            places: [0; BURST],
        }
    }

    /// Sends what `verdicts` say of `burst`. Returns whether nothing is left; otherwise `rests` has it.
    #[inline]
    pub(super) fn send_all(&mut self, burst: &mut Burst, verdicts: &Verdicts, from: QueueKey) -> bool {
        let counters = &self.counters.port(from.port);
        if verdicts.replicated() > 0 {
            counters.replicated.add(verdicts.replicated());
        }
        if verdicts.punted() > 0 {
            counters.punted.add(verdicts.punted());
        }
        if let Some(dropped) = verdicts.dropped() {
            counters.count_drops(dropped);
        }
        (self.alone, self.waits) = (verdicts.replicated() == 0, self.may_wait);
        let (cost, needs) = (burst.cost(), burst.needs());
        let behind = self.cost_behind(burst, &PLACES[..burst.len()]);
        if let Some(credit) = &mut self.credit {
            *credit = burst.len() as u64 * work::RECEIVED + cost + behind;
        }
        self.spent = verdicts.work() + burst.len() as u64 * work::RECEIVED;
        for batch in verdicts.batches() {
            let to = batch.port();
            let slots = &self.tx[usize::from(to.0)];
            let behind = if slots.queues.is_empty() { behind } else { 0 };
            let rough = slots.rough * batch.indices().as_slice().len() as u64;
            // What is left of an earlier batch for the same port goes first.
            let follows = self.rests.iter().any(|rest| rest.port() == to);
            if follows || self.spent + cost + rough + behind > TURN || !self.takes(to, needs) {
                self.rests.push(Rest::new(batch));
            } else if !self.send_emissions(burst, from, Emissions::all(batch), verdicts.edits()) {
                self.rests.push(Rest::new(&self.leftover));
            }
        }
        self.rests.is_empty()
    }

    /// Sends each packet as its edit leaves it. Returns whether all are done with; otherwise `leftover` has those that are
    /// waited for.
    #[inline(always)]
    pub(super) fn send_emissions(
        &mut self,
        burst: &mut Burst,
        from: QueueKey,
        emissions: Emissions<'_>,
        edits: &Edits,
    ) -> bool {
        if emissions.is_edited() {
            return self.send_edited(burst, from, emissions, edits);
        }
        self.send(burst, from, emissions.port(), emissions.indices())
    }

    /// Makes a burst of packets as their edits leave them, and sends it. A packet that cannot be edited so is lost.
    #[inline(never)]
    fn send_edited(
        &mut self,
        burst: &Burst,
        from: QueueKey,
        emissions: Emissions<'_>,
        edits: &Edits,
    ) -> bool {
        let (to, mut made) = (emissions.port(), self.edited.take().unwrap_or_default());
        made.begin_from(burst);
        let (mut places, mut lost) = ([0; BURST], BurstStats::default());
        for (place, &i) in emissions.indices().iter().enumerate() {
            match made.push_edited(burst, usize::from(i), edits, emissions.edit(place)) {
                Ok(()) => places[made.len() - 1] = place as u8,
                Err(reason) => lost.drop(reason, 1),
            }
        }
        self.counters.port(to).count_drops(&lost);
        self.spent += made.len() as u64 * work::EDIT;
        let n = made.len();
        let is_done = self.send(&mut made, from, to, &PLACES[..n]);
        if !is_done {
            // What is left is named by its number in the burst that was made.
            let left = std::mem::replace(&mut self.leftover, Batch::new(to));
            for number in left.indices().as_slice() {
                let place = usize::from(places[usize::from(*number)]);
                self.leftover.push(emissions.indices()[place], emissions.edit(place));
            }
        }
        // No map stays mapped for a burst that was sent.
        made.unpin();
        self.edited = Some(made);
        is_done
    }

    /// Whether packets come or leave by handoff queues.
    #[inline(always)]
    pub(super) fn is_staged(&self) -> bool {
        self.credit.is_some()
    }

    /// What may have to be done behind a handoff queue before these indices are sent, beyond sending them. It is charged in front, because a
    /// charge that comes later lets a handoff queue be filled with it first.
    #[inline(always)]
    pub(super) fn cost_behind(&self, burst: &Burst, indices: &[u8]) -> u64 {
        if !self.is_staged() || burst.needs() == Capabilities::NONE {
            return 0;
        }
        indices.iter().map(|&pick| burst.segment_cost(usize::from(pick))).sum()
    }

    /// What each packet has to be expected to cost behind the first handoff queue beyond that. It is not charged, because it will be
    /// as a debt, but keeps the handoff queue short.
    pub(super) fn price_behind(&self, to: PortId) -> u64 {
        if self.is_handoff(to) { self.price } else { 0 }
    }

    /// The port that a loss on the way from one to another counts for: where the way is not known yet, the one that packets came
    /// in by.
    pub(super) fn payer(&self, from: PortId, to: PortId) -> PortId {
        if self.is_handoff(to) { from } else { to }
    }

    /// Whether packets leave by a handoff queue that is all that is known of their way.
    fn is_handoff(&self, to: PortId) -> bool {
        usize::from(to.0) >= self.counters.max_ports()
    }

    /// Whether every queue of an output takes packets that leave so much to be done.
    #[inline(always)]
    pub(super) fn takes(&self, to: PortId, needs: Capabilities) -> bool {
        needs == Capabilities::NONE
            || self.tx[usize::from(to.0)].queues.iter().all(|slot| slot.capabilities.cover(needs))
    }

    /// Whether an output could take a packet of `len` bytes now, by any of its queues.
    pub(super) fn has_room(&mut self, to: PortId, len: usize) -> bool {
        let queues = &mut self.tx[usize::from(to.0)].queues;
        queues.is_empty() || queues.iter_mut().any(|slot| slot.queue.room(len) > 0)
    }

    /// What the turn has cost and what is left will, as far as is known.
    #[cold]
    pub(super) fn foresee(&self, carried: &Carried) -> u64 {
        let left = carried.delivery.rests.iter().map(|rest| cost_of(&carried.burst, rest.left()));
        self.spent + left.sum::<u64>()
    }

    /// Sends `indices` to one port. Returns whether all are done with; otherwise `leftover` has those that are waited for.
    #[inline]
    pub(super) fn send(&mut self, burst: &mut Burst, from: QueueKey, to: PortId, indices: &[u8]) -> bool {
        match self.tx[usize::from(to.0)].queues.len() {
            0 => self.send_on(burst, from, to, indices),
            1 => self.send_by(burst, to, 0, indices),
            queues => self.steer(burst, from, (to, queues), indices),
        }
    }

    /// Sends `indices` to a port that has no queue here: by a handoff queue, or nowhere.
    #[inline(never)]
    fn send_on(&mut self, burst: &Burst, from: QueueKey, to: PortId, indices: &[u8]) -> bool {
        let route = Route { from: from.port, pair: from.pair, to };
        let mut stats = BurstStats::default();
        let segments = self.cost_behind(burst, indices);
        let work = segments + self.price_behind(to) * indices.len() as u64;
        if !self.handoffs.send((burst, indices), (route, self.alone), work, &mut stats) {
            stats.drop(DropReason::PortDown, indices.len() as u64);
        }
        self.spent += cost_of(burst, indices) + segments;
        self.counters.port(self.payer(from.port, to)).count_drops(&stats);
        true
    }

    /// Sends `indices` to one port, each by the queue of its flow.
    #[inline(never)]
    fn steer(
        &mut self,
        burst: &mut Burst,
        from: QueueKey,
        (to, queues): (PortId, usize),
        indices: &[u8],
    ) -> bool {
        mem::with_kernel!(self.kernel, K => burst.load_heads::<K>());
        let slots = &self.tx[usize::from(to.0)];
        for (pick, place) in indices.iter().zip(&mut self.places) {
            let hash = burst.rss_hash(usize::from(*pick), &self.steering);
            *place = slots.choose(hash, from.pair) as u8;
        }
        let (places, mut leftover) = (self.places, Batch::new(to));
        // From the back, because a queue that turns out to be broken is taken out of its place.
        for at in (0..queues).rev() {
            let mut mine = Indices::EMPTY;
            let of_queue = indices.iter().zip(&places).filter(|(_, place)| usize::from(**place) == at);
            of_queue.for_each(|(pick, _)| mine.push(*pick));
            if !mine.as_slice().is_empty() && !self.send_by(burst, to, at, mine.as_slice()) {
                for pick in self.leftover.indices().as_slice() {
                    leftover.push(*pick, EditId::NONE);
                }
            }
        }
        self.leftover = leftover;
        leftover.indices().is_empty()
    }

    /// Sends `indices` by the queue at place `at` of one port.
    #[inline]
    fn send_by(&mut self, burst: &Burst, to: PortId, at: usize, indices: &[u8]) -> bool {
        let mut stats = BurstStats::default();
        let slots = &mut self.tx[usize::from(to.0)];
        let sent = slots.queues[at].queue.tx(burst, indices, &mut stats);
        slots.rough = stats.work;
        if stats.work > 0 {
            slots.rough /= indices.len().max(1) as u64;
        }
        if !slots.dirty {
            slots.dirty = true;
            self.dirty.push(to);
        }
        let is_done = match sent {
            Ok(done) if done == indices.len() => true,
            Ok(done) => self.full(to, &indices[done..], &mut stats),
            Err(fault) => {
                // A queue that keeps packets back has counted older ones, too, and all of them.
                let told = stats.packets + stats.lost;
                stats.drop(DropReason::PortFault, (indices.len() as u64).saturating_sub(told));
                self.lose(to, at, fault);
                true
            }
        };
        self.spent += work::sending(stats.packets, stats.bytes) + stats.work;
        self.counters.port(to).count_tx(&stats);
        is_done
    }

    /// A queue was full when these came. Whether they are done with.
    #[cold]
    fn full(&mut self, to: PortId, indices: &[u8], stats: &mut BurstStats) -> bool {
        if !self.waits {
            stats.drop(DropReason::QueueFull, indices.len() as u64);
            return true;
        }
        self.leftover = Batch::new(to);
        for pick in indices {
            self.leftover.push(*pick, EditId::NONE);
        }
        false
    }

    #[cold]
    pub(super) fn lose(&mut self, to: PortId, at: usize, fault: PortFault) {
        let slot = self.tx[usize::from(to.0)].take(at);
        self.keeps_no_more(to, slot.queue.as_ref());
        let retired = Some(Retired::Tx(slot.generation, slot.queue));
        self.link.report(Event { port: to, generation: slot.generation, fault, retired });
    }

    /// As [`super::Worker::fail`], for queues that are sent to.
    pub(super) fn fail(&mut self) {
        self.rests.clear();
        self.dirty.clear();
        for port in 0..self.tx.len() {
            while !self.tx[port].queues.is_empty() {
                self.lose(PortId(port as u16), 0, PortFault::WorkerFailed);
            }
            self.tx[port].dirty = false;
        }
    }

    /// Starts a queue of a port.
    pub(super) fn start(&mut self, port: PortId, slot: TxSlot, xps_map: crate::command::XpsMap) {
        if slot.queue.keeps_back() {
            self.keeping.push(port);
        }
        self.tx[usize::from(port.0)].add(slot, xps_map, self.workers);
    }

    /// Receive queues of the port are elsewhere from now on.
    pub(super) fn set_xps_map(&mut self, port: PortId, xps_map: crate::command::XpsMap) {
        self.tx[usize::from(port.0)].set_xps_map(xps_map, self.workers);
    }

    /// Takes a queue back. What it keeps back leaves first.
    pub(super) fn stop(&mut self, key: QueueKey, now: Now) -> Option<TxSlot> {
        let slots = &mut self.tx[usize::from(key.port.0)];
        let at = slots.queues.iter().position(|slot| slot.pair == key.pair)?;
        let mut slot = slots.take(at);
        self.empty(key.port, slot.queue.as_mut(), now);
        Some(slot)
    }

    /// Has the queues of a port take over its changed map.
    pub(super) fn refresh(&mut self, port: PortId) {
        let mut pair = 0;
        while let Some(slot) = self.tx[usize::from(port.0)].queues.get_mut(pair) {
            match slot.queue.refresh() {
                Ok(()) => pair += 1,
                Err(fault) => self.lose(port, pair, fault),
            }
        }
    }

    /// Has queues send what they keep back, as far as it is due.
    #[cold]
    pub(super) fn flush(&mut self, now: Now, due: Flush) {
        for k in (0..self.keeping.len()).rev() {
            let Some(&to) = self.keeping.get(k) else { continue };
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

    /// A queue is about to be given back: what it keeps back leaves now, or is lost with the port.
    fn empty(&mut self, port: PortId, queue: &mut dyn TxQueue, now: Now) {
        let mut stats = BurstStats::default();
        // A queue that breaks now has counted its packets and is on its way out as it is.
        let sent = queue.flush(now, Flush::All, &mut stats).unwrap_or(false);
        queue.abandon(&mut stats);
        self.counters.port(port).count_tx(&stats);
        if sent {
            fence(Ordering::SeqCst);
            queue.notify();
        }
        self.keeps_no_more(port, queue);
    }

    fn keeps_no_more(&mut self, port: PortId, queue: &dyn TxQueue) {
        if let Some(at) = self.keeping.iter().position(|&of| of == port).filter(|_| queue.keeps_back()) {
            self.keeping.swap_remove(at);
        }
    }

    /// Whether anything was sent since the last `notify`.
    #[inline(always)]
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.handoffs.are_dirty()
    }

    /// Tells drivers and stages what there is for them. The caller has executed a sequentially consistent fence since the
    /// last publish, of handoff queues too.
    #[inline]
    pub(super) fn notify(&mut self) {
        for port in self.dirty.drain(..) {
            let slots = &mut self.tx[usize::from(port.0)];
            slots.dirty = false;
            slots.queues.iter_mut().for_each(|slot| slot.queue.notify());
        }
        if self.handoffs.are_dirty() {
            self.handoffs.notify();
        }
    }
}

/// What it costs to send these indices.
#[inline]
fn cost_of(burst: &Burst, indices: &[u8]) -> u64 {
    if indices.len() == burst.len() {
        return burst.cost();
    }
    work::OUTPUT + indices.iter().map(|&pick| burst.packet_cost(usize::from(pick))).sum::<u64>()
}

/// What [`Transmit`] is made of.
pub(super) struct TransmitParts {
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) kernel: Choice,
    pub(super) numbers: usize,
    pub(super) workers: usize,
    pub(super) rss: port::Rss,
    pub(super) handoffs: Handoffs,
    pub(super) staged: bool,
}
