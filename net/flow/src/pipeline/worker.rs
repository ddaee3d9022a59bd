//! The pipeline of one worker.

use super::directory::{Bridge, Directory, Member, View};
use super::exchange::{Exchange, Learner};
use super::execute::{Again, Executor};
use super::lookup::{Head, Lookup};
use super::packet_out::{PacketOut, is_packet_out};
use super::program::Form;
use super::track::{MAX_RESUMED, Tracking, set_state};
use crate::action::Action;
use crate::cache::MegaflowId;
use crate::packet::{Layout, Rewriter, parse};
use crate::translate::{Resume, translate_actions};
use crate::{Field, Key};
use conntrack::{State, Tracker};
use port::{Burst, Context, DropReason, EditId, Now, Pipeline, Published, Verdicts, work};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stage of packets for the port `NORMAL`.
pub(super) const NORMAL: u32 = u32::MAX;
/// Nanoseconds of a millisecond, the shortest time between two sweeps.
const MILLI: u64 = 1_000_000;
/// Time between two sweeps of a worker that sleeps, in nanoseconds.
const SWEEP: u64 = 100 * MILLI;
/// Time between two rankings of masks, in nanoseconds.
const RANKING: u64 = 1000 * MILLI;
/// Places of the connection table that a sweep visits for each millisecond since the last one.
const VISITS: usize = 8;
/// Milliseconds for which one sweep makes up.
const MAX_MILLIS: u64 = 128;
/// Work units of a translation, beyond those of a packet.
pub(super) const TRANSLATION: u64 = 2000;

/// The pipeline of one worker over all bridges.
pub(super) struct Worker {
    published: Arc<Published<Directory>>,
    exchange: Arc<Exchange>,
    generation: u64,
    directory: Arc<Directory>,
    lookups: Vec<Option<Box<Lookup>>>,
    normal: Box<dyn Pipeline>,
    rewriter: Box<Rewriter>,
    /// Of recirculated packets of this burst, by stage.
    again: Vec<Again>,
    /// Bridge and ingress port of this burst, if it is a packet-out.
    origin: Option<Member>,
    tracker: Arc<Tracker>,
    /// Packets of this burst that may continue after connection tracking.
    left: usize,
    swept: Now,
    ranked: Now,
}

impl Worker {
    pub(super) fn new(
        (published, exchange, tracker): (Arc<Published<Directory>>, Arc<Exchange>, Arc<Tracker>),
        normal: Box<dyn Pipeline>,
    ) -> Self {
        let (generation, directory) = published.latest();
        let mut worker = Self {
            published,
            exchange,
            generation: u64::MAX,
            directory: Arc::default(),
            lookups: Vec::new(),
            normal,
            rewriter: Box::default(),
            again: Vec::new(),
            origin: None,
            tracker,
            left: 0,
            swept: Now(0),
            ranked: Now(0),
        };
        worker.adopt(generation, directory);
        worker
    }

    /// Takes newer ports, if any. Earlier results are wrong then, because they contain numbers of ports.
    #[inline]
    fn follow(&mut self) {
        if let Some((generation, directory)) = self.published.newer(self.generation) {
            self.adopt(generation, directory);
        }
    }

    #[cold]
    fn adopt(&mut self, generation: u64, directory: Arc<Directory>) {
        let before = std::mem::replace(&mut self.directory, directory);
        self.generation = generation;
        self.lookups.resize_with(self.directory.bridges.len(), || None);
        for (i, lookup) in self.lookups.iter_mut().enumerate() {
            let bridge = |directory: &Directory| Some(directory.view(i as u16)?.bridge.clone());
            match (lookup, bridge(&before), bridge(&self.directory)) {
                (Some(lookup), Some(old), Some(new)) if Arc::ptr_eq(&old, &new) => lookup.ports = generation,
                (lookup, _, Some(new)) => {
                    let learner = Learner::new(self.exchange.clone(), new.clone());
                    *lookup = Some(Box::new(Lookup::new(new.tables.latest(), generation, learner)));
                }
                (lookup, _, None) => *lookup = None,
            }
        }
    }

