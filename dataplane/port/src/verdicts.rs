//! Verdicts of a pipeline: the output ports and edits of each packet of a burst, or its drop reason.
//!
//! Emissions to one port are kept in batches of up to 64, in order, so a packet may be sent to one port any number of
//! times. A run of unmodified packets to one port is stored as two numbers, independent of its length. [`Verdicts`]
//! counts so that received plus replicated packets equal sent plus dropped plus punted ones. A packet without a
//! verdict is dropped. Allocates only until the largest burst of verdicts has occurred.

mod batch;
mod flooded;

pub use batch::{Batch, Indices};
pub use flooded::Flooded;

use crate::edit::{Edit, EditId, Edits};
use crate::{BURST, Burst, BurstStats, Context, DropReason, Notes, PortId, PuntNote, PuntReason};
use std::ops::Range;

/// Marks a port without an open batch. Never a valid batch index: so many batches would not fit in memory.
const CLOSED: u32 = u32::MAX;

/// Verdicts on the packets of one burst. One instance per worker, reused.
#[derive(Debug)]
pub struct Verdicts {
    /// The first `used` batches belong to this burst; the others keep their memory.
    batches: Vec<Batch>,
    used: usize,
    /// Per packet: whether it has a verdict.
    decided: u64,
    replicated: u64,
    work: u64,
    flooded: Flooded,
    /// Per port: index of the batch for the next emission.
    open: Vec<u32>,
    edits: Edits,
    dropped: BurstStats,
    /// Per packet: reason of its last drop, valid if `dropped` is not empty.
    reasons: [Option<DropReason>; BURST],
    recirculated: Vec<Recirculated>,
    punts: Vec<(u8, PuntReason, PuntNote)>,
    punted: u64,
}

/// A recirculated packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recirculated {
    pub(crate) packet: u8,
    pub(crate) context: Context,
    pub(crate) edit: EditId,
    pub(crate) notes: Notes,
}

impl Verdicts {
    /// Creates verdicts for ports `0..ports`.
    pub fn new(ports: usize) -> Self {
        Self {
            batches: vec![Batch::EMPTY; ports],
            used: 0,
            decided: 0,
            replicated: 0,
            work: 0,
            flooded: Flooded::default(),
            open: vec![CLOSED; ports],
            edits: Edits::default(),
            dropped: BurstStats::default(),
            reasons: [None; BURST],
            recirculated: Vec::new(),
            punts: Vec::new(),
            punted: 0,
        }
    }

    /// Number of ports.
    pub(crate) fn ports(&self) -> usize {
        self.open.len()
    }

    /// Removes the verdicts of the previous burst.
    #[inline]
    pub fn clear(&mut self) {
        for batch in &self.batches[..self.used] {
            self.open[usize::from(batch.to.0)] = CLOSED;
        }
        (self.used, self.decided, self.replicated, self.work) = (0, 0, 0, 0);
        self.flooded.clear();
        self.edits.clear();
        if self.dropped.packets > 0 {
            self.dropped = BurstStats::default();
            self.reasons = [None; BURST];
        }
        if self.has_more() {
            self.clear_more();
        }
    }

    #[cold]
    fn clear_more(&mut self) {
        self.recirculated.clear();
        self.punts.clear();
        self.punted = 0;
    }

    /// Adds an edit for emissions of this burst.
    #[inline]
    pub fn edit(&mut self, edit: &Edit) -> EditId {
        self.edits.add(edit)
    }

    /// Adds an edit that `make` completes from one that changes nothing.
    ///
    /// # Errors
    /// Those of `make`; then no edit is added.
    #[inline]
    pub fn edit_with<E>(&mut self, make: impl FnOnce(&mut Edit) -> Result<(), E>) -> Result<EditId, E> {
        self.edits.add_with(make)
    }

    /// Adds an edit that applies `before`, then `edit`.
    pub fn edit_after(&mut self, before: EditId, edit: &Edit) -> EditId {
        self.edits.chain(before, Some(edit))
    }

