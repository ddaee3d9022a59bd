//! One call of the pipeline for the packets of one port: each is looked up, and its result executed.

use super::directory::{Member, Scope};
use super::exchange::Effects;
use super::execute::Executor;
use super::lookup::{BRIDGE_ITSELF, Lookup, Run, work_of, work_of_plain};
use super::program::Form;
use super::recirculation::{Carried, Recirculations};
use super::track::Tracking;
use crate::action::Action;
use crate::cache::{Continuation, MegaflowId};
use crate::modify::PortNo;
use crate::options::OptionValues;
use crate::packet::{Layout, Rewriter, parse};
use crate::tables::WARMED;
use crate::translate::{Operation, Resume, enter, set_state, translate_actions};
use crate::{Field, Key};
use conntrack::{Outcome, Tracker};
use port::{BURST, Burst, Context, DropReason, EditId, Notes, PortId, Verdicts};
use std::ops::Range;
use std::sync::Arc;

/// One call of the pipeline for the packets of one port.
pub(super) struct Pass<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) lookup: &'a mut Lookup,
    pub(super) burst: &'a mut Burst,
    pub(super) context: &'a Context,
    pub(super) member: Member,
    pub(super) verdicts: &'a mut Verdicts,
    pub(super) rewriter: &'a mut Rewriter,
    pub(super) recirculations: &'a mut Recirculations,
    pub(super) tracker: &'a Tracker,
    pub(super) left: &'a mut usize,
    pub(super) carried: &'a Carried,
    /// Options of the tunnel that the packets carry, as fields of this bridge.
    pub(super) options: OptionValues,
    /// Packets that were looked up by their keys.
    pub(super) keyed: u64,
    /// How the last packet has continued after connection tracking.
    pub(super) continuation: Option<Continuation>,
}

