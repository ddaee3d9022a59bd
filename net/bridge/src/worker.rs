//! Per-worker bridge pipeline and its state across bursts.
//!
//! A burst has one source port, so port state is looked up once per burst; `pass` then processes each packet. Tag
//! evaluation is selected per burst.

mod cache;
mod pass;

use super::guard::MAX_INSPECTED;
use super::ports::{PortTable, Published, View};
use super::vlan::Form;
use cache::FlowCache;
use pass::{CachedVerdict, Learning, Origin, Pass, Plan};
use port::{BURST, Burst, Context, EditId, Pipeline, Verdicts};
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
        (self.generation, self.table) = (generation, table);
    }
}

impl Worker {
    fn pass(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        let Context { from, now, injected, .. } = *context;
        self.follow_ports();
        let known = match self.table.member(from) {
            None => {
                self.catch_up();
                self.table.member(from)
            }
            known => known,
        };
        let place = known.and_then(|member| Some((member, self.table.view(member.bridge)?)));
        let (Some((member, view)), Some(memo)) = (place, self.memos.get_mut(from.0 as usize)) else {
            // A packet without a verdict is dropped as `no-destination`.
            return;
        };
        let second = (now.0 / SECOND) as u32;
        let mut pass = Pass {
            burst,
            origin: Origin { port: from, member, changes: view.bridge.fdb.changes(from), injected },
            now,
            second,
            table: &self.table,
            view,
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
        match (view.vlan_aware, member.guard.is_some()) {
            (false, false) => pass.run::<false, false>(),
            (true, false) => pass.run::<true, false>(),
            (false, true) => pass.run_guarded::<false>(),
            (true, true) => pass.run_guarded::<true>(),
        }
        pass.learning.count(member);
        self.sweeps[member.bridge as usize].run(view, second);
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
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