    /// A call for the packets of `burst`, which came from `member`, with the newest tables; `None` if its bridge was
    /// removed.
    #[inline]
    fn pass<'a>(
        &'a mut self,
        burst: &'a mut Burst,
        context: &'a Context,
        member: Member,
        verdicts: &'a mut Verdicts,
    ) -> Option<Pass<'a>> {
        let Self { directory, lookups, rewriter, again, tracker, left, .. } = self;
        let view = directory.view(member.bridge)?;
        let lookup = lookups[usize::from(member.bridge)].as_deref_mut()?;
        take_tables(lookup, &view.bridge);
        let (state, keyed) = (State::default(), 0);
        Some(Pass {
            view,
            lookup,
            burst,
            context,
            member,
            verdicts,
            rewriter,
            again,
            tracker,
            left,
            state,
            keyed,
        })
    }

    fn received(&mut self, burst: &mut Burst, context: &Context, member: Member, verdicts: &mut Verdicts) {
        let Some(mut pass) = self.pass(burst, context, member, verdicts) else { return };
        match stage(pass.again, context.stage) {
            Stage::Received => pass.received(),
            Stage::Resume(rest, state) => {
                pass.state = state;
                pass.resumed(&rest);
            }
            Stage::Punt(again) => pass.punted(&again),
        }
    }

    /// Executes the actions of a packet-out on its frame.
    #[cold]
    fn packet_out(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.follow();
        self.again.clear();
        self.left = MAX_RESUMED;
        let packet_out = self.exchange.packet_outs.take(context.stage);
        let is_done = packet_out.is_some_and(|of| self.execute_packet_out(&of, burst, context, verdicts));
        if !is_done {
            // The bridge was removed since.
            (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::NoDestination));
        }
    }

    /// Returns `false` if the bridge of a packet-out was removed.
    fn execute_packet_out(
        &mut self,
        packet_out: &PacketOut,
        burst: &mut Burst,
        context: &Context,
        verdicts: &mut Verdicts,
    ) -> bool {
        let member = packet_out.origin;
        let pass = self.pass(burst, context, member, verdicts);
        let Some(mut pass) = pass.filter(|pass| Arc::ptr_eq(&pass.view.bridge, &packet_out.bridge)) else {
            return false;
        };
        if packet_out.tables.version() > pass.lookup.tables.version() {
            // The newest tables could not be taken without waiting.
            pass.lookup.tables = packet_out.tables.clone();
        }
        (0..pass.burst.len()).for_each(|i| pass.packet_out(i, &packet_out.actions));
        self.origin = Some(member);
        true
    }

    fn sweep(&mut self, now: Now) {
        let millis = now.0.saturating_sub(self.swept.0) / MILLI;
        if !self.tracker.is_empty() {
            self.tracker.sweep(now.0, VISITS * millis.clamp(1, MAX_MILLIS) as usize);
        }
        let ranks = now.0.saturating_sub(self.ranked.0) >= RANKING;
        self.swept = now;
        self.ranked = if ranks { now } else { self.ranked };
        for (view, lookup) in self.directory.bridges.iter().zip(&mut self.lookups) {
            let (Some(view), Some(lookup)) = (view, lookup) else { continue };
            lookup.sweep(now, millis as usize);
            count(&view.bridge, lookup);
            if ranks {
                lookup.rank();
            }
        }
    }
}

/// How packets reached the pipeline.
enum Stage {
    Received,
    Resume(Arc<Resume>, State),
    Punt(Again),
}

fn stage(again: &mut Vec<Again>, stage: u32) -> Stage {
    match stage.checked_sub(1).and_then(|at| again.get(at as usize)) {
        None => {
            again.clear();
            Stage::Received
        }
        Some(Again::Resume(rest, state)) => Stage::Resume(rest.clone(), *state),
        Some(punt) => Stage::Punt(punt.clone()),
    }
}

#[inline]
fn take_tables(lookup: &mut Lookup, bridge: &Bridge) {
    if let Some((generation, tables)) = bridge.tables.newer(lookup.generation) {
        (lookup.generation, lookup.tables) = (generation, tables);
    }
}

