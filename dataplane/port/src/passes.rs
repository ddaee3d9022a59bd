//! Passes of a burst through a pipeline: the first, and further ones for recirculated packets.
//!
//! Recirculated packets are put into a separate burst, with their edits applied, and the verdicts on them become
//! verdicts on the received packets: their edits are applied in sequence when they are sent. A packet's buffers, its
//! order and the carry-over between turns are therefore the same with and without recirculation. A packet passes at
//! most [`MAX_PASSES`] times, and all packets of a burst together at most [`MAX_AGAIN`] times.

use crate::verdicts::Recirculated;
use crate::{
    BURST, Burst, Context, DropReason, Notes, Pipeline, PortId, PuntNote, PuntReason, Punted, Verdicts, work,
};
use mem::copy::Portable;

/// Maximum passes of a packet through a pipeline, including the first.
pub const MAX_PASSES: usize = 8;

/// Maximum recirculations of all packets of a burst together.
const MAX_AGAIN: usize = 8 * BURST;

/// State for passes after the first. One instance per worker, reused.
#[derive(Debug, Default)]
pub struct Passes {
    again: Option<Box<Recirculation>>,
}

#[derive(Debug)]
struct Recirculation {
    burst: Burst,
    verdicts: Verdicts,
    /// Recirculated packets of this pass, and those of them in `burst`.
    packets: Vec<Recirculated>,
    origins: Vec<Recirculated>,
}

/// Queue of punted packets to the control plane. A full queue costs no copies.
pub trait Punts {
    /// Whether there is space for a packet received on port `from`.
    fn have_room(&self, from: PortId) -> bool;

    /// Queues a packet. Returns `false` if the queue is full.
    fn push(&mut self, packet: Punted) -> bool;
}

impl Passes {
    /// Runs `pipeline` on `burst` until every packet has a final verdict.
    #[inline(always)]
    pub fn run(
        &mut self,
        pipeline: &mut dyn Pipeline,
        burst: &mut Burst,
        context: &Context,
        verdicts: &mut Verdicts,
        punts: &mut dyn Punts,
    ) {
        verdicts.clear();
        pipeline.process(burst, context, verdicts);
        verdicts.finish(burst.len());
        if verdicts.has_more() {
            self.run_again(pipeline, burst, context, verdicts, punts);
        }
    }

    #[cold]
    fn run_again(
        &mut self,
        pipeline: &mut dyn Pipeline,
        burst: &Burst,
        context: &Context,
        verdicts: &mut Verdicts,
        punts: &mut dyn Punts,
    ) {
        hand_over(burst, context, verdicts, punts);
        verdicts.take_notes(burst);
        let again = self.again.get_or_insert_with(|| Recirculation::new(verdicts.ports()));
        let (mut packets, mut left) = (std::mem::take(&mut again.packets), MAX_AGAIN);
        for _ in 1..MAX_PASSES {
            verdicts.take_recirculated(&mut packets);
            let (taken, beyond) = packets.split_at(packets.len().min(left));
            left -= taken.len();
            verdicts.count_drops(DropReason::RecirculationLimit, beyond.len());
            for alike in taken.chunk_by(|one, next| one.context == next.context) {
                alike.chunks(BURST).for_each(|packets| again.pass(pipeline, burst, packets, verdicts, punts));
            }
        }
        verdicts.take_recirculated(&mut packets);
        verdicts.count_drops(DropReason::RecirculationLimit, packets.len());
        again.packets = packets;
        // A completed burst must not keep a map mapped.
        again.burst.unpin();
    }
}

impl Recirculation {
    fn new(ports: usize) -> Box<Self> {
        let (burst, verdicts) = (Burst::new(), Verdicts::new(ports));
        Box::new(Self { burst, verdicts, packets: Vec::new(), origins: Vec::new() })
    }

    /// One pass over at most one burst of packets with equal context.
    fn pass(
        &mut self,
        pipeline: &mut dyn Pipeline,
        source: &Burst,
        packets: &[Recirculated],
        verdicts: &mut Verdicts,
        punts: &mut dyn Punts,
    ) {
        self.fill(source, packets, verdicts);
        let Self { burst, verdicts: pass, origins, .. } = self;
        let Some(Recirculated { context, .. }) = origins.first() else { return };
        pass.clear();
        pipeline.process(burst, context, pass);
        pass.finish(origins.len());
        pass.charge(origins.len() as u64 * (work::RECEIVED + work::EDIT));
        hand_over(burst, context, pass, punts);
        pass.take_notes(burst);
        verdicts.absorb(pass, origins);
    }

