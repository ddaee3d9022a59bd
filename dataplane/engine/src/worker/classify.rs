//! A worker's pipeline with the verdicts that it gives, and its timers.

use crate::link::Link;
use mem::copy::Choice;
use port::{Burst, Context, Now, Passes, Pipeline, Verdicts};
use std::sync::Arc;

/// No timer runs.
const NEVER: Now = Now(u64::MAX);

pub(super) struct Classifier {
    pipeline: Box<dyn Pipeline>,
    pub(super) verdicts: Verdicts,
    passes: Passes,
    /// Takes punted packets to control.
    link: Arc<Link>,
    needs_heads: bool,
    /// When the pipeline's timers are due.
    due: Now,
    kernel: Choice,
}

impl Classifier {
    pub(super) fn new(pipeline: Box<dyn Pipeline>, kernel: Choice, ports: usize, link: Arc<Link>) -> Self {
        let (needs_heads, verdicts) = (pipeline.needs_heads(), Verdicts::new(ports));
        Self { pipeline, verdicts, passes: Passes::default(), link, needs_heads, due: Now(0), kernel }
    }

    /// Another pipeline from now on.
    pub(super) fn replace(&mut self, pipeline: Box<dyn Pipeline>) {
        (self.needs_heads, self.pipeline, self.due) = (pipeline.needs_heads(), pipeline, Now(0));
    }

    /// Loads heads and decides where each packet goes.
    #[inline]
    pub(super) fn classify(&mut self, burst: &mut Burst, context: &Context) {
        // What is left to be done to a packet is done by its head.
        if self.needs_heads || burst.has_offloads() {
            mem::with_kernel!(self.kernel, K => burst.load_heads::<K>());
        } else {
            burst.leave_heads();
        }
        let Self { pipeline, verdicts, passes, link, .. } = self;
        passes.run(&mut **pipeline, burst, context, verdicts, &mut &**link);
    }

    /// Runs timers that are due at `now`.
    #[inline(always)]
    pub(super) fn run_timers(&mut self, now: Now) {
        if now >= self.due {
            self.tick(now);
        }
    }

    #[cold]
    fn tick(&mut self, now: Now) {
        self.due = self.pipeline.tick(now).unwrap_or(NEVER);
    }

    /// When timers are due; `None` if none runs.
    pub(super) fn due(&self) -> Option<Now> {
        (self.due != NEVER).then_some(self.due)
    }
}
