//! Sampling around a pipeline whose verdicts the tests choose.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use export::sample::{Counts, PortSampling, QUEUE, Sample, Sampling};
use port::{
    Burst, Context, DropReason, Edit, EditId, Notes, Now, Passes, Pipeline, Pipelines, PortId, PuntReason,
    Punted, Punts, Verdicts,
};
use proptest::prelude::*;
use std::sync::Arc;

/// By the last byte of the packet.
const DROP: u8 = 0;
const EMIT: u8 = 1;
const FLOOD: u8 = 2;
const PUNT: u8 = 3;
/// Again, and then with a tag to port 2.
const AGAIN: u8 = 4;

struct Script;

impl Pipeline for Script {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        for i in 0..burst.len() {
            match (burst.head(i).last().copied(), context.stage) {
                (Some(EMIT), _) => verdicts.emit(i, PortId(1), EditId::NONE),
                (Some(FLOOD), _) => verdicts.flood(i..i + 1, [1, 2, 3].map(PortId).into_iter()),
                (Some(PUNT), _) => verdicts.punt(i, PuntReason::Action),
                (Some(AGAIN), 0) => verdicts.recirculate(i, Context { stage: 1, ..*context }, EditId::NONE),
                (Some(AGAIN), _) => {
                    let tag = verdicts.edit(&Edit::splice(12, 0, &[0x81, 0, 0x20, 9]).unwrap());
                    verdicts.emit(i, PortId(2), tag);
                }
                _ => verdicts.drop(i, DropReason::NoDestination),
            }
        }
    }
}

impl Pipelines for Script {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Script)
    }
}

struct Discard;

impl Punts for Discard {
    fn have_room(&self, _: PortId) -> bool {
        true
    }

    fn push(&mut self, _: Punted) -> bool {
        true
    }
}

fn frame(kind: u8) -> Vec<u8> {
    [&[2; 12][..], &[8, 0], &[7; 45], &[kind]].concat()
}

struct Lab {
    sampling: Arc<Sampling>,
    workers: Vec<Box<dyn Pipeline>>,
}

impl Lab {
    /// Two workers; ports 0 and 1 are sampled.
    fn new(sampling_of: [PortSampling; 2]) -> Self {
        let sampling = Sampling::new(8, 7);
        (0..).zip(sampling_of).for_each(|(port, of)| sampling.set(PortId(port), Some(of)));
        let pipelines = sampling.sampled(Arc::new(Script));
        let workers = [0, 1].map(|index| pipelines.worker(index)).into();
        Self { sampling, workers }
    }

    fn send(&mut self, worker: usize, from: u16, kinds: &[u8]) -> Verdicts {
        let (mut burst, mut verdicts) = (Burst::new(), Verdicts::new(8));
        burst.begin(0);
        for kind in kinds {
            assert!(burst.push_own(&frame(*kind)));
        }
        let context = Context::received(PortId(from), Now(0));
        Passes::default().run(
            self.workers[worker].as_mut(),
            &mut burst,
            &context,
            &mut verdicts,
            &mut Discard,
        );
        verdicts
    }

    fn take(&mut self) -> Vec<Sample> {
        self.workers.iter_mut().for_each(|worker| assert_eq!(worker.tick(Now(0)), None));
        let mut samples = Vec::new();
        self.sampling.take(|sample| samples.push(sample));
        samples
    }
}

fn all(header: u16) -> PortSampling {
    PortSampling { rates: [1, 0], header }
}

