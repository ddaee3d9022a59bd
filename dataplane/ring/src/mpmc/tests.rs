use super::*;
use crate::mock::scale;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[test]
fn items_keep_their_order() {
    let ring = Ring::new(4);
    assert_eq!(ring.pop(), None);
    assert_eq!(ring.push_slice(&[1, 2, 3]), 3);
    assert_eq!(ring.push(4), Ok(()));
    assert_eq!(ring.push(5), Err(5), "the item comes back when the ring is full");
    let mut out = vec![];
    assert_eq!(ring.pop_all(&mut out, 3), 3);
    assert_eq!((out, ring.pop(), ring.pop()), (vec![1, 2, 3], Some(4), None));
}

#[test]
fn the_capacity_is_a_power_of_two_of_at_least_two() {
    for (asked, given) in [(0, 2), (1, 2), (2, 2), (3, 4), (100, 128)] {
        assert_eq!(Ring::<u8>::new(asked).capacity(), given);
    }
}

#[test]
fn items_that_do_not_fit_stay_in_the_vector() {
    let ring = Ring::new(2);
    let mut items = vec!['a', 'b', 'c'];
    assert_eq!(ring.push_all(&mut items), 2);
    assert_eq!(items, ['c']);
    assert_eq!(ring.push_all(&mut items), 0);
}

#[test]
fn ring_drops_remaining_items_once() {
    let item = Arc::new(());
    let ring = Ring::new(8);
    ring.push_all(&mut vec![item.clone(); 6]);
    drop(ring.pop());
    assert_eq!(Arc::strong_count(&item), 6);
    drop(ring);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn positions_are_on_separate_cache_lines() {
    assert!(core::mem::offset_of!(Ring<u8>, tail).abs_diff(core::mem::offset_of!(Ring<u8>, head)) >= 128);
    assert!(core::mem::offset_of!(Ring<u8>, slots).is_multiple_of(128));
}

/// Each producer sends its own ascending numbers; each consumer must see ascending numbers per producer, and all
/// consumers together must see each number once.
#[test]
fn many_threads_lose_duplicate_and_reorder_nothing() {
    const PRODUCERS: u64 = 3;
    const EACH: u64 = scale(30_000, 60);
    let ring = Ring::new(32);
    let taken = AtomicU64::new(0);
    let seen: Vec<Vec<u64>> = std::thread::scope(|s| {
        for producer in 0..PRODUCERS {
            let ring = &ring;
            s.spawn(move || {
                let mut items: Vec<u64> = (0..EACH).map(|i| producer * EACH + i).collect();
                let mut chunk: Vec<u64> = vec![];
                while !items.is_empty() || !chunk.is_empty() {
                    let more = (5 - chunk.len()).min(items.len());
                    chunk.extend(items.drain(..more));
                    if ring.push_all(&mut chunk) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let consume = || {
            let mut seen = vec![];
            while taken.load(Ordering::Relaxed) < PRODUCERS * EACH {
                let count = ring.pop_all(&mut seen, 7);
                taken.fetch_add(count as u64, Ordering::Relaxed);
                if count == 0 {
                    std::thread::yield_now();
                }
            }
            seen
        };
        let consumers = [s.spawn(consume), s.spawn(consume)];
        consumers.map(|c| c.join().unwrap()).into()
    });
    for one in &seen {
        for producer in 0..PRODUCERS {
            assert!(one.iter().filter(|&i| i / EACH == producer).is_sorted());
        }
    }
    let mut all = seen.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..PRODUCERS * EACH));
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushAll(usize),
    PushSlice(usize),
    Pop,
    PopAll(usize),
    PopSlice(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        (0..20_usize).prop_map(Step::PushAll),
        (0..20_usize).prop_map(Step::PushSlice),
        Just(Step::Pop),
        (0..20_usize).prop_map(Step::PopAll),
        (0..20_usize).prop_map(Step::PopSlice),
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
    fn behaves_as_a_bounded_queue_in_one_thread(
        capacity in 1..20_usize,
        before in 0..40_usize,
        steps in prop::collection::vec(step(), 0..scale(80, 20)),
    ) {
        let ring = Ring::<u64>::starting_at(capacity, usize::MAX - before);
        let mut model = VecDeque::new();
        let mut serial = 0..;
        for step in steps {
            let room = ring.capacity() - model.len();
            match step {
                Step::Push => {
                    let item = serial.next().unwrap();
                    prop_assert_eq!(ring.push(item).is_ok(), room > 0);
                    if room > 0 { model.push_back(item); }
                }
                Step::PushAll(n) | Step::PushSlice(n) => {
                    let mut items: Vec<u64> = serial.by_ref().take(n).collect();
                    let fit = n.min(room);
                    model.extend(&items[..fit]);
                    let pushed = match step {
                        Step::PushAll(_) => ring.push_all(&mut items),
                        _ => ring.push_slice(&items),
                    };
                    prop_assert_eq!(pushed, fit);
                }
                Step::Pop => prop_assert_eq!(ring.pop(), model.pop_front()),
                Step::PopAll(n) => {
                    let mut items = vec![];
                    prop_assert_eq!(ring.pop_all(&mut items, n), n.min(model.len()));
                    prop_assert_eq!(&items, &model.drain(..items.len()).collect::<Vec<_>>());
                }
                Step::PopSlice(n) => {
                    let mut items = vec![0; n];
                    let popped = ring.pop_slice(&mut items);
                    prop_assert_eq!(popped, n.min(model.len()));
                    prop_assert_eq!(&items[..popped], &model.drain(..popped).collect::<Vec<_>>());
                }
            }
        }
    }
}
