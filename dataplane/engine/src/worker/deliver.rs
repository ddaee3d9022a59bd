//! Going on with a burst whose turn was over: long packets a few at a time, full queues that are waited for, and packets that
//! are cut into segments because an output does not do it itself.
//!
//! A packet is cut once for all outputs that want it in the same form. Its segments are made 64 at a time and each set is
//! sent to every such output before the next is made; an output without room takes no part, and one that becomes full loses
//! what is left of the packet. The order of packets is kept for each output. Every step checks the budget first, which is
//! less than that of a turn ([`work::SLICE`]), so a turn exceeds it by one step at most.

use super::carried::{Cut, Delivery, Part, Rest};
use super::transmit::Transmit;
use crate::command::QueueKey;
use port::soft_offload::SoftGso;
use port::work::{self, SLICE};
use port::{BadOffload, Burst, BurstStats, Capabilities, DropReason, EditId, Edits, Now, PLACES, PortId};

/// How long full queues are waited for, in nanoseconds, where that is configured: in all, for the burst.
const WAIT: u64 = 1_000_000;

/// From when an output was waited for in vain behind a handoff queue until it is waited for again, in nanoseconds.
const APART: u64 = 32 * WAIT;

/// What a step needs to know of the burst.
struct Source<'a> {
    burst: &'a mut Burst,
    from: QueueKey,
    edits: &'a Edits,
}

impl Delivery {
    /// For how long full queues were waited for, in nanoseconds: what came behind by the same handoff queue has waited, too.
    pub(super) fn waited(&self, now: Now) -> u64 {
        self.deadline.map_or(0, |deadline| (now.0 + WAIT).saturating_sub(deadline.0))
    }

    /// Keeps one packet as its edit leaves it, to be cut.
    fn edit(&mut self, source: &Source<'_>, packet: u8, edit: EditId) -> Result<&Burst, DropReason> {
        let made = self.edited.get_or_insert_default();
        made.begin_from(source.burst);
        made.push_edited(source.burst, usize::from(packet), source.edits, edit)?;
        Ok(made)
    }
}

impl Transmit {
    /// Sends what `delivery` says of `burst`, within the budget of a slice. Returns whether nothing is left.
    pub(super) fn deliver(
        &mut self,
        (burst, from): (&mut Burst, QueueKey),
        delivery: &mut Delivery,
        now: Now,
    ) -> bool {
        let needs = burst.needs();
        self.alone = delivery.alone;
        self.waits = self.may_wait && self.is_worth_waiting(delivery, now);
        let edits = std::mem::take(&mut delivery.edits);
        let mut source = Source { burst, from, edits: &edits };
        let mut blocked = false;
        for k in 0..delivery.rests.len() {
            if follows(&delivery.rests, k) {
                continue;
            }
            let rest = &mut delivery.rests[k];
            if rest.cut.is_none() && self.takes(rest.port(), needs) {
                blocked |= !self.send_run(&mut source, rest, usize::MAX);
            }
        }
        blocked |= !self.segment(&mut source, delivery, needs);
        delivery.edits = edits;
        delivery.rests.retain(|rest| !rest.is_done());
        if blocked && delivery.deadline.is_none() {
            delivery.deadline = Some(Now(now.0 + WAIT));
        }
        delivery.rests.is_empty()
    }

    /// Whether the burst still waits for full queues. Behind a handoff queue every port's packets wait with it, so an output for which
    /// one has waited in vain is not waited for again for a while.
    fn is_worth_waiting(&mut self, delivery: &Delivery, now: Now) -> bool {
        let is_over = delivery.deadline.is_some_and(|deadline| now >= deadline);
        if is_over && self.is_staged() {
            for rest in &delivery.rests {
                self.tx[usize::from(rest.port().0)].no_wait_before = Now(now.0 + APART);
            }
        }
        let is_worth = |rest: &Rest| now >= self.tx[usize::from(rest.port().0)].no_wait_before;
        !is_over && delivery.rests.iter().all(is_worth)
    }

    /// Sends the next `most` indices as they are. Returns whether none of them is waited for; they may be left all the same.
    fn send_run(&mut self, source: &mut Source<'_>, rest: &mut Rest, most: usize) -> bool {
        let mut most = most.min(rest.left().len());
        while most > 0 && self.spent < SLICE {
            let slots = &self.tx[usize::from(rest.port().0)];
            let mut rough = slots.rough;
            if slots.queues.is_empty() {
                rough += self.cost_behind(source.burst, &rest.left()[..most]) / most as u64;
                rough += self.price_behind(rest.port());
            }
            let n = affordable(source.burst, &rest.left()[..most], (SLICE - self.spent, rough));
            let is_sent = self.send_emissions(source.burst, source.from, rest.next(n), source.edits);
            rest.advance(n);
            most -= n;
            if !is_sent {
                rest.put_back(&self.leftover);
                return false;
            }
        }
        true
    }

