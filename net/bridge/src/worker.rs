//! The bridge as one worker runs it: what it keeps from burst to burst.
//!
//! A burst has one source port, so everything about that port is looked up once; `pass` then decides packet by packet.
//! Whether VLAN tags are looked at is decided per burst.

mod cache;
mod pass;

use super::guard::LONGEST;
use super::ports::{PortTable, Published, View};
use super::vlan::Form;
use cache::FlowCache;
use pass::{Events, LEARNS_PER_BURST, Memo, Pass, Plan};
use port::{BURST, Burst, Context, EditId, Pipeline, Verdicts};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// One worker's bridge, over the tables it shares with the other workers.
pub(super) struct Worker {
    published: Arc<Published>,
    generation: u64,
    table: Arc<PortTable>,
    /// By port: the last answer that may be given again.
    memos: Vec<Option<Memo>>,
    cache: FlowCache,
    /// By bridge: up to when aged stations have been swept.
    sweeps: Vec<Sweep>,
    plans: Box<[Plan; BURST]>,
    scratch: Box<[u8; LONGEST]>,
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
            scratch: Box::new([0; LONGEST]),
        };
        worker.follow_ports();
        worker
    }

    /// Takes over a changed port table. What was remembered may be wrong under it.
    #[inline(always)]
    fn follow_ports(&mut self) {
        if let Some((generation, table)) = self.published.newer(self.generation) {
            self.adopt(generation, table);
        }
    }

    /// A port is published before its first packet comes in, so a worker that does not find it has an old table, and another
    /// worker was taking the new one just when this one looked. It is waited for: as long as a pointer is copied.
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
            // Without a verdict a packet has no destination.
            return;
        };
        let second = (now.0 / SECOND) as u32;
        let mut pass = Pass {
            burst,
            from,
            now,
            second,
            changes: view.bridge.fdb.changes(from),
            injected,
            budget: LEARNS_PER_BURST,
            table: &self.table,
            member,
            view,
            memo,
            cache: &mut self.cache,
            plans: &mut self.plans,
            out,
            scratch: &mut self.scratch,
            events: Events::default(),
            latest: None,
            moved: false,
            flooding: 0..0,
            edits: [(Form::default(), EditId::NONE); 4],
        };
        match (view.vlan_aware, member.guard.is_some()) {
            (false, false) => pass.run::<false, false>(),
            (true, false) => pass.run::<true, false>(),
            (false, true) => pass.run_guarded::<false>(),
            (true, true) => pass.run_guarded::<true>(),
        }
        pass.events.count(member);
        self.sweeps[member.bridge as usize].run(view, second);
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.pass(burst, context, verdicts);
    }
}

impl Sweep {
    /// A slice of ageing, while this second's share is not done.
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
