//! Continues a carried burst: many packets a few at a time, full queues that are waited for, and packets that are
//! segmented in software because an output does not support the offload.
//!
//! A packet is segmented once for all outputs that need it in the same form. Segments are created 64 at a time, and
//! each set is sent to all of these outputs before the next one is created. An output without room does not take
//! part; one that becomes full loses the rest of the packet. Packet order is kept for each output. Every step checks
//! the budget first, which is smaller than that of a full turn ([`work::SLICE`]), so a turn exceeds it by at most one
//! step.

use super::carried::{Carried, Delivery, OutputProgress, Segmentation, Unsent};
use super::transmit::Transmit;
use crate::command::QueueKey;
use crate::trace::BurstKey;
use port::pcap::CaptureDirection;
use port::soft_offload::SoftGso;
use port::work::{self, SLICE};
use port::{
    BadOffload, Burst, BurstStats, Capabilities, DropReason, EditId, Edits, Flooded, Now, PLACES, PortId,
};

/// Maximum time to wait for full queues if configured, in nanoseconds: in total for the burst.
const MAX_WAIT: u64 = 1_000_000;

/// Time for which an output is not waited for after a wait timed out behind a handoff queue, in nanoseconds.
const WAIT_INTERVAL: u64 = 32 * MAX_WAIT;

/// The burst of a step.
struct Source<'a> {
    burst: &'a mut Burst,
    from: QueueKey,
    edits: &'a Edits,
    flooded: &'a Flooded,
}

impl Delivery {
    /// Time spent waiting for full queues, in nanoseconds; packets behind this burst in the same handoff queue waited
    /// too.
    pub(super) fn waited(&self, now: Now) -> u64 {
        self.deadline.map_or(0, |deadline| (now.0 + MAX_WAIT).saturating_sub(deadline.0))
    }

    /// Creates the edited form of one packet, to be segmented.
    fn edit(&mut self, source: &Source<'_>, packet: u8, edit: EditId) -> Result<&Burst, DropReason> {
        let derived = self.edited.get_or_insert_default();
        derived.begin_from(source.burst);
        derived.push_edited(source.burst, usize::from(packet), source.edits, edit)?;
        Ok(derived)
    }
}

