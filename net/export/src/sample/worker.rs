//! The pipeline of a worker with sampling, around another one.
//!
//! A sample is complete when its packet has passed for the last time: it waits until the next burst is received, or the
//! next tick. The notes of a packet have the number of its sample, so that later passes add their outputs.

use super::counts::LaneCounts;
use super::outputs::Outputs;
use super::skip::{Random, Skip};
use super::{MAX_HEADER, PortSampling, Sample, Sampling};
use mem::copy::Portable;
use port::{BURST, Burst, Context, Notes, Now, Pipeline, Pipelines, PortId, PortObserver, Verdicts};
use ring::spsc::Producer;
use std::sync::Arc;

/// Sampling by port.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<Option<PortSampling>>);

impl Table {
    pub(super) fn set(&mut self, port: PortId, sampling: Option<PortSampling>) {
        let at = usize::from(port.0);
        self.0.resize(self.0.len().max(at + 1), None);
        self.0[at] = sampling;
    }

    fn get(&self, port: PortId) -> Option<&PortSampling> {
        self.0.get(usize::from(port.0))?.as_ref()
    }
}

/// Pipelines whose received packets are sampled.
pub struct Sampled {
    sampling: Arc<Sampling>,
    inner: Arc<dyn Pipelines>,
}

impl std::fmt::Debug for Sampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampled").finish_non_exhaustive()
    }
}

impl Sampled {
    pub(super) fn new(sampling: Arc<Sampling>, inner: Arc<dyn Pipelines>) -> Self {
        Self { sampling, inner }
    }
}

impl Pipelines for Sampled {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        let sampling = self.sampling.clone();
        let (generation, table) = sampling.table.latest();
        let (queue, counts) = sampling.open();
        let random = Random::new(sampling.seed ^ (index as u64) << 32);
        let skips = vec![[Skip::default(); 2]; sampling.ports];
        let samples = Samples { waiting: Vec::with_capacity(BURST), queue, counts, scratch: Burst::new() };
        let inner = self.inner.worker(index);
        Box::new(Worker { sampling, generation, table, skips, random, samples: Box::new(samples), inner })
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        self.inner.observer()
    }
}

struct Worker {
    sampling: Arc<Sampling>,
    generation: u64,
    table: Arc<Table>,
    /// By port and purpose.
    skips: Vec<[Skip; 2]>,
    random: Random,
    samples: Box<Samples>,
    inner: Box<dyn Pipeline>,
}

/// Samples that wait for the end of their passes, at most one for each packet of a burst.
struct Samples {
    waiting: Vec<Sample>,
    queue: Producer<Sample>,
    counts: Arc<LaneCounts>,
    scratch: Burst,
}

impl Samples {
    /// Passes the samples on.
    #[cold]
    fn deliver(&mut self) {
        for sample in self.waiting.drain(..) {
            let (port, purposes) = (sample.port, sample.purposes);
            let is_dropped = self.queue.push(sample).is_err();
            self.counts.sampled(port, purposes, is_dropped);
        }
    }

    /// Samples packet `i`, which was received.
    fn take(&mut self, burst: &mut Burst, i: usize, (port, header): (PortId, u16), purpose: usize) {
        let number = usize::from(burst.notes(i).sample);
        if let Some(sample) = number.checked_sub(1).and_then(|at| self.waiting.get_mut(at)) {
            // For another purpose.
            sample.purposes[purpose] = true;
            return;
        }
        let mut purposes = [false; 2];
        purposes[purpose] = true;
        let mut bytes = [0; MAX_HEADER];
        let wanted = usize::from(header).min(MAX_HEADER).min(burst.frame_len(i));
        let stored = burst.frame(i).copy_to::<Portable>(&mut bytes[..wanted]) as u16;
        let (len, outputs) = (burst.frame_len(i) as u32, Outputs::default());
        self.waiting.push(Sample { port, purposes, len, outputs, stored, bytes });
        burst.set_notes(i, Notes { sample: self.waiting.len() as u8, ..burst.notes(i) });
    }

    /// Adds the outputs of a pass to the samples of its packets. A pipeline keeps the notes of packets.
    fn complete(&mut self, burst: &Burst, verdicts: &Verdicts) {
        for i in 0..burst.len() {
            let number = usize::from(burst.notes(i).sample);
            if let Some(sample) = number.checked_sub(1).and_then(|at| self.waiting.get_mut(at)) {
                sample.outputs.add(burst, i, verdicts, &mut self.scratch);
            }
        }
    }
}

impl Worker {
    /// Samples a received burst.
    fn receive(&mut self, sampling: PortSampling, burst: &mut Burst, from: PortId) {
        let Self { skips, random, samples, .. } = self;
        samples.counts.saw(from, burst.len());
        let Some(skips) = skips.get_mut(usize::from(from.0)) else { return };
        for (purpose, (rate, skip)) in sampling.rates.into_iter().zip(skips).enumerate() {
            if rate > 0 {
                let port = (from, sampling.header);
                skip.pass(burst.len(), rate, random, |i| samples.take(burst, i, port, purpose));
            }
        }
    }

    fn renew(&mut self) {
        if !self.samples.waiting.is_empty() {
            self.samples.deliver();
        }
        if let Some((generation, table)) = self.sampling.table.newer(self.generation) {
            (self.generation, self.table) = (generation, table);
        }
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if context.stage == 0 {
            self.renew();
            if let Some(sampling) = self.table.get(context.from).filter(|_| !context.injected).copied() {
                self.receive(sampling, burst, context.from);
            }
        }
        self.inner.process(burst, context, verdicts);
        if !self.samples.waiting.is_empty() {
            self.samples.complete(burst, verdicts);
        }
    }

    fn needs_heads(&self) -> bool {
        self.inner.needs_heads()
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        if !self.samples.waiting.is_empty() {
            self.samples.deliver();
        }
        self.inner.tick(now)
    }
}
