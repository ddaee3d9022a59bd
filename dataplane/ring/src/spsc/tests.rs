use super::*;
use crate::mock::scale;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc as StdArc;

#[test]
fn items_keep_their_order() {
    let (mut producer, mut consumer) = ring(4);
    assert_eq!(consumer.pop(), None);
    for i in 0..4 {
        assert_eq!(producer.push(i), Ok(()));
    }
    assert_eq!(producer.push(4), Err(4), "the item comes back when the ring is full");
    assert_eq!(consumer.drain(3).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(producer.push(5), Ok(()));
    assert_eq!(consumer.drain(9).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn the_capacity_is_the_next_power_of_two() {
    for (asked, given) in [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)] {
        let (producer, consumer) = ring::<u8>(asked);
        assert_eq!((producer.capacity(), consumer.capacity()), (given, given));
    }
}

#[test]
fn item_that_does_not_fit_stays_in_the_iterator() {
    let (mut producer, _consumer) = ring(2);
    let mut items = 0..5;
    assert_eq!(producer.push_all(&mut items), 2);
    assert_eq!(items, 2..5);
    assert_eq!(producer.push_all(&mut items), 0);
    assert_eq!(items, 2..5);
}

#[test]
fn count_while_removes_nothing() {
    let (mut producer, mut consumer) = ring(8);
    for start in 0..20 {
        assert_eq!(producer.push_all(&mut (start..start + 6)), 6);
        assert_eq!(consumer.count_while(4, |item| *item < start + 3), 3);
        assert_eq!(consumer.count_while(2, |_| true), 2);
        assert_eq!(consumer.count_while(9, |_| true), 6);
        assert_eq!(consumer.drain(9).collect::<Vec<_>>(), (start..start + 6).collect::<Vec<_>>());
    }
    assert_eq!(consumer.count_while(1, |_| true), 0);
}

#[test]
fn items_not_drained_stay() {
    let (mut producer, mut consumer) = ring(4);
    producer.push_slice(&[1, 2, 3, 4]);
    let mut drain = consumer.drain(4);
    assert_eq!((drain.next(), drain.len()), (Some(1), 3));
    drop(drain);
    assert_eq!(producer.room(4), 1);
    assert_eq!(consumer.drain(4).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn ring_drops_remaining_items_once() {
    let item = StdArc::new(());
    let (mut producer, mut consumer) = ring(8);
    producer.push_all(&mut (0..6).map(|_| item.clone()));
    drop(consumer.pop());
    assert_eq!(StdArc::strong_count(&item), 6);
    drop(consumer);
    assert_eq!(StdArc::strong_count(&item), 6, "the producer still holds the ring");
    drop(producer);
    assert_eq!(StdArc::strong_count(&item), 1);
}

#[test]
fn panicking_iterator_loses_no_yielded_item() {
    let (mut producer, mut consumer) = ring(8);
    let mut items = (0..8).inspect(|&i| assert!(i < 3, "as planned"));
    let push = std::panic::AssertUnwindSafe(|| producer.push_all(&mut items));
    assert!(std::panic::catch_unwind(push).is_err());
    assert_eq!(consumer.drain(8).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn panicking_closure_gets_no_item_twice() {
    let item = StdArc::new(());
    let (mut producer, mut consumer) = ring(4);
    producer.push_all(&mut (0..4).map(|i| (i, item.clone())));
    let mut seen = 0;
    let fold = std::panic::AssertUnwindSafe(|| {
        consumer.drain(4).for_each(|(i, _item)| {
            assert!(i < 1, "as planned");
            seen += 1;
        });
    });
    assert!(std::panic::catch_unwind(fold).is_err());
    assert_eq!((seen, StdArc::strong_count(&item)), (1, 3));
    assert_eq!(consumer.drain(4).map(|(i, _)| i).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(StdArc::strong_count(&item), 1);
}

#[test]
fn empty_push_or_pop_publishes_nothing() {
    let (mut producer, mut consumer) = ring(2);
    assert_eq!((producer.push_slice(&[]), producer.push_all(&mut core::iter::empty())), (0, 0));
    assert_eq!(consumer.drain(4).len(), 0);
    assert_eq!((consumer.pop_slice(&mut [0; 4]), consumer.ready(1)), (0, 0));
    assert_eq!(producer.push_slice(&[1, 2, 3]), 2);
    drop(consumer.drain(2));
    assert_eq!(
        (producer.room(1), consumer.ready(9)),
        (0, 2),
        "a drain that hands out nothing gives nothing back"
    );
}

/// The slice sizes do not divide the capacity, so both sides wrap in all ways.
#[test]
fn slices_cross_two_threads_in_order() {
    const COUNT: u64 = scale(200_000, 300);
    let (mut producer, mut consumer) = ring::<u64>(64);
    std::thread::scope(|s| {
        s.spawn(move || {
            let mut next = 0;
            while next < COUNT {
                let items: Vec<u64> = (next..COUNT.min(next + 13)).collect();
                next += producer.push_slice(&items) as u64;
                std::thread::yield_now();
            }
        });
        let (mut expected, mut items) = (0, [0; 17]);
        while expected < COUNT {
            let came = consumer.pop_slice(&mut items);
            for &item in &items[..came] {
                assert_eq!(item, expected);
                expected += 1;
            }
            std::thread::yield_now();
        }
    });
}

#[test]
fn positions_are_on_separate_cache_lines() {
    assert!(core::mem::offset_of!(Ring<u8>, tail).abs_diff(core::mem::offset_of!(Ring<u8>, head)) >= 128);
    assert!(core::mem::offset_of!(Ring<u8>, slots).is_multiple_of(128));
}

#[test]
fn every_item_crosses_two_threads_in_order() {
    const COUNT: u64 = scale(200_000, 300);
    let (mut producer, mut consumer) = ring(64);
    std::thread::scope(|s| {
        s.spawn(move || {
            let mut items = 0..COUNT;
            while !items.is_empty() {
                if producer.push_all(&mut items.by_ref().take(7)) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < COUNT {
            for item in consumer.drain(5) {
                assert_eq!(item, expected);
                expected += 1;
            }
            std::thread::yield_now();
        }
    });
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushAll(usize),
    PushSlice(usize),
    Pop,
    Drain { most: usize, take: usize },
    PopSlice(usize),
    Fold(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        (0..20_usize).prop_map(Step::PushAll),
        (0..20_usize).prop_map(Step::PushSlice),
        Just(Step::Pop),
        (0..20_usize, 0..20_usize).prop_map(|(most, take)| Step::Drain { most, take }),
        (0..20_usize).prop_map(Step::PopSlice),
        (0..20_usize).prop_map(Step::Fold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scale(256, 4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Positions start just before the integer wraps, so every sufficiently long case crosses it.
    #[test]
    fn ring_behaves_as_a_bounded_queue(capacity in 1..20_usize, before in 0..40_usize, steps in prop::collection::vec(step(), 0..scale(80, 20))) {
        let (mut producer, mut consumer) = ring_at::<u64>(capacity, usize::MAX - before);
        let mut model = VecDeque::new();
        let mut serial = 0..;
        for step in steps {
            let room = producer.capacity() - model.len();
            match step {
                Step::Push => {
                    let item = serial.next().unwrap();
                    prop_assert_eq!(producer.push(item).is_ok(), room > 0);
                    if room > 0 { model.push_back(item); }
                }
                Step::PushAll(n) | Step::PushSlice(n) => {
                    let items: Vec<u64> = serial.by_ref().take(n).collect();
                    let pushed = match step {
                        Step::PushAll(_) => producer.push_all(&mut items.iter().copied()),
                        _ => producer.push_slice(&items),
                    };
                    prop_assert_eq!(pushed, n.min(room));
                    model.extend(&items[..pushed]);
                }
                Step::Pop => prop_assert_eq!(consumer.pop(), model.pop_front()),
                Step::Drain { most, take } => {
                    let got: Vec<u64> = consumer.drain(most).take(take).collect();
                    let n = most.min(take).min(model.len());
                    prop_assert_eq!(got, model.drain(..n).collect::<Vec<_>>());
                }
                Step::Fold(n) => {
                    let mut got = vec![];
                    consumer.drain(n).for_each(|item| got.push(item));
                    prop_assert_eq!(&got, &model.drain(..n.min(model.len())).collect::<Vec<_>>());
                }
                Step::PopSlice(n) => {
                    let mut items = vec![0; n];
                    let popped = consumer.pop_slice(&mut items);
                    prop_assert_eq!(popped, n.min(model.len()));
                    prop_assert_eq!(&items[..popped], &model.drain(..popped).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(consumer.ready(usize::MAX), model.len());
        }
    }
}

/// Increments its counter when dropped.
struct Counted(usize, StdArc<[AtomicUsize]>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug)]
enum Taking {
    Pop,
    Drop(usize),
    Forget(usize),
}

fn taking() -> impl Strategy<Value = (usize, Taking)> {
    let how = prop_oneof![
        Just(Taking::Pop),
        (0..6_usize).prop_map(Taking::Drop),
        (0..6_usize).prop_map(Taking::Forget),
    ];
    (0..6_usize, how)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: scale(256, 4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each step pushes some items, then takes; a drain of four yields the given number.
    #[test]
    fn leaked_drains_drop_each_item_at_most_once(
        steps in prop::collection::vec(taking(), 0..scale(40, 12)), before in 0..9_usize, producer_first: bool,
    ) {
        let drops: StdArc<[AtomicUsize]> = (0..240).map(|_| AtomicUsize::new(0)).collect();
        let (mut producer, mut consumer) = ring_at(4, usize::MAX - before);
        let (mut model, mut lost, mut serial) = (VecDeque::new(), vec![], 0);
        for (pushes, how) in steps {
            // Calling `ready` on an empty ring releases the slots of a leaked drain.
            let ready = consumer.ready(4);
            prop_assert_eq!(ready, model.len());
            prop_assert!(ready > 0 || producer.room(4) == 4);
            let room = producer.room(4);
            let pushed = producer.push_all(&mut (serial..serial + pushes).map(|i| Counted(i, drops.clone())));
            prop_assert_eq!(pushed, pushes.min(room));
            model.extend(serial..serial + pushed);
            serial += pushed;
            let got: Vec<usize> = match how {
                Taking::Pop => consumer.pop().iter().map(|item| item.0).collect(),
                Taking::Drop(n) => consumer.drain(4).take(n).map(|item| item.0).collect(),
                Taking::Forget(n) => {
                    let mut drain = consumer.drain(4);
                    let got = drain.by_ref().take(n).map(|item| item.0).collect();
                    std::mem::forget(drain);
                    got
                }
            };
            prop_assert_eq!(&got, &model.drain(..got.len()).collect::<Vec<_>>());
            if matches!(how, Taking::Forget(_)) {
                lost.extend(model.drain(..));
            }
        }
        if producer_first {
            drop((producer, consumer));
        } else {
            drop((consumer, producer));
        }
        for (i, drops) in drops[..serial].iter().enumerate() {
            prop_assert_eq!(drops.load(Ordering::Relaxed), usize::from(!lost.contains(&i)));
        }
    }
}

#[test]
fn full_ring_with_a_leaked_drain_has_space_again() {
    let (mut producer, mut consumer) = ring(2);
    assert_eq!(producer.push_slice(&[1, 2]), 2);
    std::mem::forget(consumer.drain(2));
    assert_eq!(producer.push(3), Err(3), "nothing was given back yet");
    assert_eq!(consumer.pop(), None);
    assert_eq!((producer.push(3), consumer.pop()), (Ok(()), Some(3)));
}

#[test]
fn leaked_drain_drops_nothing_twice() {
    let item = StdArc::new(());
    let (mut producer, mut consumer) = ring(4);
    for _ in 0..2 {
        assert!(producer.push(item.clone()).is_ok());
    }
    let mut drain = consumer.drain(2);
    let taken = drain.next();
    std::mem::forget(drain);
    assert_eq!(StdArc::strong_count(&item), 3);
    drop((producer, consumer));
    assert_eq!(StdArc::strong_count(&item), 3, "what it did not hand out is lost with it");
    drop(taken);
    assert_eq!(StdArc::strong_count(&item), 2);
}