    /// Drops the emissions so far to `to` instead.
    pub fn revoke(&mut self, to: PortId, reason: DropReason) {
        let mut packets = 0;
        for batch in self.batches[..self.used].iter_mut().filter(|batch| batch.to == to) {
            packets += usize::from(batch.indices.n);
            (batch.indices.n, batch.edited) = (0, false);
        }
        self.count_drops(reason, packets);
    }

    /// Emits packet `i` to `to`, modified by `edit`.
    #[inline(always)]
    pub fn emit(&mut self, i: usize, to: PortId, edit: EditId) {
        self.decide(i);
        self.batch(to, 1).push(i as u8, edit);
    }

    /// Emits packets `run` to `to`, each modified by `edit`.
    #[inline]
    pub fn emit_run(&mut self, run: Range<usize>, to: PortId, edit: EditId) {
        if run.is_empty() {
            return;
        }
        let mask = (u64::MAX >> (BURST - run.len())) << run.start;
        self.replicated += u64::from((self.decided & mask).count_ones());
        self.decided |= mask;
        let batch = self.batch(to, run.len());
        if batch.indices.is_empty() {
            return batch.fill(run, edit);
        }
        run.for_each(|i| batch.push(i as u8, edit));
    }

    /// Emits packets `run` unmodified to every port of `to`, as flooded packets.
    pub fn flood(&mut self, run: Range<usize>, to: impl Iterator<Item = PortId>) {
        to.for_each(|port| self.emit_run(run.clone(), port, EditId::NONE));
        self.mark_flooded(run);
    }

    /// Marks packets `run` as flooded: a copy for a port without a peer counts as [`DropReason::FloodPortDown`].
    pub fn mark_flooded(&mut self, run: Range<usize>) {
        self.flooded.insert(run);
    }

    /// Moves the emissions to port `from` to other ports: `choose` returns the port for a packet. Those without one are
    /// drops for `reason`.
    pub fn redirect(
        &mut self,
        from: PortId,
        reason: DropReason,
        mut choose: impl FnMut(usize) -> Option<PortId>,
    ) {
        let mut at = 0;
        while at < self.used {
            if self.batches[at].to != from {
                at += 1;
                continue;
            }
            let batch = self.take_batch(at);
            for (place, &i) in batch.indices().as_slice().iter().enumerate() {
                match choose(usize::from(i)) {
                    Some(to) => self.batch(to, 1).push(i, batch.edit(place)),
                    None => self.count_drops(reason, 1),
                }
            }
        }
    }

    /// Removes a batch; the others keep their order.
    fn take_batch(&mut self, at: usize) -> Batch {
        let batch = self.batches[at];
        self.open[usize::from(batch.to.0)] = CLOSED;
        self.batches[at..self.used].rotate_left(1);
        self.used -= 1;
        for (k, moved) in self.batches[..self.used].iter().enumerate().skip(at) {
            self.open[usize::from(moved.to.0)] = k as u32;
        }
        batch
    }

    /// Drops packet `i`, or one more copy of it.
    #[inline(always)]
    pub fn drop(&mut self, i: usize, reason: DropReason) {
        self.decide(i);
        self.dropped.packets += 1;
        self.dropped.drop(reason, 1);
        self.reasons[i % BURST] = Some(reason);
    }

    /// The dropped packets with the reason of the last drop of each, but not those that `count_drops` has
    /// counted only.
    pub fn drops(&self) -> impl Iterator<Item = (usize, DropReason)> {
        let any = self.dropped().is_some();
        let reasons = self.reasons.iter().enumerate().filter(move |_| any);
        reasons.filter_map(|(i, reason)| Some((i, (*reason)?)))
    }

    /// Recirculates packet `i`, modified by `edit`: it passes through the pipeline again in `context`. Its
    /// [`Context::stage`] determines where the pipeline continues.
    pub fn recirculate(&mut self, i: usize, context: Context, edit: EditId) {
        self.decide(i);
        self.recirculated.push(Recirculated { packet: i as u8, context, edit, notes: Notes::default() });
    }