#[inline]
fn count(bridge: &Bridge, lookup: &mut Lookup) {
    let (hits, effort) = (std::mem::take(&mut lookup.hits), lookup.take_effort());
    for (counter, n) in [
        (&bridge.counts.head, hits.head),
        (&bridge.counts.megaflow, hits.megaflow),
        (&bridge.counts.tables, hits.tables),
        (&bridge.counts.probes, effort.probes),
        (&bridge.counts.evicted_masks, effort.evicted_masks),
    ] {
        if n > 0 {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// One call of the pipeline for the packets of one port.
struct Pass<'a> {
    view: &'a View,
    lookup: &'a mut Lookup,
    burst: &'a mut Burst,
    context: &'a Context,
    member: Member,
    verdicts: &'a mut Verdicts,
    rewriter: &'a mut Rewriter,
    again: &'a mut Vec<Again>,
    tracker: &'a Tracker,
    left: &'a mut usize,
    /// Connection state of the packets.
    state: State,
    /// Packets that were looked up by their keys.
    keyed: u64,
}

/// Packets that follow each other and have one megaflow.
struct Run {
    id: MegaflowId,
    packets: Range<usize>,
    bytes: u64,
}

impl Pass<'_> {
    fn received(&mut self) {
        *self.left = MAX_RESUMED;
        match self.lookup.find_port(self.context.from) {
            Some(id) => self.whole(id),
            None => self.runs(),
        }
    }

    /// All packets have one megaflow.
    #[inline]
    fn whole(&mut self, id: MegaflowId) {
        let packets = 0..self.burst.len();
        let bytes = packets.clone().map(|i| self.burst.frame_len(i) as u64).sum();
        self.lookup.hits.head += packets.len() as u64;
        self.execute(&Run { id, packets, bytes });
    }

    /// Packets of one head that follow each other are looked up and forwarded together.
    fn runs(&mut self) {
        let mut i = 0;
        while i < self.burst.len() {
            let head = self.lookup.head(self.burst.head(i), self.burst.frame_len(i));
            let (head, id) = self.find(i, head);
            let (packets, bytes) = match &head {
                Some(head) => self.lookup.run(self.burst, i, head),
                None => (i..i + 1, self.burst.frame_len(i) as u64),
            };
            i = packets.end;
            self.execute(&Run { id, packets, bytes });
        }
        self.lookup.hits.head += self.burst.len() as u64 - self.keyed;
    }

    /// The megaflow of packet `i`, and its head if that alone decides the megaflow.
    #[inline(never)]
    fn find(&mut self, i: usize, head: Option<Head>) -> (Option<Head>, MegaflowId) {
        let port = self.context.from;
        let found = head.as_ref().and_then(|head| self.lookup.find_head(head, port));
        if let Some(id) = found.filter(|id| self.lookup.current(*id).is_some()) {
            return (head, id);
        }
        self.keyed += 1;
        let id = self.by_key(i, (0, None));
        self.lookup.remember_port(port, id);
        (head.filter(|head| self.lookup.remember(head, port, id)), id)
    }

    /// The key of packet `i`, at the place `id` of the pipeline, and where its headers are.
    fn key(&self, i: usize, id: u32) -> (Key, Layout) {
        let mut key = Key::ZERO;
        key.set(Field::InPort, self.member.number.0.into());
        key.set(Field::InPhyPort, self.member.number.0.into());
        key.set(Field::RecircId, id.into());
        key.set(Field::TunnelId, self.burst.notes(i).tunnel.into());
        if self.state.bits != 0 {
            set_state(&mut key, &self.state);
        }
        let layout = parse(self.burst.head(i), self.burst.frame_len(i), &mut key);
        (key, layout)
    }

    #[inline(never)]
    fn by_key(&mut self, i: usize, (id, rest): (u32, Option<&Resume>)) -> MegaflowId {
        let (key, _) = self.key(i, id);
        let before = self.lookup.hits.tables;
        let found = self.lookup.find_key((&key, self.member.number), rest, (self.view, self.context.now));
        self.verdicts.charge((self.lookup.hits.tables - before) * TRANSLATION + work::EDIT);
        found
    }

    /// Continues with packets of an earlier pass.
    fn resumed(&mut self, rest: &Arc<Resume>) {
        let id = self.lookup.resume_id(rest);
        for i in 0..self.burst.len() {
            let found = self.by_key(i, (id, Some(rest)));
            let bytes = self.burst.frame_len(i) as u64;
            self.execute(&Run { id: found, packets: i..i + 1, bytes });
        }
    }

    fn packet_out(&mut self, i: usize, actions: &[Action]) {
        let (key, _) = self.key(i, 0);
        let Self { view, lookup, context, member, .. } = self;
        let translation = translate_actions(&lookup.tables, &key, member.number, actions, *view);
        let bytes = self.burst.frame_len(i) as u64;
        translation.flows.iter().for_each(|flow| flow.count(1, bytes, context.now));
        let learned: Vec<_> = translation.learned.into_iter().map(Arc::new).collect();
        // Without room, a controller may send again.
        lookup.learner.learn(&lookup.tables, &learned, context.now);
        self.verdicts.charge(TRANSLATION + work::EDIT);
        self.run(i, &translation.operations);
    }

    fn punted(&mut self, again: &Again) {
        let Again::Punt(reason, note) = again else { return };
        (0..self.burst.len()).for_each(|i| self.verdicts.punt_with(i, *reason, note.clone()));
    }

    /// Executes the program of a run.
    #[inline]
    fn execute(&mut self, run: &Run) {
        let packets = run.packets.clone();
        if packets.is_empty() {
            return;
        }
        let Some(megaflow) = self.lookup.current(run.id) else {
            return packets.for_each(|i| self.verdicts.drop(i, DropReason::NoFlow));
        };
        megaflow.count(packets.len() as u64, run.bytes, self.context.now);
        match &megaflow.value.form {
            Form::Forward(port) => self.verdicts.emit_run(packets, *port, EditId::NONE),
            Form::Drop => packets.for_each(|i| self.verdicts.drop(i, DropReason::FlowDrop)),
            Form::NoFlow => packets.for_each(|i| self.verdicts.drop(i, DropReason::NoFlow)),
            Form::Operations(operations) => {
                let operations = operations.clone();
                packets.for_each(|i| self.run(i, &operations));
            }
        }
    }

    #[inline(never)]
    fn run(&mut self, i: usize, operations: &[crate::translate::Operation]) {
        let (key, layout) = self.key(i, 0);
        let Self {
            view,
            lookup,
            burst,
            context,
            verdicts,
            rewriter,
            again,
            tracker,
            left,
            state,
            member,
            ..
        } = self;
        // A packet-out may come from no port.
        let has_port = !context.injected || view.ports.contains_key(&member.number);
        let tracking = Tracking::new(tracker, left, *state);
        let mut executor =
            Executor::new((view, lookup), (burst, i), context, verdicts, rewriter, again, tracking);
        executor.has_port = has_port;
        executor.run((&key, &layout), operations);
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if context.stage == NORMAL {
            return self.normal.process(burst, &Context { stage: 0, ..*context }, verdicts);
        }
        if context.stage == 0 {
            self.follow();
            self.origin = None;
        } else if is_packet_out(context.stage) {
            return self.packet_out(burst, context, verdicts);
        }
        match self.origin.or_else(|| self.directory.by_tables(context.from)) {
            Some(member) => self.received(burst, context, member, verdicts),
            None => self.normal.process(burst, context, verdicts),
        }
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        let normal = self.normal.tick(now);
        if now.0.saturating_sub(self.swept.0) >= MILLI {
            self.sweep(now);
        }
        let has_megaflows = self.lookups.iter().flatten().any(|lookup| !lookup.is_empty());
        let own = (has_megaflows || !self.tracker.is_empty()).then(|| Now(self.swept.0 + SWEEP));
        own.into_iter().chain(normal).min()
    }
}
