//! What a pipeline decides: for each packet of a burst the ports that it leaves by and in which form, or the reason it does not.
//!
//! Emissions to one port are kept in batches of up to 64 in the order in which they were made, so a packet may leave by one
//! port any number of times. A run of packets that leave by one port as they are takes two numbers, whatever its length. What
//! came in plus what was replicated equals what left plus what was dropped or punted: [`Verdicts`] counts that itself, and a
//! packet without any verdict is dropped. Allocates only until it has seen the largest burst of verdicts.

use crate::edit::{Edit, EditId, Edits};
use crate::{BURST, Burst, BurstStats, Context, DropReason, Notes, PLACES, PortId, PuntReason};
use std::ops::Range;

/// Up to 64 indices into a burst, in order.
#[derive(Clone, Copy, Debug)]
pub struct Indices {
    /// Of a run, the first index; otherwise [`LISTED`].
    first: u8,
    n: u8,
    list: [u8; BURST],
}

const LISTED: u8 = u8::MAX;

impl Indices {
    /// None.
    pub const EMPTY: Indices = Indices { first: 0, n: 0, list: [0; BURST] };

    /// The indices.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        let (first, n) = (usize::from(self.first), usize::from(self.n));
        if self.first == LISTED { &self.list[..n] } else { &PLACES[first..first + n] }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Adds an index below [`BURST`] behind the others, of which there are fewer than [`BURST`].
    #[inline(always)]
    pub fn push(&mut self, i: u8) {
        debug_assert!(usize::from(i) < BURST && usize::from(self.n) < BURST);
        if self.n == 0 {
            self.first = i;
        } else if self.first == LISTED || self.first + self.n != i {
            self.push_listed(i);
        }
        self.n += 1;
    }

    /// The index does not continue a run.
    #[inline]
    fn push_listed(&mut self, i: u8) {
        if self.first != LISTED {
            self.list_run();
        }
        self.list[usize::from(self.n) % BURST] = i;
    }

    #[cold]
    fn list_run(&mut self) {
        let (first, n) = (usize::from(self.first), usize::from(self.n));
        self.list[..n].copy_from_slice(&PLACES[first..first + n]);
        self.first = LISTED;
    }
}

/// Emissions to one port.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    to: PortId,
    indices: Indices,
    /// Whether `edits` says anything.
    edited: bool,
    edits: [EditId; BURST],
}

impl Batch {
    const EMPTY: Batch =
        Batch { to: PortId(0), indices: Indices::EMPTY, edited: false, edits: [EditId::NONE; BURST] };

    /// Emissions to `to`, none yet.
    pub fn new(to: PortId) -> Self {
        Self { to, ..Self::EMPTY }
    }

    /// Adds an emission behind the others, of which there are fewer than [`BURST`].
    #[inline(always)]
    pub fn push(&mut self, i: u8, edit: EditId) {
        if self.edited || edit != EditId::NONE {
            self.set_edit(edit);
        }
        self.indices.push(i);
    }

    /// The edit of the emission at this place.
    #[inline(always)]
    pub fn edit(&self, place: usize) -> EditId {
        if self.edited { self.edits[place % BURST] } else { EditId::NONE }
    }

    /// The port.
    #[inline(always)]
    pub fn port(&self) -> PortId {
        self.to
    }

    /// The packets.
    #[inline(always)]
    pub fn indices(&self) -> &Indices {
        &self.indices
    }

    /// Whether any emission may have an edit.
    #[inline(always)]
    pub fn is_edited(&self) -> bool {
        self.edited
    }

    #[inline]
    fn set_edit(&mut self, edit: EditId) {
        if !std::mem::replace(&mut self.edited, true) {
            self.edits = [EditId::NONE; BURST];
        }
        self.edits[usize::from(self.indices.n) % BURST] = edit;
    }
}

/// No batch of a port has room. No batch has this number: so many would not fit into memory.
const CLOSED: u32 = u32::MAX;

/// Where the packets of one burst go. One per worker, reused for ever.
#[derive(Debug)]
pub struct Verdicts {
    /// Those of this burst are the first `used`; others keep their memory.
    batches: Vec<Batch>,
    used: usize,
    /// By port: the batch that takes the next emission.
    open: Vec<u32>,
    edits: Edits,
    /// By packet: whether it has a verdict.
    decided: u64,
    dropped: BurstStats,
    replicated: u64,
    work: u64,
    recirculated: Vec<Recirculated>,
    punts: Vec<(u8, PuntReason)>,
    punted: u64,
}

/// A packet that passes through the pipeline again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recirculated {
    pub(crate) packet: u8,
    pub(crate) context: Context,
    pub(crate) edit: EditId,
    pub(crate) notes: Notes,
}

impl Verdicts {
    /// Verdicts for ports `0..ports`.
    pub fn new(ports: usize) -> Self {
        Self {
            batches: vec![Batch::EMPTY; ports],
            used: 0,
            open: vec![CLOSED; ports],
            edits: Edits::default(),
            decided: 0,
            dropped: BurstStats::default(),
            replicated: 0,
            work: 0,
            recirculated: Vec::new(),
            punts: Vec::new(),
            punted: 0,
        }
    }