impl Pass<'_> {
    /// Maps the options of Geneve that the packets carry to fields, by the tables of this pass. Drops the packets and
    /// returns `false` if the options do not fit the map.
    pub(super) fn take_options(&mut self) -> bool {
        let Some(received) = self.carried.tunnel.as_ref().filter(|received| !received.options.is_empty())
        else {
            return true;
        };
        let Ok(options) = self.lookup.tables.options().read(&received.options) else {
            (0..self.burst.len()).for_each(|i| self.verdicts.drop(i, DropReason::TunnelInvalid));
            return false;
        };
        self.options = options;
        true
    }

    pub(super) fn received(&mut self) {
        match self.lookup.find_port(self.origin()) {
            Some(id) => self.whole(id),
            None => self.runs(),
        }
    }

    /// Port by which the head cache tells packets apart.
    fn origin(&self) -> PortId {
        if self.member.number == PortNo::LOCAL { BRIDGE_ITSELF } else { self.context.from }
    }

    /// Sends all packets to all ports.
    #[cold]
    pub(super) fn flood(&mut self) {
        let flood = [Operation::Flood { except: self.member.number }];
        (0..self.burst.len()).for_each(|i| self.run(i, &flood));
    }

    /// All packets have one megaflow.
    #[inline]
    fn whole(&mut self, id: MegaflowId) {
        let packets = 0..self.burst.len();
        let bytes = packets.clone().map(|i| self.burst.frame_len(i) as u64).sum();
        self.lookup.hits.head += packets.len() as u64;
        self.execute(id, packets, bytes, None);
    }

    /// Looks all packets up before the first is executed, so that the processor loads the entries of several packets,
    /// and then their megaflows, at the same time. Packets of one head that follow each other are looked up together,
    /// and those that follow each other to one port are emitted together.
    fn runs(&mut self) {
        let mut runs = std::mem::take(&mut self.lookup.runs);
        let n = self.lookup.split(self.burst, self.origin(), &mut runs);
        let has_ttl = self.lookup.compares_ttl;
        let continues = self.lookup.find_runs(&mut runs[..n]);
        let mut keys = std::mem::take(&mut self.lookup.keys);
        if self.lookup.is_full() {
            self.warm(&mut runs[..n], &mut keys);
        }
        if continues {
            self.lookup.warm_continuations(&runs[..n], self.tracker);
        }
        if let Some(zone) = self.lookup.searched.take() {
            self.lookup.warm_searches(&runs[..n], self.burst, (self.tracker, zone));
        }
        let (mut to, mut packets) = (PortId(0), 0..0);
        for run in &runs[..n] {
            let port = self.lookup.forward(run, self.context.now);
            if port == Some(to) {
                packets.end = run.packets.end;
                continue;
            }
            self.verdicts.emit_run(packets, to, EditId::NONE);
            packets = run.packets.end..run.packets.end;
            match port {
                Some(port) => (to, packets.start) = (port, run.packets.start),
                None => self.other(run, has_ttl, &keys),
            }
        }
        self.verdicts.emit_run(packets, to, EditId::NONE);
        (self.lookup.runs, self.lookup.keys) = (runs, keys);
        self.lookup.hits.head += self.burst.len() as u64 - self.keyed;
    }

    /// Loads what the searches of all packets that miss the head cache read into the cache, and keeps their keys.
    #[inline(never)]
    fn warm(&mut self, runs: &mut [Run], keys: &mut Box<[Key]>) {
        if keys.is_empty() {
            *keys = vec![Key::ZERO; BURST].into();
        }
        let mut n = 0;
        for run in runs.iter_mut().filter(|run| run.id == MegaflowId::default()) {
            run.searched = Some(n);
            (keys[n], _) = self.key(run.packets.start, 0);
            n += 1;
        }
        keys[..n].chunks(WARMED).for_each(|keys| self.lookup.warm(keys));
    }

    /// A run with another result than one output, or without one.
    #[inline(never)]
    fn other(&mut self, run: &Run, has_ttl: bool, keys: &[Key]) {
        self.continuation = None;
        if !self.continued(run) && !self.execute(run.id, run.packets.clone(), run.bytes, None) {
            let key = run.searched.and_then(|at| keys.get(at));
            self.missed(run, has_ttl, key);
        }
        if let Some(continuation) = &self.continuation {
            self.lookup.remember_continuation(run, continuation);
        }
    }

    /// Finds the packets of a run by their keys: the first one for all, if its head decides the result. `key`: that of
    /// the first packet, if it is known.
    fn missed(&mut self, run: &Run, has_ttl: bool, mut key: Option<&Key>) {
        let mut packets = run.packets.clone();
        while let Some(i) = packets.next() {
            self.keyed += 1;
            let key = key.take().map_or_else(|| self.key(i, 0).0, |key| *key);
            let Some(id) = self.find(i, &key) else { continue };
            self.lookup.remember_port(self.origin(), id);
            let end =
                if self.lookup.remember(run, has_ttl, id) { std::mem::take(&mut packets).end } else { i + 1 };
            let bytes = (i..end).map(|i| self.burst.frame_len(i) as u64).sum();
            if !self.execute(id, i..end, bytes, Some(&key)) {
                (i..end).for_each(|i| self.verdicts.drop(i, DropReason::NoFlow));
            }
        }
    }

    /// The megaflow of a received packet. Returns `None` if the packet was forwarded without one.
    fn find(&mut self, i: usize, key: &Key) -> Option<MegaflowId> {
        let (now, tables_first) = (self.context.now, self.lookup.misses_megaflows());
        if tables_first && self.forward_plainly(i, key) {
            return None;
        }
        if let Some(id) = self.lookup.find_megaflow(key, now) {
            self.lookup.hits.megaflow += 1;
            self.verdicts.charge(work_of(false));
            return Some(id);
        }
        if !tables_first && self.forward_plainly(i, key) {
            return None;
        }
        self.lookup.hits.tables += 1;
        self.verdicts.charge(work_of(true));
        Some(self.lookup.translate((key, self.member.number), None, &self.scope, now))
    }

    /// Forwards a received packet that the tables only forward, if it gets no megaflow.
    fn forward_plainly(&mut self, i: usize, key: &Key) -> bool {
        let of = (self.burst.frame_len(i) as u64, self.context.now);
        let Some(port) = self.lookup.forward_plainly(key, &self.scope, of) else { return false };
        self.lookup.hits.tables += 1;
        self.verdicts.charge(work_of_plain(&self.lookup.tables));
        self.verdicts.emit(i, port, EditId::NONE);
        true
    }

    /// The key of packet `i`, at the place `id` of the pipeline, and where its headers are.
    pub(super) fn key(&self, i: usize, id: u32) -> (Key, Layout) {
        let mut key = Key::ZERO;
        enter(&mut key, self.member.number);
        key.set(Field::InPhyPort, self.member.number.0.into());
        key.set(Field::RecircId, id.into());
        key.set(Field::TunnelId, self.burst.notes(i).tunnel.into());
        if let Some(states) = &self.carried.states {
            set_state(&mut key, &states.visible);
        }
        if let Some(tunnel) = &self.carried.tunnel {
            tunnel.info.set(&mut key);
            self.options.set(&mut key);
        }
        let layout = parse(self.burst.head(i), self.burst.frame_len(i), &mut key);
        (key, layout)
    }

    #[inline(never)]
    fn by_key(&mut self, i: usize, (id, rest): (u32, &Resume)) -> MegaflowId {
        let (key, _) = self.key(i, id);
        let of = (&self.scope, self.context.now);
        let (found, is_translated) = self.lookup.find_key((&key, self.member.number), Some(rest), of);
        self.verdicts.charge(work_of(is_translated));
        found
    }

    /// Continues with packets of an earlier pass.
    pub(super) fn resumed(&mut self, rest: &Arc<Resume>) {
        let id = self.lookup.resume_id(rest);
        for i in 0..self.burst.len() {
            let found = self.by_key(i, (id, rest));
            let bytes = self.burst.frame_len(i) as u64;
            if !self.execute(found, i..i + 1, bytes, None) {
                self.verdicts.drop(i, DropReason::NoFlow);
            }
        }
    }

    pub(super) fn packet_out(&mut self, i: usize, actions: &[Action]) {
        let (key, _) = self.key(i, 0);
        let Self { scope, lookup, context, member, .. } = self;
        let translation = translate_actions(&lookup.tables, &key, member.number, actions, scope);
        let bytes = self.burst.frame_len(i) as u64;
        translation.flows.iter().for_each(|flow| flow.count(1, bytes, context.now));
        translation.counters.iter().for_each(|counter| counter.add(1, bytes));
        let effects = Effects::new(translation.learned, translation.reduced);
        // Without room, a controller may send again.
        lookup.learner.apply(&lookup.tables, &effects, context.now);
        self.verdicts.charge(work_of(true));
        self.run(i, &translation.operations);
    }

    /// Executes the program of a megaflow for some packets. Returns `false` if its result is not current any more.
    /// `key`: that of the first packet, if it is known.
    fn execute(&mut self, id: MegaflowId, packets: Range<usize>, bytes: u64, key: Option<&Key>) -> bool {
        self.continuation = None;
        let Some(megaflow) = self.lookup.current(id) else { return false };
        megaflow.count(packets.len() as u32, bytes, self.context.now);
        if let Form::Operations(operations) = &megaflow.value.form {
            let operations = operations.clone();
            match operations.as_slice() {
                [Operation::Encapsulate(way)] => self.encapsulate(packets, way, &operations),
                [Operation::Decapsulate { kind, port }] => {
                    self.decapsulate(packets, (*kind, *port), &operations);
                }
                [Operation::Clone(_)] => self.track(packets, &operations, key),
                _ => packets.for_each(|i| self.run(i, &operations)),
            }
        } else {
            decide(&megaflow.value.form, packets, self.verdicts);
        }
        true
    }

    pub(super) fn run(&mut self, i: usize, operations: &[Operation]) {
        self.run_known(i, operations, None);
    }

    /// Executes operations. `known`: the result of their first connection tracking, if it has taken place.
    #[inline(never)]
    pub(super) fn run_known(&mut self, i: usize, operations: &[Operation], known: Option<Outcome>) {
        let (key, layout) = self.key(i, 0);
        let Self {
            scope,
            lookup,
            burst,
            context,
            verdicts,
            rewriter,
            recirculations,
            tracker,
            left,
            carried,
            member,
            continuation,
            ..
        } = self;
        // A packet-out, or a packet of the bridge itself, may come from no port.
        let may_have_port = !context.injected && member.number <= PortNo::MAX;
        let has_port = may_have_port || scope.view.ports.contains_key(&member.number);
        let tracking = Tracking::new(tracker, left, carried.states.unwrap_or_default(), known);
        let of = (*scope, *member, &mut **lookup);
        let mut executor =
            Executor::new(of, (burst, i), context, verdicts, rewriter, (recirculations, carried), tracking);
        executor.has_port = has_port;
        executor.run((&key, &layout), operations);
        *continuation = executor.tracking.continuation;
        if let Some(class) = executor.packet_class {
            burst.set_notes(i, Notes { class, ..burst.notes(i) });
        }
    }
}

/// Passes the verdict of a form for some packets. Returns `false` for operations, which are executed one packet at a
/// time.
#[inline(always)]
pub(super) fn decide(form: &Form, packets: Range<usize>, verdicts: &mut Verdicts) -> bool {
    match form {
        Form::Forward(port) => verdicts.emit_run(packets, *port, EditId::NONE),
        Form::Drop => packets.for_each(|i| verdicts.drop(i, DropReason::FlowDrop)),
        Form::NoFlow => packets.for_each(|i| verdicts.drop(i, DropReason::NoFlow)),
        Form::Operations(_) => return false,
    }
    true
}
