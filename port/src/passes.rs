//! A burst's way through a pipeline: once, and again for packets that it recirculates.
//!
//! Packets that pass through again are put into a burst of their own, as their edits leave them, and the verdicts on them
//! become verdicts on the packets that were received: their edits are applied one after the other when they leave. So a
//! packet's buffers, its order and what is carried over from turn to turn are the same with and without recirculation.
//! A packet passes [`MOST_PASSES`] times at most, and all packets of a burst together [`MOST_AGAIN`] times.

use crate::verdicts::Recirculated;
use crate::{BURST, Burst, Context, DropReason, Pipeline, PuntReason, Punted, Verdicts, work};
use mem::copy::Portable;

/// Most passes of a packet through a pipeline, the first included.
pub const MOST_PASSES: usize = 8;

/// Most recirculated packets of a burst, all passes together.
const MOST_AGAIN: usize = 8 * BURST;

/// What passes after the first need; one per worker, reused.
#[derive(Debug, Default)]
pub struct Passes {
    again: Option<Box<Again>>,
}

#[derive(Debug)]
struct Again {
    burst: Burst,
    verdicts: Verdicts,
}

impl Passes {
    /// Has `pipeline` give verdicts on every packet of `burst`. `punt` hands a packet to the control plane, or returns `false`
    /// if it takes no more.
    #[inline(always)]
    pub fn run(
        &mut self,
        pipeline: &mut dyn Pipeline,
        burst: &mut Burst,
        context: &Context,
        verdicts: &mut Verdicts,
        mut punt: impl FnMut(Punted) -> bool,
    ) {
        verdicts.clear();
        pipeline.process(burst, context, verdicts);
        verdicts.finish(burst.len());
        if verdicts.has_more() {
            self.run_again(pipeline, burst, context, verdicts, &mut punt);
        }
    }

    #[cold]
    fn run_again(
        &mut self,
        pipeline: &mut dyn Pipeline,
        burst: &Burst,
        context: &Context,
        verdicts: &mut Verdicts,
        punt: &mut dyn FnMut(Punted) -> bool,
    ) {
        hand_over(burst, context, verdicts, punt);
        let again = self.again.get_or_insert_with(|| {
            Box::new(Again { burst: Burst::new(), verdicts: Verdicts::new(verdicts.ports()) })
        });
        let mut left = MOST_AGAIN;
        for _ in 1..MOST_PASSES {
            let packets = verdicts.take_recirculated();
            let (taken, beyond) = packets.split_at(packets.len().min(left));
            left -= taken.len();
            for _ in beyond {
                verdicts.lose(DropReason::RecirculationLimit);
            }
            for alike in taken.chunk_by(|one, next| one.context == next.context) {
                alike.chunks(BURST).for_each(|packets| again.pass(pipeline, burst, packets, verdicts, punt));
            }
        }
        for _ in verdicts.take_recirculated() {
            verdicts.lose(DropReason::RecirculationLimit);
        }
        // No map stays mapped for a burst that is done with.
        again.burst.unpin();
    }
}

impl Again {
    /// One pass of up to a burst of packets that have the same context.
    fn pass(
        &mut self,
        pipeline: &mut dyn Pipeline,
        source: &Burst,
        packets: &[Recirculated],
        verdicts: &mut Verdicts,
        punt: &mut dyn FnMut(Punted) -> bool,
    ) {
        let mut origins = Vec::with_capacity(packets.len());
        self.burst.begin_from(source);
        for again in packets {
            let i = usize::from(again.packet);
            if self.burst.push_edited(source, i, verdicts.edits(), again.edit) {
                self.burst.set_notes(origins.len(), source.notes(i));
                origins.push(*again);
            } else {
                verdicts.lose(DropReason::TooShort);
            }
        }
        let Some(Recirculated { context, .. }) = origins.first() else { return };
        self.verdicts.clear();
        pipeline.process(&mut self.burst, context, &mut self.verdicts);
        self.verdicts.finish(origins.len());
        self.verdicts.charge(origins.len() as u64 * (work::RECEIVED + work::EDIT));
        hand_over(&self.burst, context, &mut self.verdicts, punt);
        verdicts.absorb(&self.verdicts, &origins);
    }
}

