use super::*;
use proptest::prelude::*;

const PORTS: u16 = 5;

/// Emissions by port: packet and edit.
fn leaving(verdicts: &Verdicts) -> Vec<Vec<(u8, EditId)>> {
    let mut by_port = vec![vec![]; PORTS.into()];
    for batch in verdicts.batches() {
        let indices = batch.indices().as_slice().iter().enumerate();
        by_port[usize::from(batch.port().0)].extend(indices.map(|(place, &i)| (i, batch.edit(place))));
    }
    by_port
}

#[derive(Clone, Debug)]
enum Step {
    Emit(usize, u16, bool),
    Run(usize, usize, u16, bool),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..BURST, 0..PORTS, any::<bool>()).prop_map(|(i, to, edited)| Step::Emit(i, to, edited)),
        2 => (0..BURST, 0..=BURST, 0..PORTS, any::<bool>())
            .prop_map(|(from, to, port, edited)| Step::Run(from, to, port, edited)),
        1 => (0..BURST).prop_map(Step::Drop),
    ]
}

proptest! {
    #[test]
    fn emissions_keep_order_and_sums_agree(
        bursts in prop::collection::vec(prop::collection::vec(step(), 0..300), 1..4),
    ) {
        let mut verdicts = Verdicts::new(PORTS.into());
        for steps in bursts {
            verdicts.clear();
            let mut wanted = vec![vec![]; PORTS.into()];
            for step in steps {
                let mut edit = |edited| if edited { verdicts.edit(&Edit::default()) } else { EditId::NONE };
                match step {
                    Step::Emit(i, to, edited) => {
                        let edit = edit(edited);
                        verdicts.emit(i, PortId(to), edit);
                        wanted[usize::from(to)].push((i as u8, edit));
                    }
                    Step::Run(from, to, port, edited) => {
                        let edit = edit(edited);
                        verdicts.emit_run(from..to, PortId(port), edit);
                        wanted[usize::from(port)].extend((from..to).map(|i| (i as u8, edit)));
                    }
                    Step::Drop(i) => verdicts.drop(i, DropReason::NoDestination),
                }
            }
            verdicts.finish(BURST);
            prop_assert_eq!(leaving(&verdicts), wanted.clone());
            let left: usize = wanted.iter().map(Vec::len).sum();
            let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
            prop_assert_eq!(BURST as u64 + verdicts.replicated(), left as u64 + dropped);
        }
    }
}

proptest! {
    #[test]
    fn redirected_emissions_keep_order_edits_and_sums(
        steps in prop::collection::vec((0..BURST, 0..PORTS, any::<bool>()), 0..300),
        outcomes in prop::collection::vec(prop::option::of(1..PORTS), BURST),
    ) {
        // Port 0 stands for others.
        let mut verdicts = Verdicts::new(PORTS.into());
        let (mut plain, mut moved) = (vec![vec![]; PORTS.into()], vec![vec![]; PORTS.into()]);
        for (i, to, edited) in &steps {
            let edit = if *edited { verdicts.edit(&Edit::default()) } else { EditId::NONE };
            verdicts.emit(*i, PortId(*to), edit);
            let place = if *to == 0 { outcomes[*i].map(|to| &mut moved[usize::from(to)]) } else { Some(&mut plain[usize::from(*to)]) };
            if let Some(list) = place {
                list.push((*i as u8, edit));
            }
        }
        verdicts.redirect(PortId(0), DropReason::PortDown, |i| outcomes[i].map(PortId));
        verdicts.finish(BURST);
        let found = leaving(&verdicts);
        for ((found, plain), moved) in found.iter().zip(&plain).zip(&moved) {
            // Those of other emissions come after the port's own ones.
            prop_assert_eq!(found.clone(), [&plain[..], &moved[..]].concat());
        }
        let left: usize = found.iter().map(Vec::len).sum();
        let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
        prop_assert_eq!(BURST as u64 + verdicts.replicated(), left as u64 + dropped);
    }
}

#[test]
fn more_than_65535_batches_keep_their_ports() {
    let mut verdicts = Verdicts::new(3);
    verdicts.emit(0, PortId(2), EditId::NONE);
    (0..u16::MAX).for_each(|_| verdicts.emit_run(0..BURST, PortId(0), EditId::NONE));
    verdicts.emit(1, PortId(1), EditId::NONE);
    verdicts.emit(2, PortId(1), EditId::NONE);
    let of = |port| -> Vec<u8> {
        let batches = verdicts.batches().iter().filter(|batch| batch.port() == PortId(port));
        batches.flat_map(|batch| batch.indices().as_slice().to_vec()).collect()
    };
    assert_eq!((of(2), of(1)), (vec![0], vec![1, 2]));
    assert_eq!(of(0).len(), BURST * usize::from(u16::MAX));
}

#[test]
fn packet_without_a_verdict_is_dropped() {
    let mut verdicts = Verdicts::new(1);
    verdicts.finish(0);
    assert!(verdicts.dropped().is_none());
    verdicts.emit(1, PortId(0), EditId::NONE);
    verdicts.finish(3);
    assert_eq!(verdicts.dropped().unwrap().drops[DropReason::NoDestination as usize], 2);
}

#[test]
fn flooded_packets_are_known_until_the_next_burst() {
    let mut verdicts = Verdicts::new(4);
    verdicts.flood(2..4, [1, 2].map(PortId).into_iter());
    verdicts.emit_run(4..6, PortId(1), EditId::NONE);
    verdicts.mark_flooded(63..64);
    let flooded = |verdicts: &Verdicts| -> Vec<u8> {
        (0..BURST as u8).filter(|i| verdicts.flooded().contains(*i)).collect()
    };
    assert_eq!(flooded(&verdicts), [2, 3, 63]);
    let copies = verdicts.flooded().of_copies([4, 3, 63, 0].into_iter());
    assert_eq!((0..4).map(|k| copies.contains(k)).collect::<Vec<_>>(), [false, true, true, false]);
    verdicts.clear();
    assert_eq!(flooded(&verdicts), []);
}