    /// Recirculates the packets that are emitted to `port`, in `context`, in place of sending them.
    pub fn recirculate_port(&mut self, port: PortId, context: Context) {
        for at in 0..self.used {
            let batch = self.batches[at];
            if batch.to != port {
                continue;
            }
            for (place, &packet) in batch.indices().as_slice().iter().enumerate() {
                let (edit, notes) = (batch.edit(place), Notes::default());
                self.recirculated.push(Recirculated { packet, context, edit, notes });
            }
            let batch = &mut self.batches[at];
            (batch.indices.n, batch.edited) = (0, false);
        }
    }

    /// Copies the notes of recirculated packets from `burst`, which the pipeline has processed.
    pub(crate) fn take_notes(&mut self, burst: &Burst) {
        for again in &mut self.recirculated {
            again.notes = burst.notes(again.packet.into());
        }
    }

    /// Punts packet `i` to the control plane ([`crate::PortObserver::punted`]).
    pub fn punt(&mut self, i: usize, reason: PuntReason) {
        self.punt_with(i, reason, None);
    }

    /// [`Verdicts::punt`] with information for the control plane.
    pub fn punt_with(&mut self, i: usize, reason: PuntReason, note: PuntNote) {
        self.decide(i);
        self.punts.push((i as u8, reason, note));
        self.punted += 1;
    }

    /// Whether packet `i` is punted in this pass. For few packets: visits all punted ones.
    pub fn is_punted(&self, i: usize) -> bool {
        self.punts.iter().any(|(packet, ..)| usize::from(*packet) == i)
    }

