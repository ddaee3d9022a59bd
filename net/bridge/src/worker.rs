//! Per-worker bridge pipeline and its state across bursts.
//!
//! A burst has one source port, so port state is looked up once per burst; `pass` then processes each packet. Tag
//! evaluation is selected per burst.

mod cache;
mod groups;
mod pass;

use super::bond::Admission;
use super::guard::MAX_INSPECTED;
use super::ports::{Ingress, PortTable, Published, View};
use super::vlan::Form;
use cache::FlowCache;
use groups::Followed;
use pass::{CachedVerdict, Learning, Origin, Pass, Plan, refuse};
use port::{BURST, Burst, Context, EditId, Pipeline, PortId, Verdicts};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// The pipeline of one worker, over tables shared with the other workers.
pub(super) struct Worker {
    published: Arc<Published>,
    generation: u64,
    table: Arc<PortTable>,
    /// Last reusable answer, by port.
    memos: Vec<Option<CachedVerdict>>,
    cache: FlowCache,
    /// Ageing sweep state, by bridge.
    sweeps: Vec<Sweep>,
    /// Ports of multicast groups, by bridge; `None` without snooping.
    groups: Vec<Option<Followed>>,
    plans: Box<[Plan; BURST]>,
    scratch: Box<[u8; MAX_INSPECTED]>,
}

#[derive(Clone, Copy, Default)]
struct Sweep {
    second: u32,
    pending: bool,
}

impl Worker {
    pub(super) fn new(published: Arc<Published>, ports: usize) -> Self {
        let mut worker = Self {
            published,
            generation: u64::MAX,
            table: Arc::default(),
            memos: vec![None; ports],
            cache: FlowCache::new(),
            sweeps: Vec::new(),
            groups: Vec::new(),
            plans: Box::new([Plan::default(); BURST]),
            scratch: Box::new([0; MAX_INSPECTED]),
        };
        worker.follow_ports();
        worker
    }

    /// Takes a newer port table, if any. Cached answers are discarded.
    #[inline(always)]
    fn follow_ports(&mut self) {
        if let Some((generation, table)) = self.published.newer(self.generation) {
            self.adopt(generation, table);
        }
    }

    /// Blocks until the current port table is available. A port is published before its first packet arrives, so if it
    /// is missing, this worker's table is old because the lock was busy. The wait is limited to the copy of one
    /// pointer.
    #[cold]
    fn catch_up(&mut self) {
        let (generation, table) = self.published.latest();
        if generation != self.generation {
            self.adopt(generation, table);
        }
    }

    fn adopt(&mut self, generation: u64, table: Arc<PortTable>) {
        self.sweeps.resize(table.views.len(), Sweep::default());
        self.memos.fill(None);
        self.cache.clear();
        self.groups = table.views.iter().map(|view| Followed::new(view.as_ref()?)).collect();
        (self.generation, self.table) = (generation, table);
    }
}

impl Worker {
    fn pass(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        self.follow_ports();
        if self.table.member(context.from).is_none() && self.without_bridge(burst, context, out) {
            return;
        }
        self.classify::<false>(context.from, burst, context, out);
    }

    /// Processes packets of a port that is on no bridge: those of a member of a bond. Returns `false` if the port is on
    /// a bridge in a newer table.
    #[inline(never)]
    fn without_bridge(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) -> bool {
        if self.table.link(context.from).is_none() {
            self.catch_up();
        }
        let Some(link) = self.table.link(context.from) else {
            return self.table.member(context.from).is_none();
        };
        if link.admission() == Admission::Nothing {
            refuse(burst, link, context.now, out);
        } else {
            self.classify::<true>(link.bond, burst, context, out);
        }
        true
    }

    /// Forwards packets of port `port`. With `LINK`, that is a bond, and they were received on one of its members.
    #[inline(always)]
    fn classify<const LINK: bool>(
        &mut self,
        port: PortId,
        burst: &mut Burst,
        context: &Context,
        out: &mut Verdicts,
    ) {
        let Context { from, now, injected, .. } = *context;
        let known = self.table.place(port);
        let found =
            known.and_then(|place| Some((place, &*place.member, self.table.view(place.member.bridge)?)));
        let (Some((place, member, view)), Some(memo)) = (found, self.memos.get_mut(from.0 as usize)) else {
            // A packet without a verdict is dropped as `no-destination`.
            return;
        };
        let second = (now.0 / SECOND) as u32;
        let link = if LINK { self.table.link(from) } else { None };
        let groups = self.groups.get_mut(usize::from(member.bridge)).and_then(Option::as_mut);
        let mut pass = Pass {
            burst,
            origin: Origin { port, member, changes: view.bridge.fdb.changes(port), injected, link },
            now,
            second,
            table: &self.table,
            view,
            groups: groups.map(|groups| groups.follow(view)),
            memo,
            cache: &mut self.cache,
            plans: &mut self.plans,
            out,
            scratch: &mut self.scratch,
            learning: Learning::default(),
            latest: None,
            flooding: 0..0,
            edits: [(Form::default(), EditId::NONE); 4],
        };
        match (view.vlan_aware, place.ingress) {
            (_, Ingress::Closed) => pass.run_closed(place.state),
            _ if LINK => pass.run_member(),
            (false, Ingress::Open) => pass.run::<false, false>(),
            (true, Ingress::Open) => pass.run::<true, false>(),
            (false, Ingress::Guarded) => pass.run_guarded::<false>(),
            (true, Ingress::Guarded) => pass.run_guarded::<true>(),
        }
        pass.learning.count(member);
        self.sweeps[member.bridge as usize].run(view, second);
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if context.stage == Context::TRANSMIT {
            return verdicts.emit_run(0..burst.len(), context.from, EditId::NONE);
        }
        self.pass(burst, context, verdicts);
    }
}

impl Sweep {
    /// Sweeps one slice until the share of this second is done.
    #[inline(always)]
    fn run(&mut self, view: &View, second: u32) {
        if self.second != second {
            *self = Self { second, pending: true };
        }
        if self.pending {
            self.pending = view.bridge.fdb.sweep(second);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
