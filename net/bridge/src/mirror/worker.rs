//! The pipeline of a worker with mirrors: another pipeline, and copies of its packets.

use super::copies::{Copies, Source};
use super::table::Mirrors;
use crate::ports::{PortTable, Published};
use port::{Burst, Context, DropReason, Now, Pipeline, Pipelines, PortObserver, Verdicts};
use std::sync::Arc;

/// Pipelines whose packets are copied by the mirrors of a [`crate::Switch`], which knows all of their ports.
pub struct Mirrored {
    published: Arc<Published>,
    inner: Arc<dyn Pipelines>,
}

impl std::fmt::Debug for Mirrored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrored").finish_non_exhaustive()
    }
}

impl Mirrored {
    pub(crate) fn new(published: Arc<Published>, inner: Arc<dyn Pipelines>) -> Self {
        Self { published, inner }
    }
}

impl Pipelines for Mirrored {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        let (generation, table) = self.published.latest();
        let (published, inner) = (self.published.clone(), self.inner.worker(index));
        Box::new(Worker { published, generation, table, inner, copies: Box::default() })
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        self.inner.observer()
    }
}

struct Worker {
    published: Arc<Published>,
    generation: u64,
    table: Arc<PortTable>,
    inner: Box<dyn Pipeline>,
    copies: Box<Copies>,
}

/// Processes a burst of a bridge with mirrors, which received it on one of its ports.
#[inline(never)]
fn process(
    (inner, copies): (&mut dyn Pipeline, &mut Copies),
    (table, mirrors): (&PortTable, &Mirrors),
    burst: &mut Burst,
    context: &Context,
    verdicts: &mut Verdicts,
) {
    let is_received = context.stage == 0;
    if is_received && mirrors.reserved().contains(&context.from) {
        return (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::MirrorPort));
    }
    inner.process(burst, context, verdicts);
    mirrors.reserved().iter().for_each(|port| verdicts.revoke(*port, DropReason::MirrorPort));
    copies.begin(burst);
    let mut source = Source { burst, mirrors, table, verdicts };
    if is_received {
        copies.receive(&source, context.from);
    }
    copies.send(&source);
    copies.emit(&mut source);
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if context.stage == 0
            && let Some((generation, table)) = self.published.newer(self.generation)
        {
            (self.generation, self.table) = (generation, table);
        }
        let Self { table, inner, copies, .. } = self;
        let view = table.member(context.from).and_then(|member| table.view(member.bridge));
        match view.and_then(|view| view.mirrors.as_deref()) {
            None => inner.process(burst, context, verdicts),
            Some(mirrors) => process((inner.as_mut(), copies), (table, mirrors), burst, context, verdicts),
        }
    }

    fn needs_heads(&self) -> bool {
        self.inner.needs_heads()
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        self.inner.tick(now)
    }
}
