//! A worker's pipeline, its verdicts and its timers.

use crate::link::Link;
use mem::copy::Choice;
use port::{Burst, Context, Now, Passes, Pipeline, Verdicts};
use std::sync::Arc;

/// No timer is running.
const NO_TIMER: Now = Now(u64::MAX);
/// Nanoseconds after which a running worker calls [`Pipeline::tick`] again, independent of its last result: `process`
/// may have started a timer since.
const TICK_INTERVAL: u64 = 100_000;

pub(super) struct Classifier {
    pipeline: Box<dyn Pipeline>,
    pub(super) verdicts: Verdicts,
    passes: Passes,
    /// Passes punted packets to the control thread.
    link: Arc<Link>,
    needs_heads: bool,
    /// When the pipeline's next timer is due, as of the last `tick`.
    due: Now,
    /// When a running worker calls [`Pipeline::tick`] next: when the timer is due, or earlier.
    next_tick: Now,
    kernel: Choice,
}

impl Classifier {
    pub(super) fn new(pipeline: Box<dyn Pipeline>, kernel: Choice, ports: usize, link: Arc<Link>) -> Self {
        let (needs_heads, verdicts) = (pipeline.needs_heads(), Verdicts::new(ports));
        let (due, next_tick) = (Now(0), Now(0));
        Self { pipeline, verdicts, passes: Passes::default(), link, needs_heads, due, next_tick, kernel }
    }

    /// Replaces the pipeline.
    pub(super) fn replace(&mut self, pipeline: Box<dyn Pipeline>) {
        (self.needs_heads, self.pipeline) = (pipeline.needs_heads(), pipeline);
        (self.due, self.next_tick) = (Now(0), Now(0));
    }

    /// Loads packet headers if required and classifies the packets.
    #[inline]
    pub(super) fn classify(&mut self, burst: &mut Burst, context: &Context) {
        // Offloads need the packet headers.
        if self.needs_heads || burst.has_offloads() {
            mem::with_kernel!(self.kernel, K => burst.load_heads::<K>());
        } else {
            burst.leave_heads();
        }
        let Self { pipeline, verdicts, passes, link, .. } = self;
        passes.run(&mut **pipeline, burst, context, verdicts, &mut &**link);
    }

    /// Whether [`Classifier::tick`] must be called. Called at the start of a round.
    #[inline(always)]
    pub(super) fn must_tick(&self, now: Now) -> bool {
        now >= self.next_tick
    }

    /// Runs timers that are due at `now` and updates the next deadline. Must be called before a sleep, because
    /// `process` may have started timers since the last call.
    #[cold]
    pub(super) fn tick(&mut self, now: Now) {
        self.due = self.pipeline.tick(now).unwrap_or(NO_TIMER);
        self.next_tick = self.due.min(Now(now.0.saturating_add(TICK_INTERVAL)));
    }

    /// When the next timer is due, as of the last [`Classifier::tick`]; `None` if none runs.
    pub(super) fn due(&self) -> Option<Now> {
        (self.due != NO_TIMER).then_some(self.due)
    }
}