    /// Sends what is left to outputs that do not take every packet as it is. Returns whether nothing is waited for.
    fn segment(&mut self, source: &mut Source<'_>, delivery: &mut Delivery, needs: Capabilities) -> bool {
        while self.spent < SLICE {
            if delivery.cut.is_some() {
                if !self.push_segments(source, delivery) {
                    return false;
                }
                continue;
            }
            let Some(packet) = self.next_cut(source, &mut delivery.rests, needs) else {
                let is_over = |rest: &Rest| rest.is_done() || self.takes(rest.port(), needs);
                return !self.waits || self.spent >= SLICE || delivery.rests.iter().all(is_over);
            };
            self.start_cut(source, packet, delivery);
        }
        true
    }

    /// Sends the packets before the next one that some output wants cut, and names that one. `None` if there is none, or none
    /// that can be gone on with in this turn.
    fn next_cut(&mut self, source: &mut Source<'_>, rests: &mut [Rest], needs: Capabilities) -> Option<u8> {
        let mut next = None;
        for k in 0..rests.len() {
            if self.takes(rests[k].port(), needs) || follows(rests, k) {
                continue;
            }
            let rest = &mut rests[k];
            let covered =
                |pick: &&u8| self.takes(rest.port(), source.burst.offload(usize::from(**pick)).needs());
            let run = rest.left().iter().take_while(covered).count();
            let cut = rest.left().get(run).copied();
            let went = self.send_run(source, rest, run);
            let is_next = went && cut.is_some() && rest.left().first() == cut.as_ref();
            if is_next && (!self.waits || self.has_room(rest.port(), 0)) {
                next = next.map_or(cut, |next: u8| cut.map(|cut| cut.min(next)));
            }
        }
        next
    }

    /// Has every output that wants `packet` next take part in cutting it. One without room loses it instead; outputs that
    /// want it in a form of their own come one after the other.
    fn start_cut(&mut self, source: &mut Source<'_>, packet: u8, delivery: &mut Delivery) {
        let (mut taking, mut edited) = (0, EditId::NONE);
        for k in 0..delivery.rests.len() {
            if delivery.rests[k].left().first() != Some(&packet) || follows(&delivery.rests, k) {
                continue;
            }
            let rest = &mut delivery.rests[k];
            let offload = source.burst.offload(usize::from(packet));
            let edit = rest.first_edit();
            if self.takes(rest.port(), offload.needs()) || edit != EditId::NONE && taking > 0 {
                continue;
            }
            if !self.has_room(rest.port(), 0) {
                if !self.waits {
                    self.lose_first(rest, DropReason::QueueFull);
                }
                continue;
            }
            rest.cut = Some(Part { sent: 0, left: 0 });
            taking += 1;
            edited = edit;
            if edited != EditId::NONE {
                break;
            }
        }
        self.spent += work::OUTPUT;
        if taking == 0 {
            return;
        }
        let whole = if edited == EditId::NONE {
            Ok((&*source.burst, usize::from(packet)))
        } else {
            delivery.edit(source, packet, edited).map(|made| (made, 0))
        };
        let started = whole
            .and_then(|(burst, i)| SoftGso::start(burst, i).map_err(|BadOffload| DropReason::BadOffload));
        match started {
            Ok(segments) => {
                let cut = Cut { packet, edited: edited != EditId::NONE, segments };
                self.begin_segments(source.from, cut, delivery, taking);
            }
            Err(reason) => {
                for rest in delivery.rests.iter_mut().filter(|rest| rest.cut.is_some()) {
                    rest.cut = None;
                    self.lose_first(rest, reason);
                }
            }
        }
    }

    /// From here on the packet counts as its segments, at each output that takes part.
    fn begin_segments(&mut self, from: QueueKey, cut: Cut, delivery: &mut Delivery, taking: u64) {
        let packets = cut.segments.packets();
        for part in delivery.rests.iter_mut().filter_map(|rest| rest.cut.as_mut()) {
            part.left = packets;
        }
        self.counters.port(from.port).replicated.add(taking * (packets as u64 - 1));
        delivery.made.begin(0);
        delivery.cut = Some(cut);
    }

