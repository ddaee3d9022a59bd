//! A worker's pipeline with the verdicts that it gives, and its timers.

use crate::link::Link;
use mem::copy::Choice;
use port::{Burst, Context, Now, Passes, Pipeline, Verdicts};
use std::sync::Arc;

/// No timer runs.
const NEVER: Now = Now(u64::MAX);
/// Nanoseconds after which a running worker calls [`Pipeline::tick`] again, whatever it returned: `process` may have started
/// a timer since.
const ASK_AGAIN: u64 = 100_000;

pub(super) struct Classifier {
    pipeline: Box<dyn Pipeline>,
    pub(super) verdicts: Verdicts,
    passes: Passes,
    /// Takes punted packets to control.
    link: Arc<Link>,
    needs_heads: bool,
    /// When the pipeline's timers are due, as far as it has said.
    due: Now,
    /// When a running worker calls [`Pipeline::tick`] next: when timers are due, or earlier.
    next_tick: Now,
    kernel: Choice,
}

impl Classifier {
    pub(super) fn new(pipeline: Box<dyn Pipeline>, kernel: Choice, ports: usize, link: Arc<Link>) -> Self {
        let (needs_heads, verdicts) = (pipeline.needs_heads(), Verdicts::new(ports));
        let (due, next_tick) = (Now(0), Now(0));
        Self { pipeline, verdicts, passes: Passes::default(), link, needs_heads, due, next_tick, kernel }
    }

    /// Another pipeline from now on.
    pub(super) fn replace(&mut self, pipeline: Box<dyn Pipeline>) {
        (self.needs_heads, self.pipeline) = (pipeline.needs_heads(), pipeline);
        (self.due, self.next_tick) = (Now(0), Now(0));
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

    /// Runs timers that are due at `now`, as a round begins.
    #[inline(always)]
    pub(super) fn run_timers(&mut self, now: Now) {
        if now >= self.next_tick {
            self.tick(now);
        }
    }

    /// Runs timers that are due at `now` and learns when the next ones are. Must be called before a sleep, because `process`
    /// may have started timers since the last call.
    #[cold]
    pub(super) fn tick(&mut self, now: Now) {
        self.due = self.pipeline.tick(now).unwrap_or(NEVER);
        self.next_tick = self.due.min(Now(now.0.saturating_add(ASK_AGAIN)));
    }

    /// When timers are due, as of the last [`Classifier::tick`]; `None` if none runs.
    pub(super) fn due(&self) -> Option<Now> {
        (self.due != NEVER).then_some(self.due)
    }
}
