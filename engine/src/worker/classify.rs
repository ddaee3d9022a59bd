//! A worker's pipeline with the lists that it decides into.

use mem::copy::Choice;
use port::{Burst, Now, Outputs, Pipeline, PortId};

pub(super) struct Classifier {
    pub(super) pipeline: Box<dyn Pipeline>,
    pub(super) outputs: Outputs,
    /// Whether the pipeline looks at packets.
    looks: bool,
    kernel: Choice,
}

impl Classifier {
    pub(super) fn new(pipeline: Box<dyn Pipeline>, kernel: Choice, ports: usize) -> Self {
        Self { looks: pipeline.looks(), pipeline, outputs: Outputs::new(ports), kernel }
    }

    /// Another pipeline from now on.
    pub(super) fn replace(&mut self, pipeline: Box<dyn Pipeline>) {
        (self.looks, self.pipeline) = (pipeline.looks(), pipeline);
    }

    /// Loads heads and decides where each packet goes.
    #[inline]
    pub(super) fn classify(&mut self, burst: &mut Burst, from: PortId) {
        // What is left to be done to a packet is done by its head.
        if self.looks || burst.has_offloads() {
            mem::with_kernel!(self.kernel, K => burst.load_heads::<K>());
        } else {
            burst.leave_heads();
        }
        self.outputs.clear();
        self.pipeline.process(burst, from, burst.now(), &mut self.outputs);
    }

    /// The same for a burst of the switch's own, which is as if port `from` had sent it and was to be believed.
    pub(super) fn inject(&mut self, burst: &mut Burst, from: PortId, now: Now) {
        self.outputs.clear();
        self.pipeline.inject(burst, from, now, &mut self.outputs);
    }
}