    /// How many ports there can be.
    pub(crate) fn ports(&self) -> usize {
        self.open.len()
    }

    /// Removes the verdicts of the last burst.
    #[inline]
    pub fn clear(&mut self) {
        for batch in &self.batches[..self.used] {
            self.open[usize::from(batch.to.0)] = CLOSED;
        }
        (self.used, self.decided, self.replicated, self.work) = (0, 0, 0, 0);
        self.edits.clear();
        if self.dropped.packets > 0 {
            self.dropped = BurstStats::default();
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

    /// Packet `i` leaves by `to`, changed by `edit`.
    #[inline(always)]
    pub fn emit(&mut self, i: usize, to: PortId, edit: EditId) {
        self.decide(i);
        self.batch(to, 1).push(i as u8, edit);
    }

    /// Packets `run` leave by `to`, each changed by `edit`.
    #[inline]
    pub fn emit_run(&mut self, run: Range<usize>, to: PortId, edit: EditId) {
        if run.is_empty() {
            return;
        }
        let mask = (u64::MAX >> (BURST - run.len())) << run.start;
        self.replicated += u64::from((self.decided & mask).count_ones());
        self.decided |= mask;
        let batch = self.batch(to, run.len());
        if batch.indices.is_empty() && edit == EditId::NONE {
            (batch.indices.first, batch.indices.n) = (run.start as u8, run.len() as u8);
            return;
        }
        run.for_each(|i| batch.push(i as u8, edit));
    }

    /// Packet `i` leaves by every port of `to`, as it is.
    pub fn flood(&mut self, i: usize, to: impl Iterator<Item = PortId>) {
        to.for_each(|port| self.emit(i, port, EditId::NONE));
    }

    /// Packet `i`, or one more copy of it, is dropped.
    #[inline(always)]
    pub fn drop(&mut self, i: usize, reason: DropReason) {
        self.decide(i);
        self.dropped.packets += 1;
        self.dropped.drop(reason, 1);
    }

    /// Packet `i`, as `edit` leaves it, passes through the pipeline again, in `context`. Its [`Context::stage`] says to the
    /// pipeline where to go on.
    pub fn recirculate(&mut self, i: usize, context: Context, edit: EditId) {
        self.decide(i);
        self.recirculated.push(Recirculated { packet: i as u8, context, edit, notes: Notes::default() });
    }

    /// What `burst`, which the pipeline has been given, says of the packets that it recirculates goes round with them.
    pub(crate) fn take_notes(&mut self, burst: &Burst) {
        for again in &mut self.recirculated {
            again.notes = burst.notes(again.packet.into());
        }
    }

    /// Packet `i` is handed to the control plane ([`crate::PortObserver::punted`]).
    pub fn punt(&mut self, i: usize, reason: PuntReason) {
        self.decide(i);
        self.punts.push((i as u8, reason));
        self.punted += 1;
    }

    /// Whether any packet is recirculated or punted, or was.
    #[inline(always)]
    pub(crate) fn has_more(&self) -> bool {
        self.recirculated.len() as u64 | self.punted != 0
    }

    /// Exchanges what is recirculated for an empty list.
    pub(crate) fn take_recirculated(&mut self, list: &mut Vec<Recirculated>) {
        list.clear();
        std::mem::swap(list, &mut self.recirculated);
    }

    /// What is punted.
    pub(crate) fn punts(&self) -> &[(u8, PuntReason)] {
        &self.punts
    }

    /// So many packets that have a verdict already are dropped instead.
    pub(crate) fn lose(&mut self, reason: DropReason, packets: usize) {
        self.dropped.packets += packets as u64;
        self.dropped.drop(reason, packets as u64);
    }

    /// Of the packets that were to be punted, so many are lost.
    pub(crate) fn lose_punted(&mut self, packets: usize) {
        self.punts.clear();
        self.punted -= packets as u64;
        self.lose(DropReason::PuntFull, packets);
    }

    /// Takes over the verdicts of a pass over recirculated packets: packet `k` of it is `origins[k]`.
    pub(crate) fn absorb(&mut self, pass: &Verdicts, origins: &[Recirculated]) {
        // By packet: its last edit in the pass and what became of it. A packet that is flooded has one for all its copies.
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
        for again in &pass.recirculated {
            let origin = &origins[usize::from(again.packet)];
            let edit = self.chain(pass, again.edit, origin, &mut last[usize::from(again.packet)]);
            self.recirculated.push(Recirculated { packet: origin.packet, edit, ..*again });
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

    /// The edit of `origin`, and behind it `edit` of `pass`.
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

    /// Packets that were handed to the control plane.
    #[inline(always)]
    pub fn punted(&self) -> u64 {
        self.punted
    }

    /// The pipeline has done `units` of work ([`crate::work`]) beyond what every packet costs.
    pub fn charge(&mut self, units: u64) {
        self.work += units;
    }

    /// Every packet of a burst of `n` has been processed: those without a verdict are dropped.
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

    /// The batch for `packets` emissions more to port `to`.
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

    /// What leaves, in the order in which it was decided for each port.
    #[inline(always)]
    pub fn batches(&self) -> &[Batch] {
        &self.batches[..self.used]
    }

    /// The edits of all batches.
    #[inline(always)]
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// The same, for a caller that sends batches of this burst later and exchanges them for others.
    pub fn edits_mut(&mut self) -> &mut Edits {
        &mut self.edits
    }

    /// Packets that the pipeline dropped, to be counted at the port that the burst came in by; `None` if there are none.
    #[inline(always)]
    pub fn dropped(&self) -> Option<&BurstStats> {
        (self.dropped.packets > 0).then_some(&self.dropped)
    }

    /// Copies of packets beyond the first: what came in plus this equals what left plus what was dropped.
    #[inline(always)]
    pub fn replicated(&self) -> u64 {
        self.replicated
    }

    /// Units of work of the pipeline beyond what every packet costs.
    #[inline(always)]
    pub fn work(&self) -> u64 {
        self.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PORTS: u16 = 5;

    /// What leaves by each port: packet and edit.
    fn leaving(verdicts: &Verdicts) -> Vec<Vec<(u8, EditId)>> {
        let mut by_port = vec![vec![]; PORTS.into()];
        for batch in verdicts.batches() {
            let indices = batch.indices().as_slice().iter().enumerate();
            by_port[usize::from(batch.port().0)].extend(indices.map(|(place, &i)| (i, batch.edit(place))));
        }
        by_port
    }

    #[derive(Clone, Debug)]
    enum Step {
        Emit(usize, u16, bool),
        Run(usize, usize, u16, bool),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..BURST, 0..PORTS, any::<bool>()).prop_map(|(i, to, edited)| Step::Emit(i, to, edited)),
            2 => (0..BURST, 0..=BURST, 0..PORTS, any::<bool>())
                .prop_map(|(from, to, port, edited)| Step::Run(from, to, port, edited)),
            1 => (0..BURST).prop_map(Step::Drop),
        ]
    }

    proptest! {
        #[test]
        fn every_emission_leaves_in_order_and_the_sums_agree(
            bursts in prop::collection::vec(prop::collection::vec(step(), 0..300), 1..4),
        ) {
            let mut verdicts = Verdicts::new(PORTS.into());
            for steps in bursts {
                verdicts.clear();
                let mut wanted = vec![vec![]; PORTS.into()];
                for step in steps {
                    let mut edit = |edited| if edited { verdicts.edit(&Edit::default()) } else { EditId::NONE };
                    match step {
                        Step::Emit(i, to, edited) => {
                            let edit = edit(edited);
                            verdicts.emit(i, PortId(to), edit);
                            wanted[usize::from(to)].push((i as u8, edit));
                        }
                        Step::Run(from, to, port, edited) => {
                            let edit = edit(edited);
                            verdicts.emit_run(from..to, PortId(port), edit);
                            wanted[usize::from(port)].extend((from..to).map(|i| (i as u8, edit)));
                        }
                        Step::Drop(i) => verdicts.drop(i, DropReason::NoDestination),
                    }
                }
                verdicts.finish(BURST);
                prop_assert_eq!(leaving(&verdicts), wanted.clone());
                let left: usize = wanted.iter().map(Vec::len).sum();
                let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
                prop_assert_eq!(BURST as u64 + verdicts.replicated(), left as u64 + dropped);
            }
        }
    }

    #[test]
    fn more_batches_than_sixteen_bits_can_number_keep_their_ports() {
        let mut verdicts = Verdicts::new(3);
        verdicts.emit(0, PortId(2), EditId::NONE);
        (0..u16::MAX).for_each(|_| verdicts.emit_run(0..BURST, PortId(0), EditId::NONE));
        verdicts.emit(1, PortId(1), EditId::NONE);
        verdicts.emit(2, PortId(1), EditId::NONE);
        let of = |port| -> Vec<u8> {
            let batches = verdicts.batches().iter().filter(|batch| batch.port() == PortId(port));
            batches.flat_map(|batch| batch.indices().as_slice().to_vec()).collect()
        };
        assert_eq!((of(2), of(1)), (vec![0], vec![1, 2]));
        assert_eq!(of(0).len(), BURST * usize::from(u16::MAX));
    }

    #[test]
    fn a_packet_without_a_verdict_is_dropped() {
        let mut verdicts = Verdicts::new(1);
        verdicts.finish(0);
        assert!(verdicts.dropped().is_none());
        verdicts.emit(1, PortId(0), EditId::NONE);
        verdicts.finish(3);
        assert_eq!(verdicts.dropped().unwrap().drops[DropReason::NoDestination as usize], 2);
    }
}
