//! Transmit: sends classified bursts, by port and, for ports with several queues, by flow.
//!
//! [`Transmit::send_all`] immediately sends the cheap part: a burst that fits in the turn, to outputs that accept its
//! packets unchanged and have room. Everything else goes to a list of rests, which [`Transmit::deliver`] processes
//! within the turn's budget, in this turn or a later one. Nothing here blocks: a full queue that is waited for is
//! retried in the next round, after other queues had their turns.

use super::carried::{Emissions, Unsent};
use crate::command::QueueKey;
use crate::config::QueueFull;
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::handoff::Handoffs;
use crate::link::Link;
use crate::step::{NO_PORT, Step};
use crate::xps::TxSlots;
use cost::cost_of;
use mem::copy::Choice;
use port::pcap::CaptureDirection;
use port::work::{self, TURN};
use port::{
    BURST, Batch, Burst, BurstStats, Capabilities, DropReason, EditId, Edits, Flooded, Indices, PLACES,
    PortId, Route, Steering, Verdicts,
};
use std::sync::Arc;
use watched::Watch;

mod cost;
mod queues;
mod watched;

/// A worker's transmit queues and handoff queues.
pub(super) struct Transmit {
    pub(super) tx: Vec<TxSlots>,
    dirty: Vec<PortId>,
    /// Ports with a queue that may delay packets.
    pub(super) keeping: Vec<PortId>,
    /// Handoff queues to the next stages, if this is a stage.
    pub(super) handoffs: Handoffs,
    pub(super) counters: Arc<WorkerCounters>,
    link: Arc<Link>,
    kernel: Choice,
    steering: Steering,
    /// Number of workers among which the queue pairs of a port are divided; 1 until a command sets it.
    pub(super) workers: usize,
    /// Whether full queues are waited for, as configured.
    pub(super) may_wait: bool,
    /// Whether packets for a full queue are left over instead of dropped.
    pub(super) waits: bool,
    /// Emissions of the last call that wait for a full queue.
    pub(super) leftover: Batch,
    /// Edited packets for one output at a time.
    edited: Option<Box<Burst>>,
    /// Whether each packet of the burst has at most one output.
    pub(super) alone: bool,
    /// Units of work used in this turn.
    pub(super) spent: u64,
    /// Charge in front of the handoff queue for the current burst: work up to that is paid. `None` without handoff
    /// queues.
    pub(super) credit: Option<u64>,
    /// Expected cost of a packet of the current queue behind handoff queues, beyond the charge in front.
    pub(super) price: u64,
    /// Work left by `send_all` for `deliver`.
    pub(super) rests: Vec<Unsent>,
    /// Captures and samples.
    pub(super) watch: Watch,
    /// By index in the batch: the queue chosen for the packet, if the output has several.
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
            workers: 1,
            may_wait,
            waits: may_wait,
            leftover: Batch::new(PortId(0)),
            edited: None,
            alone: true,
            spent: 0,
            credit: parts.staged.then_some(0),
            price: 0,
            rests: Vec::new(),
            watch: Watch::new(parts.ticks_per_ns),
            places: [0; BURST],
        }
    }

    /// Sends `burst` as `verdicts` specify. Returns whether nothing is left; otherwise `rests` has it.
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
            if self.watch.is_on {
                self.capture_dropped((burst, verdicts), from.port);
            }
        }
        (self.alone, self.waits) = (verdicts.replicated() == 0, self.may_wait);
        let (cost, needs) = (burst.cost(), verdicts.edits().needs(burst.needs()));
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
            // The rest of an earlier batch for the same port must be sent first.
            let follows = self.rests.iter().any(|rest| rest.port() == to);
            if follows || self.spent + cost + rough + behind > TURN || !self.takes(to, needs) {
                self.rests.push(Unsent::new(batch));
            } else if !self.send_emissions(
                burst,
                from,
                Emissions::all(batch),
                verdicts.edits(),
                verdicts.flooded(),
            ) {
                self.rests.push(Unsent::new(&self.leftover));
            }
        }
        self.rests.is_empty()
    }

    /// Sends packets in their edited form. Returns whether all are done; otherwise `leftover` has those that wait.
    #[inline(always)]
    pub(super) fn send_emissions(
        &mut self,
        burst: &mut Burst,
        from: QueueKey,
        emissions: Emissions<'_>,
        edits: &Edits,
        flooded: &Flooded,
    ) -> bool {
        if emissions.is_edited() {
            return self.send_edited(burst, from, emissions, edits, flooded);
        }
        self.send(burst, from, emissions.port(), emissions.indices(), flooded)
    }

    /// Creates a burst of edited packets and sends it. A packet that cannot be edited is lost.
    #[inline(never)]
    fn send_edited(
        &mut self,
        burst: &Burst,
        from: QueueKey,
        emissions: Emissions<'_>,
        edits: &Edits,
        flooded: &Flooded,
    ) -> bool {
        let (to, mut derived) = (emissions.port(), self.edited.take().unwrap_or_default());
        self.counters.step.enter(Step::Transmit, to);
        derived.begin_from(burst);
        let (mut places, mut lost) = ([0; BURST], BurstStats::default());
        let alike = derived.push_alike(burst, emissions.indices(), edits, |place| emissions.edit(place));
        places[..alike].copy_from_slice(&PLACES[..alike]);
        for (place, &i) in emissions.indices().iter().enumerate().skip(alike) {
            match derived.push_edited(burst, usize::from(i), edits, emissions.edit(place)) {
                Ok(()) => places[derived.len() - 1] = place as u8,
                Err(reason) => {
                    lost.drop(reason, 1);
                    if self.watch.is_on {
                        self.capture_lost(burst, [i].into_iter(), (to, CaptureDirection::Out), reason);
                    }
                }
            }
        }
        self.counters.port(to).count_drops(&lost);
        self.spent += derived.len() as u64 * work::EDIT;
        let n = derived.len();
        let origins = places[..n].iter().map(|place| emissions.indices()[usize::from(*place)]);
        if self.watch.is_on {
            self.set_origins(origins.clone());
        }
        let is_done = self.send(&mut derived, from, to, &PLACES[..n], &flooded.of_copies(origins));
        self.clear_origins();
        if !is_done {
            // Maps indices of the edited burst back to the original one.
            let left = std::mem::replace(&mut self.leftover, Batch::new(to));
            for number in left.indices().as_slice() {
                let place = usize::from(places[usize::from(*number)]);
                self.leftover.push(emissions.indices()[place], emissions.edit(place));
            }
        }
        // No memory table must stay referenced for a burst that was sent.
        derived.unpin();
        self.edited = Some(derived);
        is_done
    }

    /// Whether every queue of an output supports these offloads.
    #[inline(always)]
    pub(super) fn takes(&self, to: PortId, needs: Capabilities) -> bool {
        needs == Capabilities::NONE
            || self.tx[usize::from(to.0)].queues.iter().all(|slot| slot.capabilities.cover(needs))
    }

    /// Whether any queue of an output could accept a packet of `len` bytes now.
    pub(super) fn has_room(&mut self, to: PortId, len: usize) -> bool {
        let queues = &mut self.tx[usize::from(to.0)].queues;
        queues.is_empty() || queues.iter_mut().any(|slot| slot.queue.room(len) > 0)
    }

    /// Sends `indices` to one port. Returns whether all are done; otherwise `leftover` has those that wait.
    #[inline]
    pub(super) fn send(
        &mut self,
        burst: &mut Burst,
        from: QueueKey,
        to: PortId,
        indices: &[u8],
        flooded: &Flooded,
    ) -> bool {
        match self.tx[usize::from(to.0)].queues.len() {
            0 => self.send_on(burst, from, to, indices, flooded),
            1 => self.send_by(burst, to, 0, indices),
            queues => self.steer(burst, from, (to, queues), indices),
        }
    }

    /// Sends `indices` to a port without a queue on this worker: through a handoff queue, otherwise drops them.
    #[inline(never)]
    fn send_on(
        &mut self,
        burst: &Burst,
        from: QueueKey,
        to: PortId,
        indices: &[u8],
        flooded: &Flooded,
    ) -> bool {
        self.counters.step.enter(Step::Handoff, to);
        let route = Route { from: from.port, pair: from.pair, to };
        let mut stats = BurstStats::default();
        let segments = self.cost_behind(burst, indices);
        let work = segments + self.price_behind(to) * indices.len() as u64;
        let (packets, port) = ((burst, indices), self.loss_port(from.port, to));
        let is_routed = if self.watch.is_on && self.watches(port) {
            self.hand_over_watched(packets, (route, port), work, flooded, &mut stats)
        } else {
            self.handoffs.send(packets, (route, self.alone), work, &mut stats)
        };
        if !is_routed {
            flooded.drop_at_down_port(indices.iter().map(|&i| (i, 1)), &mut stats);
        }
        self.spent += cost_of(burst, indices) + segments;
        self.counters.port(port).count_drops(&stats);
        true
    }

    /// Sends `indices` to one port, each on the queue of its flow.
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
        for (index, place) in indices.iter().zip(&mut self.places) {
            let hash = burst.rss_hash(usize::from(*index), &self.steering);
            *place = slots.choose(hash, from.pair) as u8;
        }
        let (places, mut leftover) = (self.places, Batch::new(to));
        // In reverse, because a failed queue is removed from the list.
        for at in (0..queues).rev() {
            let mut mine = Indices::EMPTY;
            let of_queue = indices.iter().zip(&places).filter(|(_, place)| usize::from(**place) == at);
            of_queue.for_each(|(index, _)| mine.push(*index));
            if !mine.as_slice().is_empty() && !self.send_by(burst, to, at, mine.as_slice()) {
                for index in self.leftover.indices().as_slice() {
                    leftover.push(*index, EditId::NONE);
                }
            }
        }
        self.leftover = leftover;
        leftover.indices().is_empty()
    }

    /// Sends `indices` on the queue at index `at` of one port.
    #[inline]
    fn send_by(&mut self, burst: &Burst, to: PortId, at: usize, indices: &[u8]) -> bool {
        let mut stats = BurstStats::default();
        self.counters.step.enter(Step::Transmit, to);
        let slots = &mut self.tx[usize::from(to.0)];
        let sent = if self.watch.is_on {
            self.send_watched(burst, (to, at), indices, &mut stats)
        } else {
            slots.queues[at].queue.tx(burst, indices, &mut stats)
        };
        let slots = &mut self.tx[usize::from(to.0)];
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
            Ok(done) => self.full(burst, to, &indices[done..], &mut stats),
            Err(fault) => {
                // A queue that delays packets has counted older packets as well, and all of these.
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

    /// Handles packets for a full queue. Returns whether they are done.
    #[cold]
    fn full(&mut self, burst: &Burst, to: PortId, indices: &[u8], stats: &mut BurstStats) -> bool {
        if !self.waits {
            stats.drop(DropReason::QueueFull, indices.len() as u64);
            if self.watch.is_on {
                let at = (to, CaptureDirection::Out);
                self.capture_lost(burst, indices.iter().copied(), at, DropReason::QueueFull);
            }
            return true;
        }
        self.leftover = Batch::new(to);
        for index in indices {
            self.leftover.push(*index, EditId::NONE);
        }
        false
    }

    /// Whether anything was sent since the last `notify`.
    #[inline(always)]
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.handoffs.are_dirty()
    }

    /// Notifies drivers and stages. The caller must have executed a sequentially consistent fence since the last
    /// publish, including that of handoff queues.
    #[inline]
    pub(super) fn notify(&mut self) {
        for port in self.dirty.drain(..) {
            let slots = &mut self.tx[usize::from(port.0)];
            slots.dirty = false;
            self.counters.step.enter(Step::Notify, port);
            slots.queues.iter_mut().for_each(|slot| slot.queue.notify());
        }
        if self.handoffs.are_dirty() {
            self.counters.step.enter(Step::Notify, NO_PORT);
            self.handoffs.notify();
        }
    }
}

/// Parts of [`Transmit`].
pub(super) struct TransmitParts {
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) kernel: Choice,
    pub(super) numbers: usize,
    pub(super) ticks_per_ns: f64,
    pub(super) rss: port::Rss,
    pub(super) handoffs: Handoffs,
    pub(super) staged: bool,
}
