//! Waiting cores are woken, and only cores that no store can wake count as deadlocked.

use proptest::prelude::*;

use super::small;
use crate::Prefetchers;
use crate::memory::{Address, Copying, Memory, Width};
use crate::run::Body;
use crate::{Deadlock, Machine, Profile, Simulated, run};

fn machine(profile: &Profile, cores: usize) -> Machine {
    Machine::new(profile, cores, 64 * 64, Prefetchers { stream: true, adjacent: true })
}

fn await_value(memory: &mut Simulated<'_>, at: Address, wanted: u64) {
    while memory.load(at, Width::Four) != wanted {
        memory.pause(at);
    }
}

/// Activity of a core between two turns.
#[derive(Clone, Copy, Debug)]
struct Noise {
    at: Address,
    work: u64,
    past: bool,
}

/// Passes a count around: each core waits for its number at the previous core's address, and stores the next at its
/// own.
fn relay(memory: &mut Simulated<'_>, core: u64, cores: u64, apart: u64, rounds: u64, noise: Noise) {
    for round in 0..rounds {
        let turn = round * cores + core;
        if turn > 0 {
            await_value(memory, (core + cores - 1) % cores * apart, turn);
        }
        let how = if noise.past { Copying::NonTemporal } else { Copying::Avx2 };
        memory.copy(2048 + noise.at, noise.at, 64, how);
        memory.work(noise.work);
        memory.store(core * apart, Width::Four, turn + 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_waiting_core_that_will_be_woken_is_not_stuck(
        cores in 2..=4_u64,
        apart in prop_oneof![Just(4_u64), Just(64), Just(192)],
        tiny in any::<bool>(),
        noise in (1024..1900_u64, 0..300_u64, any::<bool>()).prop_map(|(at, work, past)| Noise { at, work, past }),
        near in any::<bool>(),
    ) {
        let profile = if tiny { small() } else { Profile::study() };
        // The noise touches either the lines that cores poll, or others; its bytes are not significant.
        let noise = if near { Noise { at: noise.at - 1024, ..noise } } else { noise };
        let body = |core: u64| -> Body { Box::new(move |memory| relay(memory, core, cores, apart, 12, noise)) };
        let done = run(machine(&profile, cores as usize), (0..cores).map(body).collect());
        let machine = done.expect("each core gets a turn");
        prop_assert_eq!(machine.peek((cores - 1) * apart, Width::Four), 12 * cores);
    }
}

#[test]
fn core_that_waits_without_a_pending_store_is_stuck() {
    let body = || -> Body { Box::new(|memory| await_value(memory, 0, 1)) };
    let result = run(machine(&Profile::study(), 2), vec![body(), body()]);
    assert_eq!(result.err(), Some(Deadlock));
}

#[test]
fn cores_without_a_thread_have_nothing_to_do() {
    let body: Body = Box::new(|memory| memory.store(0, Width::Four, 1));
    let machine = run(machine(&Profile::study(), 3), vec![body]).expect("one core runs");
    assert_eq!(machine.peek(0, Width::Four), 1);
}

/// Each side's poll fetches the adjacent line and takes it from the other side; the store that both wait for must still
/// become visible.
#[test]
fn cores_that_poll_neighbouring_lines_do_not_put_each_others_stores_off_for_ever() {
    let body = |core: u64| -> Body {
        let noise = Noise { at: 1100, work: 100, past: false };
        Box::new(move |memory| relay(memory, core, 2, 64, 12, noise))
    };
    for moves in [0.0, 1.0] {
        let mut profile = Profile::study();
        profile.migratory.value = moves;
        let done = run(machine(&profile, 2), vec![body(0), body(1)]).expect("both go on");
        assert_eq!(done.peek(64, Width::Four), 24);
    }
}