    /// Puts `packets` into the burst, with their edits applied.
    fn fill(&mut self, source: &Burst, packets: &[Recirculated], verdicts: &mut Verdicts) {
        self.origins.clear();
        self.burst.begin_from(source);
        for again in packets {
            match self.burst.push_edited(source, again.packet.into(), verdicts.edits(), again.edit) {
                Ok(()) => {
                    let class = verdicts.edits().class(again.edit).unwrap_or(again.notes.class);
                    self.burst.set_notes(self.origins.len(), Notes { class, ..again.notes });
                    self.origins.push(*again);
                }
                Err(reason) => verdicts.count_drops(reason, 1),
            }
        }
    }
}

/// Copies the punted packets of `burst` to the control plane.
fn hand_over(burst: &Burst, context: &Context, verdicts: &mut Verdicts, punts: &mut dyn Punts) {
    let (mut cost, mut lost) = (0, 0);
    for (i, reason, note) in verdicts.punts() {
        cost += work::SENT;
        if !punts.have_room(context.from) {
            lost += 1;
            continue;
        }
        let packet = punted(burst, usize::from(*i), context, *reason, note);
        cost += packet.frame.len() as u64 / work::BYTES;
        lost += usize::from(!punts.push(packet));
    }
    verdicts.charge(cost);
    verdicts.drop_punted(lost);
}

