//! Loom models of one producer and one consumer, with a preemption bound.

use super::*;
use loom::thread;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn loom_items_arrive_in_order_through_a_ring_that_wraps() {
    model(|| {
        let (mut producer, mut consumer) = ring_at(2, usize::MAX);
        let sender = thread::spawn(move || {
            for item in 0..3 {
                while producer.push(Box::new(item)).is_err() {
                    thread::yield_now();
                }
            }
        });
        for expected in 0..3 {
            let item = loop {
                match consumer.pop() {
                    Some(item) => break item,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(*item, expected);
        }
        sender.join().unwrap();
        assert!(consumer.pop().is_none());
    });
}

#[test]
fn loom_batches_arrive_completely_and_the_rest_is_dropped() {
    model(|| {
        let item = loom::sync::Arc::new(());
        let (mut producer, mut consumer) = ring(2);
        let items = [item.clone(), item.clone(), item.clone()];
        let sender = thread::spawn(move || {
            let mut items = items.into_iter();
            let first = producer.push_all(&mut items);
            first + producer.push_all(&mut items)
        });
        let taken = consumer.drain(2).count() + consumer.drain(1).count();
        let sent = sender.join().unwrap();
        assert!((2..=3).contains(&sent) && taken <= sent);
        drop(consumer);
        assert_eq!(loom::sync::Arc::strong_count(&item), 1);
    });
}

#[test]
fn loom_slices_arrive_in_order_through_a_ring_that_wraps() {
    model(|| {
        // The second of two slots is at position usize::MAX, so a slice of two wraps.
        let (mut producer, mut consumer) = ring_at(2, usize::MAX);
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while sent < 3 {
                match producer.push_slice(&[1, 2, 3][sent..]) {
                    0 => thread::yield_now(),
                    n => sent += n,
                }
            }
        });
        let (mut came, mut items) = (0, [0; 3]);
        while came < 3 {
            match consumer.pop_slice(&mut items[came..]) {
                0 => thread::yield_now(),
                n => came += n,
            }
        }
        assert_eq!(items, [1, 2, 3]);
        sender.join().unwrap();
        assert_eq!(consumer.pop_slice(&mut items), 0);
    });
}
