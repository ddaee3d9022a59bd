use super::load::{QueueSample, Sample, balance};
use super::shift::{Item, shift};
use super::watch::Watch;
use super::*;
use crate::command::{Generation, QueueKey};
use port::PortId;
use proptest::prelude::*;
use std::time::Duration;

fn item(worker: usize, load: f64) -> Item {
    Item { worker, load, free: true }
}

fn sums(items: &[Item], workers: usize) -> Vec<f64> {
    let of = |worker| items.iter().filter(|item| item.worker == worker).map(|item| item.load).sum();
    (0..workers).map(of).collect()
}

fn moves(items: &[Item], workers: usize, threshold: f64) -> Vec<(usize, usize)> {
    let open: Vec<usize> = (0..workers).collect();
    shift(&sums(items, workers), items, &open, threshold).0
}

#[test]
fn busiest_worker_moves_the_queue_with_the_largest_gain() {
    let items = [item(0, 0.5), item(0, 0.3), item(0, 0.1), item(1, 0.1)];
    assert_eq!(moves(&items, 2, 0.1), [(0, 1), (3, 0)]);
    assert_eq!(moves(&items[..3], 2, 0.1), [(0, 1)]);
    assert_eq!(moves(&[item(0, 0.9)], 2, 0.1), [], "one queue is as much to another worker");
}

#[test]
fn queues_are_exchanged_if_a_move_gains_nothing() {
    let items = [item(0, 0.5), item(0, 0.4), item(1, 0.3), item(1, 0.2)];
    let moves = moves(&items, 2, 0.1);
    let after =
        |at: usize| moves.iter().find(|(moved, _)| *moved == at).map_or(items[at].worker, |(_, to)| *to);
    let sum: f64 = (0..4).filter(|at| after(*at) == 0).map(|at| items[at].load).sum();
    assert!((sum - 0.7).abs() < 1e-9, "{moves:?}");
}

#[test]
fn no_move_below_the_threshold() {
    let items = [item(0, 0.4), item(0, 0.06), item(1, 0.35)];
    assert_eq!(moves(&items, 2, 0.1), []);
    assert_eq!(moves(&items, 2, 0.04), [(1, 1)]);
}

#[test]
fn bound_queues_and_reserved_workers_are_excluded() {
    let bound = [Item { free: false, ..item(0, 0.5) }, Item { free: false, ..item(0, 0.4) }];
    assert_eq!(moves(&bound, 2, 0.1), []);
    let items = [item(0, 0.5), item(0, 0.4)];
    assert_eq!(shift(&sums(&items, 3), &items, &[0, 2], 0.1).0, [(0, 2)]);
}