fn punted(burst: &Burst, i: usize, context: &Context, reason: PuntReason, note: &PuntNote) -> Punted {
    let mut frame = vec![0; burst.frame_len(i)].into_boxed_slice();
    burst.frame(i).copy_to::<Portable>(&mut frame);
    Punted { context: *context, reason, note: note.clone(), frame }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, EditId, Edits, Now};

    /// Packets are identified by their last byte. The closure handles every packet at each stage.
    struct Staged<F>(F);

    impl<F: FnMut(&mut Burst, usize, &Context, &mut Verdicts) + Send> Pipeline for Staged<F> {
        fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
            (0..burst.len()).for_each(|i| self.0(burst, i, context, verdicts));
        }
    }

    fn source(packets: usize) -> Burst {
        let mut burst = Burst::new();
        burst.begin(0);
        for k in 0..packets {
            let mut frame: Vec<u8> = (0..60).collect();
            frame[59] = k as u8;
            assert!(burst.push_own(&frame));
        }
        burst
    }

    const FROM: Context = Context { from: PortId(1), now: Now(7), injected: false, stage: 0 };

    /// A control plane that accepts a limited number of packets.
    struct Taker(Vec<Punted>, usize);

    impl Punts for Taker {
        fn have_room(&self, _: PortId) -> bool {
            self.0.len() < self.1
        }

        fn push(&mut self, packet: Punted) -> bool {
            self.0.push(packet);
            true
        }
    }

    /// Emissions of each of four ports, and punted packets.
    fn run(
        packets: usize,
        most_punts: usize,
        pipeline: impl FnMut(&mut Burst, usize, &Context, &mut Verdicts) + Send,
    ) -> (Vec<Vec<Vec<u8>>>, Vec<Punted>, Verdicts) {
        let (mut burst, mut verdicts) = (source(packets), Verdicts::new(4));
        let mut punts = Taker(vec![], most_punts);
        Passes::default().run(&mut Staged(pipeline), &mut burst, &FROM, &mut verdicts, &mut punts);
        let Taker(punts, _) = punts;
        let mut leaving = vec![vec![]; 4];
        for batch in verdicts.batches() {
            for (place, &i) in batch.indices().as_slice().iter().enumerate() {
                let bytes = edited(&burst, i.into(), verdicts.edits(), batch.edit(place));
                leaving[usize::from(batch.port().0)].push(bytes);
            }
        }
        let left: usize = leaving.iter().map(Vec::len).sum();
        let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
        let out = left as u64 + dropped + verdicts.punted();
        assert_eq!(packets as u64 + verdicts.replicated(), out, "the sums agree");
        assert_eq!(verdicts.punted(), punts.len() as u64);
        (leaving, punts, verdicts)
    }

    fn edited(burst: &Burst, i: usize, edits: &Edits, edit: EditId) -> Vec<u8> {
        let mut made = Burst::new();
        made.begin_from(burst);
        made.push_edited(burst, i, edits, edit).unwrap();
        made.head(0).to_vec()
    }

    fn again(stage: u32) -> Context {
        Context { stage, ..FROM }
    }

    #[test]
    fn decapsulated_packet_is_recirculated_and_tagged() {
        let (leaving, _, verdicts) = run(40, 0, |burst, i, context, verdicts| {
            if context.stage == 0 {
                // A mirror gets the packet as received.
                verdicts.emit(i, PortId(3), EditId::NONE);
                let decapsulate = verdicts.edit(&Edit::splice(0, 20, &[]).unwrap());
                return verdicts.recirculate(i, again(1), decapsulate);
            }
            assert_eq!((burst.frame_len(i), burst.head(i)[0]), (40, 20));
            let tag = verdicts.edit(&Edit::splice(12, 0, &[9; 4]).unwrap());
            verdicts.emit(i, PortId(u16::from(burst.head(i)[39]) % 2), tag);
        });
        let inner: Vec<u8> = (20..59).collect();
        let tagged = |k: u8| [&inner[..12], &[9; 4], &inner[12..], &[k]].concat();
        assert_eq!(leaving[0], (0..40).step_by(2).map(tagged).collect::<Vec<_>>());
        assert_eq!(leaving[1], (1..40).step_by(2).map(tagged).collect::<Vec<_>>());
        assert_eq!((leaving[3].len(), leaving[3][5].len(), verdicts.replicated()), (40, 60, 40));
    }

    #[test]
    fn notes_survive_recirculation() {
        let mut classes = vec![];
        run(2, 0, |burst, i, context, verdicts| {
            let class = burst.notes(i).class;
            classes.push((context.stage, i, class));
            burst.set_notes(i, Notes { class: class + 1 + i as u8, ..Notes::default() });
            let strip = verdicts.edit(&Edit::splice(0, 10, &[]).unwrap());
            if context.stage < 3 {
                verdicts.recirculate(
                    i,
                    again(context.stage + 1),
                    if context.stage == 1 { strip } else { EditId::NONE },
                );
            }
        });
        assert_eq!(
            classes,
            [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 2), (2, 0, 2), (2, 1, 4), (3, 0, 3), (3, 1, 6)]
        );
    }

    #[test]
    fn recirculated_copies_share_their_edit() {
        let (leaving, _, verdicts) = run(64, 0, |_, i, context, verdicts| {
            let strip = verdicts.edit(&Edit::splice(0, 4, &[]).unwrap());
            if context.stage == 0 {
                return verdicts.recirculate(i, again(1), strip);
            }
            (0..4).for_each(|port| verdicts.emit(i, PortId(port), strip));
        });
        assert!(leaving.iter().flatten().all(|frame| frame.len() == 52));
        assert_eq!(verdicts.edits().len(), 64 + 64, "one of the first pass for each, and one behind it");
    }

    #[test]
    fn recirculation_is_limited() {
        let mut calls = 0;
        let (_, _, verdicts) = run(2, 0, |_, i, context, verdicts| {
            calls += 1;
            verdicts.recirculate(i, again(context.stage + 1), EditId::NONE);
        });
        assert_eq!(verdicts.dropped().unwrap().drops[DropReason::RecirculationLimit as usize], 2);
        assert_eq!(calls, 2 * MAX_PASSES);
        let mut calls = 0;
        run(64, 0, |_, i, context, verdicts| {
            calls += 1;
            (0..3).for_each(|_| verdicts.recirculate(i, again(context.stage + 1), EditId::NONE));
        });
        assert_eq!(calls, BURST + MAX_AGAIN, "a packet that multiplies is bounded as well");
    }

    #[test]
    fn punted_packets_match_the_pipeline_and_are_limited() {
        let (leaving, punts, verdicts) = run(10, 12, |burst, i, context, verdicts| {
            if context.stage == 0 {
                let strip = verdicts.edit(&Edit::splice(0, 4, &[]).unwrap());
                verdicts.recirculate(i, again(1), strip);
                verdicts.punt(i, PuntReason::NoMatch);
            } else if burst.head(i)[55] < 5 {
                verdicts.punt(i, PuntReason::Action);
            } else {
                verdicts.emit(i, PortId(2), EditId::NONE);
            }
        });
        assert_eq!((leaving[2].len(), punts.len()), (5, 12));
        assert_eq!(verdicts.dropped().unwrap().drops[DropReason::PuntFull as usize], 3);
        assert!(punts[..10].iter().enumerate().all(|(k, packet)| {
            (packet.reason, packet.frame.len(), packet.frame[59], packet.context)
                == (PuntReason::NoMatch, 60, k as u8, FROM)
        }));
        assert_eq!((punts[11].frame.len(), punts[11].frame[55], punts[11].context.stage), (56, 1, 1));
    }
}
