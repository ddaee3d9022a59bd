//! A locked exchange is atomic under contention and returns the value found.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::small;
use crate::Prefetchers;
use crate::memory::{Memory, Width};
use crate::run::Body;
use crate::{Machine, Profile, Simulated, run};

const COUNT: u64 = 128;

/// Increments until an exchange succeeds; returns the number of failed exchanges.
fn add(memory: &mut Simulated<'_>) -> u64 {
    let mut failed = 0;
    let mut seen = memory.load(COUNT, Width::Eight);
    loop {
        let found = memory.exchange(COUNT, Width::Eight, seen, seen + 1);
        if found == seen {
            return failed;
        }
        (seen, failed) = (found, failed + 1);
    }
}

/// Runs `cores` cores with `times` increments each; returns the sum and the number of failed exchanges.
fn race(profile: &Profile, cores: u64, times: u64, work: u64) -> (u64, u64) {
    let machine = Machine::new(profile, cores as usize, 4096, Prefetchers { stream: true, adjacent: true });
    let failed = Rc::new(Cell::new(0));
    let body = |core: u64| -> Body {
        let failed = Rc::clone(&failed);
        Box::new(move |memory| {
            for n in 0..times {
                failed.set(failed.get() + add(memory));
                memory.store(1024 + core * 64, Width::Eight, n);
                memory.work(work * (core + 1));
            }
        })
    };
    let machine = run(machine, (0..cores).map(body).collect()).expect("no core waits");
    (machine.peek(COUNT, Width::Eight), failed.get())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn concurrent_atomic_additions_are_all_counted(cores in 1..=8_u64, times in 1..30_u64, work in 0..300_u64, tiny in any::<bool>()) {
        let profile = if tiny { small() } else { Profile::study() };
        let (sum, failed) = race(&profile, cores, times, work);
        prop_assert_eq!(sum, cores * times);
        prop_assert!(cores > 1 || failed == 0, "a single core has no competitor");
    }
}

#[test]
fn concurrent_exchanges_of_one_word_fail_at_times() {
    let (sum, failed) = race(&Profile::study(), 4, 50, 10);
    assert_eq!(sum, 200);
    assert!(failed > 0, "four cores exchange a word without a conflict");
}

#[test]
fn earlier_stores_are_visible_when_an_exchange_is_done() {
    let machine = Machine::new(&Profile::study(), 2, 4096, Prefetchers { stream: true, adjacent: true });
    let one: Body = Box::new(|memory| {
        memory.store(512, Width::Eight, 7);
        memory.exchange(COUNT, Width::Eight, 0, 1);
    });
    let other: Body = Box::new(|memory| {
        memory.load_until(COUNT, Width::Eight, |value| value == 1);
        assert_eq!(memory.load(512, Width::Eight), 7);
        assert_eq!(memory.exchange(COUNT, Width::Eight, 5, 9), 1, "what is there is said");
    });
    let machine = run(machine, vec![one, other]).expect("the first goes first");
    assert_eq!(machine.peek(COUNT, Width::Eight), 1, "and stays where something else was expected");
}
