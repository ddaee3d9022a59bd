//! The results of a worker for frames, for tests and fuzz targets.

use crate::Field;
use crate::translate::ControllerOperation;
use port::{Burst, Context, DropReason, Now, Passes, Pipeline, Pipelines, PortId, Punted, Punts, Verdicts};
use std::collections::BTreeMap;

/// Stands for the learning bridge: sends everything to port 9.
pub(super) struct Normal;

impl Pipelines for Normal {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(ToNine)
    }
}

pub(super) struct ToNine;

impl Pipeline for ToNine {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        verdicts.emit_run(0..burst.len(), PortId(9), port::EditId::NONE);
    }
}

#[derive(Default)]
pub(super) struct Controllers(pub(super) Vec<Punted>);

impl Punts for Controllers {
    fn have_room(&self, _: PortId) -> bool {
        true
    }

    fn push(&mut self, packet: Punted) -> bool {
        self.0.push(packet);
        true
    }
}

/// Result of the packets of a burst.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Frames, by output port, in order.
    pub(super) sent: BTreeMap<u16, Vec<Vec<u8>>>,
    /// Traffic classes of the frames.
    pub(super) classes: BTreeMap<u16, Vec<u8>>,
    pub(super) drops: BTreeMap<&'static str, u64>,
    pub(super) punted: Vec<(Vec<u8>, u64)>,
    /// Ingress ports of punted packets, if they differ from that of the burst.
    pub(super) in_ports: Vec<u128>,
}

/// Sends frames from a port.
pub(super) fn send(worker: &mut dyn Pipeline, from: u16, frames: &[Vec<u8>], now: Now) -> Outcome {
    run(worker, &Context::received(PortId(from), now), frames)
}

/// Passes frames through a worker.
pub(super) fn run(worker: &mut dyn Pipeline, context: &Context, frames: &[Vec<u8>]) -> Outcome {
    let (mut burst, mut verdicts, mut punts) = (Burst::new(), Verdicts::new(16), Controllers::default());
    burst.begin(0);
    for frame in frames {
        assert!(burst.push_own(frame));
    }
    Passes::default().run(worker, &mut burst, context, &mut verdicts, &mut punts);
    let mut outcome = Outcome::default();
    for batch in verdicts.batches() {
        for (place, &i) in batch.indices().as_slice().iter().enumerate() {
            let mut made = Burst::new();
            made.begin_from(&burst);
            let pushed = made.push_edited(&burst, i.into(), verdicts.edits(), batch.edit(place));
            assert!(pushed.is_ok(), "{pushed:?}");
            outcome.sent.entry(batch.port().0).or_default().push(made.head(0).to_vec());
            outcome.classes.entry(batch.port().0).or_default().push(made.notes(0).class);
        }
    }
    for reason in DropReason::ALL {
        let n = verdicts.dropped().map_or(0, |dropped| dropped.drops[reason as usize]);
        (n > 0).then(|| outcome.drops.insert(reason.name(), n));
    }
    let note = |punted: &Punted| punted.note.clone()?.downcast::<ControllerOperation>().ok();
    let cookie = |punted: &Punted| note(punted).map_or(0, |note| note.cookie);
    let in_port = |punted: &Punted| note(punted)?.pipeline.exact(Field::InPort);
    outcome.in_ports = punts.0.iter().filter_map(in_port).collect();
    outcome.punted = punts.0.iter().map(|punted| (punted.frame.to_vec(), cookie(punted))).collect();
    let sent: usize = outcome.sent.values().map(Vec::len).sum();
    let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
    let out = sent as u64 + dropped + verdicts.punted();
    assert_eq!(frames.len() as u64 + verdicts.replicated(), out, "the sums agree");
    outcome
}