proptest! {
    /// The total load is constant, no worker exceeds the load of the busiest one before, and nothing moves for less
    /// than the threshold or to a worker that is not open.
    #[test]
    fn moves_reduce_the_maximum_load_and_keep_the_sum(
        queues in proptest::collection::vec((0_usize..5, 0.0_f64..0.4, any::<bool>()), 0..40),
        closed in 0_usize..5,
        threshold in 0.01_f64..0.5,
    ) {
        let items: Vec<Item> =
            queues.iter().map(|&(worker, load, free)| Item { worker, load, free }).collect();
        let open: Vec<usize> = (0..5).filter(|worker| *worker != closed).collect();
        let before = sums(&items, 5);
        let (moves, after) = shift(&before, &items, &open, threshold);
        let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        prop_assert!((before.iter().sum::<f64>() - after.iter().sum::<f64>()).abs() < 1e-9);
        prop_assert!(moves.is_empty() || most(&before) - most(&after) >= threshold - 1e-5);
        prop_assert!(moves.iter().all(|(at, to)| items[*at].free && *to != closed));
        let mut moved = items.clone();
        for (at, to) in &moves {
            moved[*at].worker = *to;
        }
        prop_assert!(sums(&moved, 5).iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}

const SECOND: u64 = 1_000_000_000;

fn key(port: u16) -> QueueKey {
    QueueKey { port: PortId(port), pair: 0 }
}

/// A sample of two workers after `seconds`; worker 0 is busy 90 % with queues 0 and 1, with equal packet counts.
fn uneven(seconds: u64) -> Sample {
    let queue = |port, worker, packets| QueueSample {
        key: key(port),
        generation: Generation(1),
        worker,
        packets,
        stays: None,
    };
    Sample {
        at_ns: seconds * SECOND,
        busy_ns: vec![Some(seconds * SECOND / 10 * 9), Some(seconds * SECOND / 10)],
        queues: vec![queue(0, 0, seconds * 1000), queue(1, 0, seconds * 1000), queue(2, 1, seconds * 10)],
        open: vec![0, 1],
    }
}

fn name(port: PortId) -> String {
    format!("p{}", port.0)
}

#[test]
fn queue_load_is_worker_time_by_packet_share() {
    let (balance, moves) = balance((&uneven(1), &uneven(3)), 0.1, |_| false, name);
    assert_eq!((balance.measured_ns, moves.as_slice()), (2 * SECOND, &[(key(0), 1)][..]));
    assert!((balance.queues[0].load - 0.45).abs() < 1e-9 && balance.queues[0].packets == 2000);
    let (before, after) = balance.worst();
    assert!((before - 0.9).abs() < 1e-9 && (after - 0.55).abs() < 1e-9, "{balance:?}");
    assert_eq!((balance.moves[0].port.as_str(), balance.moves[0].from, balance.moves[0].to), ("p0", 0, 1));
}

#[test]
fn restarted_queue_counts_from_zero() {
    let mut later = uneven(3);
    later.queues[0].generation = Generation(2);
    let (balance, _) = balance((&uneven(1), &later), 0.1, |_| false, name);
    assert_eq!(balance.queues[0].packets, 3000);
}

#[test]
fn unresponsive_worker_counts_as_busy() {
    let mut later = uneven(3);
    later.busy_ns[1] = None;
    let (balance, moves) = balance((&uneven(1), &later), 0.1, |_| false, name);
    assert!((balance.workers[1].before - 1.0).abs() < 1e-9 && moves.is_empty());
}

#[test]
fn two_evaluations_must_agree_and_moved_queues_are_held_down() {
    let wanted = Rebalancing { interval: Duration::from_secs(1), threshold: 0.1, moves: true };
    let mut watch = Watch::new(wanted);
    assert!(watch.evaluate(uneven(1), name).is_none(), "there is nothing to compare with");
    let second = watch.evaluate(uneven(2), name).unwrap();
    assert!(second.moves.is_empty() && second.balance.moves.len() == 1, "it is told, and not done");
    assert_eq!(watch.evaluate(uneven(3), name).unwrap().moves, [(key(0), 1)]);
    watch.moved([key(0)].into_iter());
    assert!(watch.evaluate(uneven(4), name).is_none(), "the measurement begins anew");
    watch.evaluate(uneven(5), name).unwrap();
    assert_eq!(watch.evaluate(uneven(6), name).unwrap().moves, [(key(1), 1)], "queue 0 rests");
}

#[test]
fn one_even_evaluation_resets_the_agreement() {
    let wanted = Rebalancing { interval: Duration::from_secs(1), threshold: 0.1, moves: true };
    let (mut watch, mut even) = (Watch::new(wanted), uneven(3));
    even.busy_ns = uneven(2).busy_ns;
    watch.evaluate(uneven(1), name);
    watch.evaluate(uneven(2), name);
    assert!(watch.evaluate(even.clone(), name).unwrap().moves.is_empty());
    let later = Sample { at_ns: 4 * SECOND, busy_ns: uneven(3).busy_ns, ..uneven(4) };
    assert!(watch.evaluate(later, name).unwrap().moves.is_empty());
}
