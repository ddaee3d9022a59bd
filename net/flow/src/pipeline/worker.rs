//! The pipeline of one worker.

use super::directory::{Bridge, Directory, Member, View};
use super::execute::{Again, Executor};
use super::lookup::{Head, Lookup};
use super::program::Form;
use crate::cache::MegaflowId;
use crate::packet::{Layout, Rewriter, parse};
use crate::translate::Resume;
use crate::{Field, Key};
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
/// Work units of a translation, beyond those of a packet.
const TRANSLATION: u64 = 2000;

/// The pipeline of one worker over all bridges.
pub(super) struct Worker {
    published: Arc<Published<Directory>>,
    generation: u64,
    directory: Arc<Directory>,
    lookups: Vec<Option<Box<Lookup>>>,
    normal: Box<dyn Pipeline>,
    rewriter: Box<Rewriter>,
    /// Of recirculated packets of this burst, by stage.
    again: Vec<Again>,
    swept: Now,
    ranked: Now,
}

impl Worker {
    pub(super) fn new(published: Arc<Published<Directory>>, normal: Box<dyn Pipeline>) -> Self {
        let (generation, directory) = published.latest();
        let mut worker = Self {
            published,
            generation: u64::MAX,
            directory: Arc::default(),
            lookups: Vec::new(),
            normal,
            rewriter: Box::default(),
            again: Vec::new(),
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
                    *lookup = Some(Box::new(Lookup::new(new.tables.latest(), generation)));
                }
                (lookup, _, None) => *lookup = None,
            }
        }
    }

    fn received(&mut self, burst: &mut Burst, context: &Context, member: Member, verdicts: &mut Verdicts) {
        let Self { directory, lookups, rewriter, again, .. } = self;
        let bridge = member.bridge;
        let found = directory.view(bridge).zip(lookups[usize::from(bridge)].as_deref_mut());
        let Some((view, lookup)) = found else { return };
        take_tables(lookup, &view.bridge);
        let mut pass = Pass { view, lookup, burst, context, member, verdicts, rewriter, again };
        match stage(pass.again, context.stage) {
            Stage::Received => pass.received(),
            Stage::Resume(rest) => pass.resumed(&rest),
            Stage::Punt(again) => pass.punted(&again),
        }
    }

    fn sweep(&mut self, now: Now) {
        let millis = now.0.saturating_sub(self.swept.0) / MILLI;
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
    Resume(Arc<Resume>),
    Punt(Again),
}

fn stage(again: &mut Vec<Again>, stage: u32) -> Stage {
    match stage.checked_sub(1).and_then(|at| again.get(at as usize)) {
        None => {
            again.clear();
            Stage::Received
        }
        Some(Again::Resume(rest)) => Stage::Resume(rest.clone()),
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
    let hits = std::mem::take(&mut lookup.hits);
    for (counter, n) in [
        (&bridge.counts.head, hits.head),
        (&bridge.counts.megaflow, hits.megaflow),
        (&bridge.counts.tables, hits.tables),
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
}

/// Packets that follow each other and have one megaflow.
struct Run {
    id: MegaflowId,
    packets: Range<usize>,
    bytes: u64,
}

impl Pass<'_> {
    fn received(&mut self) {
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
        let before = self.lookup.hits.megaflow + self.lookup.hits.tables;
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
        let hits = &mut self.lookup.hits;
        hits.head += self.burst.len() as u64 - (hits.megaflow + hits.tables - before);
    }

    /// The megaflow of packet `i`, and its head if that alone decides the megaflow.
    #[inline(never)]
    fn find(&mut self, i: usize, head: Option<Head>) -> (Option<Head>, MegaflowId) {
        let port = self.context.from;
        let found = head.as_ref().and_then(|head| self.lookup.find_head(head, port));
        if let Some(id) = found.filter(|id| self.lookup.current(*id).is_some()) {
            return (head, id);
        }
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
        let Self { view, lookup, burst, context, verdicts, rewriter, again, .. } = self;
        let mut executor =
            Executor::new((view, &lookup.tables), (burst, i), context, verdicts, rewriter, again);
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
        }
        match self.directory.member(context.from) {
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
        let own = has_megaflows.then(|| Now(self.swept.0 + SWEEP));
        own.into_iter().chain(normal).min()
    }
}
