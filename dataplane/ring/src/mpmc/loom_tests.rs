//! Loom models of two producers and one consumer, or two of each with batches, with a preemption bound.

use super::*;
use loom::sync::Arc;
use loom::thread;

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

fn pop_waiting(ring: &Ring<Box<u32>>) -> u32 {
    loop {
        match ring.pop() {
            Some(item) => return *item,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn loom_two_producers_lose_and_duplicate_nothing() {
    model(2, || {
        let ring = Arc::new(Ring::starting_at(2, usize::MAX));
        let producers = [1, 2].map(|item| {
            let ring = ring.clone();
            thread::spawn(move || ring.push(Box::new(item)).unwrap())
        });
        let mut got = [pop_waiting(&ring), pop_waiting(&ring)];
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        assert!(ring.pop().is_none());
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}

#[test]
fn loom_two_consumers_take_each_item_once() {
    model(2, || {
        let ring = Arc::new(Ring::new(2));
        let consumers = [(); 2].map(|()| {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut got = vec![];
                ring.pop_all(&mut got, 2);
                got
            })
        });
        let mut items = vec![Box::new(0), Box::new(1), Box::new(2)];
        ring.push_all(&mut items);
        ring.push_all(&mut items);
        let mut got = consumers.map(|c| c.join().unwrap()).concat();
        ring.pop_all(&mut got, 2);
        got.append(&mut items);
        got.sort_unstable();
        assert_eq!(got.iter().map(|item| **item).collect::<Vec<_>>(), [0, 1, 2]);
    });
}

#[test]
fn loom_slot_is_refilled_only_after_it_was_emptied() {
    model(2, || {
        let ring = Arc::new(Ring::new(2));
        ring.push_all(&mut vec![Box::new(1), Box::new(2)]);
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || ring.push(Box::new(3)).is_ok())
        };
        let consumer = {
            let ring = ring.clone();
            thread::spawn(move || *ring.pop().unwrap())
        };
        let mut got = vec![*ring.pop().unwrap()];
        got.push(consumer.join().unwrap());
        let pushed = producer.join().unwrap();
        got.extend(ring.pop().map(|item| *item));
        got.sort_unstable();
        assert_eq!(got, if pushed { vec![1, 2, 3] } else { vec![1, 2] });
    });
}