#[test]
fn a_sample_has_the_header_and_the_outputs_of_all_passes() {
    let mut lab = Lab::new([all(59), PortSampling { rates: [1, 1], header: 256 }]);
    let verdicts = lab.send(0, 0, &[DROP, EMIT, FLOOD, PUNT, AGAIN]);
    assert_eq!((verdicts.punted(), verdicts.batches().len()), (1, 3), "verdicts are as without sampling");
    let samples = lab.take();
    let outputs = samples.iter().map(|sample| {
        let outputs = sample.outputs;
        assert_eq!((sample.port, sample.len, sample.purposes), (PortId(0), 60, [true, false]));
        assert_eq!(sample.header(), &frame(0)[..59]);
        (outputs.count, outputs.first.map(|port| port.0), outputs.tag.map(|tag| tag.0), outputs.punted)
    });
    let expected = [
        (0, None, None, false),
        (1, Some(1), None, false),
        (3, Some(1), None, false),
        (0, None, None, true),
        (1, Some(2), Some(0x2009), false),
    ];
    assert_eq!(outputs.collect::<Vec<_>>(), expected);
    lab.send(0, 1, &[EMIT]);
    let samples = lab.take();
    assert_eq!((samples.len(), samples[0].purposes, samples[0].header()), (1, [true; 2], &frame(EMIT)[..]));
}

#[test]
fn injected_packets_and_other_ports_are_not_sampled() {
    let mut lab = Lab::new([all(64), all(64)]);
    lab.send(0, 2, &[EMIT; 8]);
    lab.sampling.set(PortId(0), None);
    lab.send(0, 0, &[EMIT; 8]);
    let mut burst = Burst::new();
    burst.begin(0);
    assert!(burst.push_own(&frame(EMIT)));
    let context = Context { injected: true, ..Context::received(PortId(1), Now(0)) };
    lab.workers[0].process(&mut burst, &context, &mut Verdicts::new(8));
    assert_eq!((lab.take().len(), burst.notes(0)), (0, Notes::default()));
    let counts = [0, 1, 2].map(|port| lab.sampling.counts(PortId(port)));
    assert_eq!(counts, [Counts::default(); 3]);
}

#[test]
fn samples_that_do_not_fit_into_the_queue_are_counted() {
    let mut lab = Lab::new([all(64), all(64)]);
    (0..QUEUE / 32).for_each(|_| drop(lab.send(0, 0, &[EMIT; 32])));
    lab.send(0, 1, &[EMIT; 32]);
    assert_eq!(lab.take().len(), QUEUE);
    let counts = lab.sampling.counts(PortId(1));
    assert_eq!((counts.seen, counts.sampled, counts.dropped), (32, [32, 0], [32, 0]));
}

proptest! {
    /// Counts of all workers agree with the packets that were sent, and with the samples that arrived.
    #[test]
    fn pools_and_samples_agree_with_packets(
        rates in [[1u32..20, 0u32..20], [1u32..200, 0u32..3]],
        bursts in prop::collection::vec((0usize..2, 0u16..2, prop::collection::vec(0u8..5, 1..64)), 1..60),
        pause in 1usize..80,
    ) {
        let mut lab = Lab::new(rates.map(|rates| PortSampling { rates, header: 128 }));
        let (mut packets, mut samples) = ([0; 2], [[0; 2]; 2]);
        for (at, (worker, port, kinds)) in bursts.iter().enumerate() {
            lab.send(*worker, *port, kinds);
            packets[usize::from(*port)] += kinds.len() as u64;
            if at % pause == 0 || at + 1 == bursts.len() {
                for sample in lab.take() {
                    let of = &mut samples[usize::from(sample.port.0)];
                    of.iter_mut().zip(sample.purposes).for_each(|(n, is_for)| *n += u64::from(is_for));
                }
            }
        }
        for port in 0..2 {
            let counts = lab.sampling.counts(PortId(port as u16));
            prop_assert_eq!(counts.seen, packets[port]);
            for purpose in 0..2 {
                prop_assert_eq!(counts.sampled[purpose], samples[port][purpose] + counts.dropped[purpose]);
                prop_assert!(counts.sampled[purpose] <= counts.seen);
                let is_all = rates[port][purpose] == 1;
                prop_assert!(!is_all || counts.sampled[purpose] == counts.seen);
            }
        }
    }
}