/// Hands the punted packets of `burst` to the control plane.
fn hand_over(
    burst: &Burst,
    context: &Context,
    verdicts: &mut Verdicts,
    punt: &mut dyn FnMut(Punted) -> bool,
) {
    for (i, reason) in verdicts.take_punts() {
        let packet = punted(burst, i.into(), context, reason);
        verdicts.charge(work::SENT + packet.frame.len() as u64 / work::BYTES);
        if !punt(packet) {
            verdicts.lose_punted();
        }
    }
}

fn punted(burst: &Burst, i: usize, context: &Context, reason: PuntReason) -> Punted {
    let mut frame = vec![0; burst.frame_len(i)].into_boxed_slice();
    burst.frame(i).copy_to::<Portable>(&mut frame);
    Punted { context: *context, reason, frame }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, EditId, Edits, Now, PortId, Tally};

    /// Packets are numbered by their last byte. At each stage a pipeline does something with every packet.
    struct Staged<F>(F);

    impl<F: FnMut(&Burst, usize, &Context, &mut Verdicts) + Send> Pipeline for Staged<F> {
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

    /// What leaves by each of four ports, and what is punted.
    fn run(
        packets: usize,
        most_punts: usize,
        pipeline: impl FnMut(&Burst, usize, &Context, &mut Verdicts) + Send,
    ) -> (Vec<Vec<Vec<u8>>>, Vec<Punted>, Verdicts) {
        let (mut burst, mut verdicts, mut punts) = (source(packets), Verdicts::new(4), vec![]);
        Passes::default().run(&mut Staged(pipeline), &mut burst, &FROM, &mut verdicts, |packet| {
            punts.push(packet);
            punts.len() <= most_punts
        });
        punts.truncate(most_punts);
        let mut leaving = vec![vec![]; 4];
        for batch in verdicts.batches() {
            for (place, &i) in batch.indices().as_slice().iter().enumerate() {
                let bytes = edited(&burst, i.into(), verdicts.edits(), batch.edit(place));
                leaving[usize::from(batch.port().0)].push(bytes);
            }
        }
        let left: usize = leaving.iter().map(Vec::len).sum();
        let dropped = verdicts.dropped().map_or(0, Tally::dropped);
        let out = left as u64 + dropped + verdicts.punted();
        assert_eq!(packets as u64 + verdicts.replicated(), out, "the sums agree");
        assert_eq!(verdicts.punted(), punts.len() as u64);
        (leaving, punts, verdicts)
    }

    fn edited(burst: &Burst, i: usize, edits: &Edits, edit: EditId) -> Vec<u8> {
        let mut made = Burst::new();
        made.begin_from(burst);
        assert!(made.push_edited(burst, i, edits, edit));
        made.head(0).to_vec()
    }

    fn again(stage: u32) -> Context {
        Context { stage, ..FROM }
    }

    #[test]
    fn a_packet_is_decapsulated_looked_up_again_and_tagged() {
        let (leaving, _, verdicts) = run(40, 0, |burst, i, context, verdicts| {
            if context.stage == 0 {
                // A mirror sees the packet as it came.
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
    fn packets_do_not_go_round_for_ever() {
        let mut calls = 0;
        let (_, _, verdicts) = run(2, 0, |_, i, context, verdicts| {
            calls += 1;
            verdicts.recirculate(i, again(context.stage + 1), EditId::NONE);
        });
        assert_eq!(verdicts.dropped().unwrap().drops[DropReason::RecirculationLimit as usize], 2);
        assert_eq!(calls, 2 * MOST_PASSES);
        let mut calls = 0;
        run(64, 0, |_, i, context, verdicts| {
            calls += 1;
            (0..3).for_each(|_| verdicts.recirculate(i, again(context.stage + 1), EditId::NONE));
        });
        assert_eq!(calls, BURST + MOST_AGAIN, "a packet that multiplies is bounded as well");
    }

    #[test]
    fn punted_packets_are_those_that_the_pipeline_saw_and_are_bounded() {
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