    /// Sends the segments that are made to every output that takes part, then makes more. Returns whether nothing is waited
    /// for.
    fn push_segments(&mut self, source: &mut Source<'_>, delivery: &mut Delivery) -> bool {
        let Delivery { rests, made, .. } = delivery;
        for rest in rests.iter_mut() {
            let Some(part) = rest.cut.filter(|part| part.sent < made.len()) else { continue };
            if self.spent >= SLICE {
                return true;
            }
            let is_done = self.send(made, source.from, rest.port(), &PLACES[part.sent..made.len()]);
            let waiting = if is_done { 0 } else { self.leftover.indices().as_slice().len() };
            let sent = made.len() - waiting;
            rest.cut = Some(Part { sent, left: part.left - (sent - part.sent) });
            if waiting > 0 {
                return false;
            }
        }
        self.make_segments(source, delivery)
    }

    /// Makes the next segments, or ends the packet. Returns whether nothing is waited for.
    fn make_segments(&mut self, source: &mut Source<'_>, delivery: &mut Delivery) -> bool {
        let mut taking = 0;
        // All segments but the last are equally long.
        let len = if delivery.made.is_empty() { 0 } else { delivery.made.frame_len(0) };
        for rest in &mut delivery.rests {
            let Some(part) = rest.cut.filter(|part| part.left > 0) else { continue };
            if self.has_room(rest.port(), len) {
                taking += 1;
            } else if self.waits {
                return false;
            } else {
                self.count_lost(rest.port(), DropReason::QueueFull, part.left as u64);
                rest.cut = Some(Part { left: 0, ..part });
            }
        }
        let made = match &mut delivery.cut {
            Some(cut) if taking > 0 => match delivery.edited.as_deref().filter(|_| cut.edited) {
                Some(edited) => cut.segments.fill(edited, 0, &mut delivery.made),
                None => cut.segments.fill(source.burst, usize::from(cut.packet), &mut delivery.made),
            },
            _ => false,
        };
        if !made {
            end_cut(delivery);
            return true;
        }
        let bytes: usize = (0..delivery.made.len()).map(|i| delivery.made.frame_len(i)).sum();
        self.spent += delivery.made.len() as u64 * work::SEGMENT + bytes as u64 / work::BYTES;
        for part in delivery.rests.iter_mut().filter_map(|rest| rest.cut.as_mut()) {
            // An output that takes no more has sent all that it ever gets.
            part.sent = if part.left > 0 { 0 } else { usize::MAX };
        }
        true
    }

    fn lose_first(&self, rest: &mut Rest, reason: DropReason) {
        rest.advance(1);
        self.count_lost(rest.port(), reason, 1);
    }

    fn count_lost(&self, to: PortId, reason: DropReason, packets: u64) {
        let mut stats = BurstStats::default();
        stats.drop(reason, packets);
        self.counters.port(to).count_drops(&stats);
    }

    /// Counts what is left for `port` as lost: the port is gone, and its number may soon be another's.
    pub(super) fn forget(&self, port: PortId, delivery: &mut Delivery) {
        for rest in delivery.rests.extract_if(.., |rest| rest.port() == port) {
            self.count_lost(port, DropReason::PortDown, rest.packets());
        }
    }

    /// Counts all that is left as lost with its source, port `from`.
    pub(super) fn abandon(&mut self, delivery: &mut Delivery, from: PortId) {
        for rest in delivery.rests.drain(..) {
            self.count_lost(self.payer(from, rest.port()), DropReason::SourceStopped, rest.packets());
        }
    }
}

/// Whether something that is left for the same output comes before rest number `k`.
fn follows(rests: &[Rest], k: usize) -> bool {
    rests[..k].iter().any(|rest| rest.port() == rests[k].port() && !rest.is_done())
}

/// The packet that was cut is done with at every output that took part.
fn end_cut(delivery: &mut Delivery) {
    delivery.cut = None;
    for rest in delivery.rests.iter_mut().filter(|rest| rest.cut.is_some()) {
        rest.cut = None;
        rest.advance(1);
    }
}

/// How many of `indices` `left` units suffice for if each costs `rough` units beside its own, and one at least.
fn affordable(burst: &Burst, indices: &[u8], (left, rough): (u64, u64)) -> usize {
    let mut cost = work::OUTPUT;
    let is_affordable = |pick: &&u8| {
        cost += burst.packet_cost(usize::from(**pick)) + rough;
        cost <= left
    };
    indices.iter().take_while(is_affordable).count().max(1)
}