    /// Whether any packet is or was recirculated or punted.
    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        self.recirculated.len() as u64 | self.punted != 0
    }

    /// Moves the recirculated packets to `list`.
    pub(crate) fn take_recirculated(&mut self, list: &mut Vec<Recirculated>) {
        list.clear();
        std::mem::swap(list, &mut self.recirculated);
    }

    /// Punted packets.
    pub(crate) fn punts(&self) -> &[(u8, PuntReason, PuntNote)] {
        &self.punts
    }

    /// Counts `packets` packets, which already have a verdict, as dropped.
    pub(crate) fn count_drops(&mut self, reason: DropReason, packets: usize) {
        self.dropped.packets += packets as u64;
        self.dropped.drop(reason, packets as u64);
    }

    /// Counts `packets` of the packets to punt as dropped.
    pub(crate) fn drop_punted(&mut self, packets: usize) {
        self.punts.clear();
        self.punted -= packets as u64;
        self.count_drops(DropReason::PuntFull, packets);
    }

    /// Adds the verdicts of a pass over recirculated packets. Packet `k` of the pass is `origins[k]`.
    pub(crate) fn absorb(&mut self, pass: &Verdicts, origins: &[Recirculated]) {
        // Per packet: its last edit in the pass and the chained result. A flooded packet has one result for all
        // copies.
        let mut last = [(EditId::NONE, EditId::NONE); BURST];
        for (last, origin) in last.iter_mut().zip(origins) {
            last.1 = origin.edit;
        }
        for batch in pass.batches() {
            for (place, &k) in batch.indices().as_slice().iter().enumerate() {
                let origin = &origins[usize::from(k)];
                let edit = self.chain(pass, batch.edit(place), origin, &mut last[usize::from(k)]);
                self.batch(batch.port(), 1).push(origin.packet, edit);
            }
        }
        for (_, origin) in (0..).zip(origins).filter(|(k, _)| pass.flooded.contains(*k)) {
            self.flooded.insert(origin.packet.into()..usize::from(origin.packet) + 1);
        }
        for again in &pass.recirculated {
            let origin = &origins[usize::from(again.packet)];
            let edit = self.chain(pass, again.edit, origin, &mut last[usize::from(again.packet)]);
            self.recirculated.push(Recirculated { packet: origin.packet, edit, ..*again });
        }
        for (i, reason) in pass.drops() {
            self.reasons[usize::from(origins[i].packet) % BURST] = Some(reason);
        }
        for (sum, n) in self.dropped.drops.iter_mut().zip(&pass.dropped.drops) {
            *sum += n;
        }
        self.dropped.packets += pass.dropped.packets;
        self.dropped.lost += pass.dropped.lost;
        self.replicated += pass.replicated;
        self.punted += pass.punted;
        self.work += pass.work;
    }

    /// The edit of `origin`, followed by `edit` of `pass`.
    fn chain(
        &mut self,
        pass: &Verdicts,
        edit: EditId,
        origin: &Recirculated,
        last: &mut (EditId, EditId),
    ) -> EditId {
        if last.0 != edit {
            *last = (edit, self.edits.chain(origin.edit, pass.edits.get(edit)));
        }
        last.1
    }

    /// Number of packets punted to the control plane.
    #[inline(always)]
    pub fn punted(&self) -> u64 {
        self.punted
    }

    /// Adds `units` of work ([`crate::work`]) of the pipeline, beyond the fixed cost per packet.
    pub fn charge(&mut self, units: u64) {
        self.work += units;
    }

    /// Ends a burst of `n` packets: packets without a verdict are dropped.
    #[inline(always)]
    pub fn finish(&mut self, n: usize) {
        let all = if n == 0 { 0 } else { u64::MAX >> (BURST - n) };
        if self.decided != all {
            self.drop_undecided(all & !self.decided);
        }
    }

    #[cold]
    fn drop_undecided(&mut self, packets: u64) {
        (0..BURST).filter(|i| packets >> i & 1 != 0).for_each(|i| self.drop(i, DropReason::NoDestination));
    }

    #[inline(always)]
    fn decide(&mut self, i: usize) {
        let bit = 1 << (i % BURST);
        self.replicated += u64::from(self.decided & bit != 0);
        self.decided |= bit;
    }

    /// The open batch of port `to`, with space for `packets` further emissions.
    #[inline(always)]
    fn batch(&mut self, to: PortId, packets: usize) -> &mut Batch {
        let at = self.open[usize::from(to.0)] as usize;
        let fits = |batch: &&Batch| usize::from(batch.indices.n) + packets <= BURST;
        let at = if self.batches.get(at).as_ref().is_some_and(fits) { at } else { self.open_batch(to) };
        &mut self.batches[at]
    }

    #[inline(never)]
    fn open_batch(&mut self, to: PortId) -> usize {
        let at = self.used;
        if at == self.batches.len() {
            self.add_batch();
        }
        let batch = &mut self.batches[at];
        (batch.to, batch.indices.n, batch.edited) = (to, 0, false);
        self.used += 1;
        self.open[usize::from(to.0)] = at as u32;
        at
    }

    #[cold]
    #[inline(never)]
    fn add_batch(&mut self) {
        self.batches.push(Batch::EMPTY);
    }

    /// Emissions, in order for each port.
    #[inline(always)]
    pub fn batches(&self) -> &[Batch] {
        &self.batches[..self.used]
    }

    /// The edits of all batches.
    #[inline(always)]
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// [`Verdicts::edits`] for a caller that sends batches of this burst later and exchanges them for others.
    pub fn edits_mut(&mut self) -> &mut Edits {
        &mut self.edits
    }

    /// The packets that are flooded.
    #[inline(always)]
    pub fn flooded(&self) -> &Flooded {
        &self.flooded
    }

    /// Packets dropped by the pipeline, counted at the input port. Returns `None` if there are none.
    #[inline(always)]
    pub fn dropped(&self) -> Option<&BurstStats> {
        (self.dropped.packets > 0).then_some(&self.dropped)
    }

    /// Copies of packets beyond the first. Received plus replicated packets equal sent plus dropped plus punted ones.
    #[inline(always)]
    pub fn replicated(&self) -> u64 {
        self.replicated
    }

    /// Work units of the pipeline, beyond the fixed cost per packet.
    #[inline(always)]
    pub fn work(&self) -> u64 {
        self.work
    }
}

#[cfg(test)]
mod tests;