impl Transmit {
    /// Sends `burst` as `delivery` specifies, within the budget of a slice. Returns whether nothing is left.
    pub(super) fn deliver(
        &mut self,
        (burst, from): (&mut Burst, QueueKey),
        delivery: &mut Delivery,
        now: Now,
    ) -> bool {
        let needs = delivery.edits.needs(burst.needs());
        self.alone = delivery.alone;
        self.waits = self.may_wait && self.is_worth_waiting(delivery, now);
        let (edits, flooded) = (std::mem::take(&mut delivery.edits), delivery.flooded.clone());
        let mut source = Source { burst, from, edits: &edits, flooded: &flooded };
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
            delivery.deadline = Some(Now(now.0 + MAX_WAIT));
        }
        delivery.rests.is_empty()
    }

    /// Whether the burst still waits for full queues. Behind a handoff queue, packets of all ports wait with it, so
    /// an output for which a wait timed out is not waited for again for some time.
    fn is_worth_waiting(&mut self, delivery: &Delivery, now: Now) -> bool {
        let is_over = delivery.deadline.is_some_and(|deadline| now >= deadline);
        if is_over && self.is_staged() {
            for rest in &delivery.rests {
                self.tx[usize::from(rest.port().0)].no_wait_before = Now(now.0 + WAIT_INTERVAL);
            }
        }
        let is_worth = |rest: &Unsent| now >= self.tx[usize::from(rest.port().0)].no_wait_before;
        !is_over && delivery.rests.iter().all(is_worth)
    }

    /// Sends the next `most` indices unchanged. Returns `false` if some of them wait for room. If the budget ends,
    /// indices are left although `true` is returned.
    fn send_run(&mut self, source: &mut Source<'_>, rest: &mut Unsent, most: usize) -> bool {
        let mut most = most.min(rest.left().len());
        while most > 0 && self.spent < SLICE {
            let slots = &self.tx[usize::from(rest.port().0)];
            let mut rough = slots.rough;
            if slots.queues.is_empty() {
                rough += self.cost_behind(source.burst, &rest.left()[..most]) / most as u64;
                rough += self.price_behind(rest.port());
            }
            let n = affordable(source.burst, &rest.left()[..most], (SLICE - self.spent, rough));
            let Source { burst, from, edits, flooded } = source;
            let is_sent = self.send_emissions(burst, *from, rest.next(n), edits, flooded);
            rest.advance(n);
            most -= n;
            if !is_sent {
                rest.put_back(&self.leftover);
                return false;
            }
        }
        true
    }

    /// Sends the rest to outputs that do not accept every packet unchanged. Returns `false` if some output is waited
    /// for.
    fn segment(&mut self, source: &mut Source<'_>, delivery: &mut Delivery, needs: Capabilities) -> bool {
        while self.spent < SLICE {
            if delivery.cut.is_some() {
                if !self.push_segments(source, delivery) {
                    return false;
                }
                continue;
            }
            let Some(packet) = self.next_cut(source, &mut delivery.rests, needs) else {
                let is_over = |rest: &Unsent| rest.is_done() || self.takes(rest.port(), needs);
                return !self.waits || self.spent >= SLICE || delivery.rests.iter().all(is_over);
            };
            self.start_cut(source, packet, delivery);
        }
        true
    }

    /// Sends the packets before the next one that an output needs segmented, and returns that packet. Returns `None`
    /// if there is none, or none that can be continued in this turn.
    fn next_cut(&mut self, source: &mut Source<'_>, rests: &mut [Unsent], needs: Capabilities) -> Option<u8> {
        let mut next = None;
        for k in 0..rests.len() {
            if self.takes(rests[k].port(), needs) || follows(rests, k) {
                continue;
            }
            let rest = &mut rests[k];
            let covered = |(place, index): &(usize, &u8)| {
                let edit = rest.edit(*place);
                let offload = source.burst.offload_after(usize::from(**index), source.edits, edit);
                self.takes(rest.port(), source.edits.needs_after(edit, offload))
            };
            let run = rest.left().iter().enumerate().take_while(covered).count();
            let cut = rest.left().get(run).copied();
            let went = self.send_run(source, rest, run);
            let is_next = went && cut.is_some() && rest.left().first() == cut.as_ref();
            if is_next && (!self.waits || self.has_room(rest.port(), 0)) {
                next = next.map_or(cut, |next: u8| cut.map(|cut| cut.min(next)));
            }
        }
        next
    }

    /// Includes every output whose next packet is `packet`, to be segmented. An output without room loses the packet.
    /// Outputs that need it in different forms are handled one after the other.
    fn start_cut(&mut self, source: &mut Source<'_>, packet: u8, delivery: &mut Delivery) {
        let (taking, edited) = self.include_outputs(source, packet, delivery);
        self.spent += work::OUTPUT;
        if taking == 0 {
            return;
        }
        let whole = if edited == EditId::NONE {
            Ok((&*source.burst, usize::from(packet)))
        } else {
            delivery.edit(source, packet, edited).map(|derived| (derived, 0))
        };
        let started = whole
            .and_then(|(burst, i)| SoftGso::start(burst, i).map_err(|BadOffload| DropReason::BadOffload));
        match started {
            Ok(segments) => {
                let cut = Segmentation { packet, edited: edited != EditId::NONE, segments };
                self.begin_segments(source.from, cut, delivery, taking);
            }
            Err(reason) => {
                for rest in delivery.rests.iter_mut().filter(|rest| rest.cut.is_some()) {
                    rest.cut = None;
                    self.lose_first(source.burst, rest, reason);
                }
            }
        }
    }

    /// Marks the outputs that take part in the segmentation of `packet`. Returns their number and their edit.
    #[inline]
    fn include_outputs(&mut self, source: &Source<'_>, packet: u8, delivery: &mut Delivery) -> (u64, EditId) {
        let (mut taking, mut edited) = (0, EditId::NONE);
        for k in 0..delivery.rests.len() {
            if delivery.rests[k].left().first() != Some(&packet) || follows(&delivery.rests, k) {
                continue;
            }
            let rest = &mut delivery.rests[k];
            let edit = rest.edit(0);
            let offload = source.burst.offload_after(usize::from(packet), source.edits, edit);
            let needs = source.edits.needs_after(edit, offload);
            if self.takes(rest.port(), needs) || edit != EditId::NONE && taking > 0 {
                continue;
            }
            if !self.has_room(rest.port(), 0) {
                if !self.waits {
                    self.lose_first(source.burst, rest, DropReason::QueueFull);
                }
                continue;
            }
            rest.cut = Some(OutputProgress { sent: 0, left: 0 });
            taking += 1;
            edited = edit;
            if edited != EditId::NONE {
                break;
            }
        }
        (taking, edited)
    }

    /// From here on, the packet counts as its segments at each output that takes part.
    fn begin_segments(&mut self, from: QueueKey, cut: Segmentation, delivery: &mut Delivery, taking: u64) {
        let packets = cut.segments.packets();
        for rest in &mut delivery.rests {
            let port = rest.port();
            if let Some(part) = &mut rest.cut {
                part.left = packets;
                self.counters.port(port).completed.add(packets as u64);
            }
        }
        self.counters.port(from.port).replicated.add(taking * (packets as u64 - 1));
        delivery.derived.begin(0);
        delivery.cut = Some(cut);
    }

    /// Sends the segments to every output that takes part, then creates more. Returns `false` if some output is
    /// waited for.
    fn push_segments(&mut self, source: &mut Source<'_>, delivery: &mut Delivery) -> bool {
        let Delivery { rests, derived, cut, .. } = delivery;
        let flooded = source.flooded.of_one(cut.as_ref().map_or(0, |cut| cut.packet));
        for rest in rests.iter_mut() {
            let Some(part) = rest.cut.filter(|part| part.sent < derived.len()) else { continue };
            if self.spent >= SLICE {
                return true;
            }
            let indices = &PLACES[part.sent..derived.len()];
            if self.watch.is_on {
                self.set_origins(std::iter::repeat(cut.as_ref().map_or(0, |cut| cut.packet)));
            }
            let is_done = self.send(derived, source.from, rest.port(), indices, &flooded);
            self.clear_origins();
            let waiting = if is_done { 0 } else { self.leftover.indices().as_slice().len() };
            let sent = derived.len() - waiting;
            rest.cut = Some(OutputProgress { sent, left: part.left - (sent - part.sent) });
            if waiting > 0 {
                return false;
            }
        }
        self.make_segments(source, delivery)
    }

    /// Creates the next segments, or finishes the packet. Returns `false` if some output is waited for.
    fn make_segments(&mut self, source: &mut Source<'_>, delivery: &mut Delivery) -> bool {
        let mut taking = 0;
        // All segments except the last have the same length.
        let len = if delivery.derived.is_empty() { 0 } else { delivery.derived.frame_len(0) };
        for rest in &mut delivery.rests {
            let Some(part) = rest.cut.filter(|part| part.left > 0) else { continue };
            if self.has_room(rest.port(), len) {
                taking += 1;
            } else if self.waits {
                return false;
            } else {
                let packet = delivery.cut.iter().map(|cut| cut.packet);
                self.count_lost(rest.port(), DropReason::QueueFull, part.left as u64);
                self.capture_unsent(source.burst, packet, rest.port(), DropReason::QueueFull);
                rest.cut = Some(OutputProgress { left: 0, ..part });
            }
        }
        let is_filled = match &mut delivery.cut {
            Some(cut) if taking > 0 => match delivery.edited.as_deref().filter(|_| cut.edited) {
                Some(edited) => cut.segments.fill(edited, 0, &mut delivery.derived),
                None => cut.segments.fill(source.burst, usize::from(cut.packet), &mut delivery.derived),
            },
            _ => false,
        };
        if !is_filled {
            end_cut(delivery);
            return true;
        }
        let bytes: usize = (0..delivery.derived.len()).map(|i| delivery.derived.frame_len(i)).sum();
        self.spent += delivery.derived.len() as u64 * work::SEGMENT + bytes as u64 / work::BYTES;
        for part in delivery.rests.iter_mut().filter_map(|rest| rest.cut.as_mut()) {
            // An output with nothing left to receive counts as complete.
            part.sent = if part.left > 0 { 0 } else { usize::MAX };
        }
        true
    }

    fn lose_first(&mut self, burst: &Burst, rest: &mut Unsent, reason: DropReason) {
        self.count_lost(rest.port(), reason, 1);
        self.capture_unsent(burst, rest.left().first().copied().into_iter(), rest.port(), reason);
        rest.advance(1);
    }

    fn count_lost(&self, to: PortId, reason: DropReason, packets: u64) {
        let mut stats = BurstStats::default();
        stats.drop(reason, packets);
        self.counters.port(to).count_drops(&stats);
    }

    /// Captures packets that are lost before a queue takes them. A packet of which only segments are lost is captured
    /// whole.
    fn capture_unsent(
        &mut self,
        burst: &Burst,
        indices: impl Iterator<Item = u8>,
        to: PortId,
        reason: DropReason,
    ) {
        if self.watch.is_on {
            self.capture_lost(burst, indices, (to, CaptureDirection::Out), reason);
        }
    }

    /// Counts the rest for `port` as lost: the port is gone, and its number may be reused.
    pub(super) fn forget(&mut self, port: PortId, carried: &mut Carried) {
        let (mut stats, Carried { burst, delivery, .. }) = (BurstStats::default(), carried);
        let Delivery { rests, flooded, .. } = delivery;
        self.resume_sample(None, BurstKey::of(burst));
        for rest in rests.extract_if(.., |rest| rest.port() == port) {
            flooded.drop_at_down_port(rest.packets_by_index(), &mut stats);
            let to_one = rest.left().iter().copied().filter(|&i| !flooded.contains(i));
            self.capture_unsent(burst, to_one, port, DropReason::PortDown);
        }
        self.pause_sample(None);
        self.counters.port(port).count_drops(&stats);
    }

    /// Counts the rest of the burst as lost, on account of its source port where the output is not known.
    pub(super) fn abandon(&mut self, carried: &mut Carried) {
        let (reason, Carried { burst, from, delivery, .. }) = (DropReason::SourceStopped, carried);
        self.resume_sample(None, BurstKey::of(burst));
        for rest in delivery.rests.drain(..) {
            let port = self.loss_port(from.port, rest.port());
            self.count_lost(port, reason, rest.packets());
            if self.watch.is_on {
                let is_out = port == rest.port();
                let direction = if is_out { CaptureDirection::Out } else { CaptureDirection::In };
                self.capture_lost(burst, rest.left().iter().copied(), (port, direction), reason);
            }
        }
        self.pause_sample(None);
    }
}

/// Whether an earlier entry for the same output comes before entry `k`.
fn follows(rests: &[Unsent], k: usize) -> bool {
    rests[..k].iter().any(|rest| rest.port() == rests[k].port() && !rest.is_done())
}

/// Finishes the segmented packet at every output that took part.
fn end_cut(delivery: &mut Delivery) {
    delivery.cut = None;
    for rest in delivery.rests.iter_mut().filter(|rest| rest.cut.is_some()) {
        rest.cut = None;
        rest.advance(1);
    }
}

/// How many of `indices` the budget of `left` units allows if each costs `rough` units beyond its own cost; at least
/// one.
fn affordable(burst: &Burst, indices: &[u8], (left, rough): (u64, u64)) -> usize {
    let mut cost = work::OUTPUT;
    let is_affordable = |index: &&u8| {
        cost += burst.packet_cost(usize::from(**index)) + rough;
        cost <= left
    };
    indices.iter().take_while(is_affordable).count().max(1)
}
