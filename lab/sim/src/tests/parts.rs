//! Tests for components that other tests cover only indirectly.

use super::two_sockets;
use crate::Prefetchers;
use crate::memory::{Cleaning, Copying, Intent, Memory, Width};
use crate::profile::{Constant, Protocol};
use crate::run::Body;
use crate::{Counters, Machine, Profile, Simulated, Sockets, TICKS, run};

const NONE: Prefetchers = Prefetchers { stream: false, adjacent: false };

fn machine(profile: &Profile, cores: usize) -> Machine {
    Machine::new(profile, cores, 1 << 20, NONE)
}

/// Returns the latency of one load in cycles.
fn latency(memory: &mut Simulated<'_>, at: u64) -> u64 {
    memory.fence();
    // Pending memory requests complete in this time.
    memory.work(4000);
    let before = memory.counters().time;
    memory.read(at, 8);
    memory.fence();
    let issue = memory.look(|machine| machine.timing.issue);
    (memory.counters().time - before - issue) / TICKS
}

/// Runs acts one after the other, each on its own core.
fn in_turn(machine: Machine, acts: Vec<Body>) -> Machine {
    in_turns(machine, acts.into_iter().enumerate().collect())
}

/// Same, with several acts per core.
fn in_turns(machine: Machine, acts: Vec<(usize, Body)>) -> Machine {
    const TURN: u64 = 1 << 19;
    let mut programs: Vec<Vec<(u64, Body)>> = Vec::new();
    for (turn, (core, act)) in acts.into_iter().enumerate() {
        programs.resize_with(programs.len().max(core + 1), Vec::new);
        programs[core].push((turn as u64, act));
    }
    let body = |program: Vec<(u64, Body)>| -> Body {
        Box::new(move |memory| {
            for (turn, act) in program {
                while memory.load(TURN, Width::Eight) != turn {
                    memory.pause(TURN);
                }
                act(memory);
                memory.fence();
                memory.store(TURN, Width::Eight, turn + 1);
            }
        })
    };
    run(machine, programs.into_iter().map(body).collect()).expect("each gets its turn")
}

/// The study's processor, but a changed line that is read stays with both cores.
fn sharing() -> Profile {
    let mut profile = Profile::study();
    profile.migratory.value = 0.0;
    profile
}

fn cycles(profile: &Profile, nanoseconds: f64) -> u64 {
    (nanoseconds * profile.frequency.value) as u64
}

#[test]
fn an_owner_answers_for_a_changed_line_that_is_shared_and_writes_it_back_only_when_it_goes() {
    let profile = Profile { protocol: Protocol::Moesi, ..sharing() };
    let modified = cycles(&profile, profile.transfer.core_modified.value);
    let bodies: Vec<Body> = vec![
        Box::new(|memory| memory.write(0, 8)),
        Box::new(move |memory| assert_eq!(latency(memory, 0), modified)),
        Box::new(move |memory| {
            let owned = memory.look(|machine| *machine.directory.at(0));
            assert_eq!((owned.owner, owned.exclusive, owned.dirty, owned.sharers), (0, false, true, 0b11));
            assert!(!memory.look(|machine| machine.llc.has(0)), "nothing was written back");
            assert_eq!(latency(memory, 0), modified, "the owner answers again");
        }),
    ];
    let mut machine = in_turn(machine(&profile, 3), bodies);
    assert_eq!(machine.directory.at(0).sharers, 0b111);
    assert!(machine.directory.at(0).dirty);
}

#[test]
fn with_a_forwarder_a_changed_line_is_written_back_when_it_is_shared() {
    let profile = sharing();
    let bodies: Vec<Body> = vec![Box::new(|memory| memory.write(0, 8)), Box::new(|memory| memory.read(0, 8))];
    let mut machine = in_turn(machine(&profile, 2), bodies);
    let entry = *machine.directory.at(0);
    assert_eq!((entry.owner, entry.exclusive, entry.dirty), (1, false, false), "the newest sharer forwards");
    assert!(machine.llc.has(0));
}

#[test]
fn an_owner_that_evicts_leaves_the_newest_bytes_in_the_shared_cache() {
    let mut profile = Profile { protocol: Protocol::Moesi, ..sharing() };
    profile.l1.bytes.value = 8.0 * 64.0;
    profile.l2.bytes.value = 16.0 * 64.0;
    let llc = profile.llc.latency.value as u64;
    let acts: Vec<(usize, Body)> = vec![
        (0, Box::new(|memory| memory.write(0, 8))),
        (1, Box::new(|memory| memory.read(0, 8))),
        (0, Box::new(|memory| memory.read(4096, 16 * 64))),
        (2, Box::new(move |memory| assert_eq!(latency(memory, 0), llc))),
    ];
    in_turns(machine(&profile, 3), acts);
}

#[test]
fn a_device_writes_into_few_ways_and_no_core_keeps_a_copy() {
    let mut profile = Profile::study();
    profile.llc.bytes.value = 11.0 * 64.0;
    let llc = profile.llc.latency.value as u64;
    let dram = cycles(&profile, profile.transfer.dram.value);
    let body: Body = Box::new(move |memory| {
        memory.write(0, 64);
        memory.fence();
        memory.device_write(0, 64);
        let entry = memory.look(|machine| *machine.directory.at(0));
        assert_eq!((entry.sharers, entry.dirty), (0, false));
        assert_eq!(latency(memory, 0), llc, "it is in the shared cache");
        memory.device_write(4096, 10 * 64);
        let there = |machine: &mut Machine| (64..74).filter(|line| machine.llc.has(*line)).count();
        assert_eq!(memory.look(there), 2, "of ten lines of one set, as many as a device may fill");
        assert_eq!(latency(memory, 4096), dram, "the others are in memory");
    });
    run(machine(&profile, 1), vec![body]).expect("one core");
}

#[test]
fn a_device_write_wakes_a_core_that_waits_for_the_line() {
    let body: Body = Box::new(|memory| {
        memory.work(1000);
        memory.device_write(0, 64);
        memory.store(64, Width::Eight, 1);
    });
    let waits: Body = Box::new(|memory| {
        memory.load(0, Width::Eight);
        memory.pause(0);
        memory.load(0, Width::Eight);
        assert!(memory.counters().time > 200 * TICKS, "not before the device wrote");
    });
    run(machine(&Profile::study(), 2), vec![body, waits]).expect("the second core is woken");
}

#[test]
fn access_to_another_socket_has_the_latency_of_the_profile() {
    let profile = two_sockets();
    let far = [&profile.transfer.remote_dram, &profile.transfer.remote_core]
        .map(|time| cycles(&profile, time.as_ref().map_or(0.0, |time| time.value)));
    let near = cycles(&profile, profile.transfer.dram.value);
    let sockets = Sockets::one().with_core(1).with_memory(4096..8192);
    let bodies: Vec<Body> = vec![
        Box::new(move |memory| {
            assert_eq!(latency(memory, 0), near);
            assert_eq!(latency(memory, 4096), far[0]);
            memory.write(0, 8);
        }),
        Box::new(move |memory| {
            assert_eq!(latency(memory, 0), far[1], "the other one's core");
            assert_eq!(latency(memory, 4096 + 64), near, "its own memory");
            assert_eq!(latency(memory, 8192), far[0]);
            memory.clean(8192, Cleaning::Flush);
        }),
    ];
    in_turn(machine(&profile, 2).on(sockets).expect("it has two"), bodies);
    assert!(machine(&Profile::study(), 2).on(Sockets::one().with_core(1)).is_err());
}

#[test]
fn a_demoted_line_comes_from_the_shared_cache_where_the_processor_demotes() {
    for demote in [false, true] {
        let profile = Profile { demote, ..Profile::study() };
        let llc = profile.llc.latency.value as u64;
        let expected = if demote { llc } else { cycles(&profile, profile.transfer.core_modified.value) };
        let bodies: Vec<Body> = vec![
            Box::new(|memory| {
                memory.write(0, 64);
                memory.clean(0, Cleaning::Demote);
            }),
            Box::new(move |memory| assert_eq!(latency(memory, 0), expected)),
        ];
        in_turn(machine(&profile, 2), bodies);
    }
}

#[test]
fn a_flush_comes_after_the_stores_before_it() {
    let profile = Profile::study();
    let dram = cycles(&profile, profile.transfer.dram.value);
    let body: Body = Box::new(move |memory| {
        memory.write(0, 64);
        memory.clean(0, Cleaning::Flush);
        memory.fence();
        let entry = memory.look(|machine| *machine.directory.at(0));
        assert_eq!(entry.sharers, 0, "the stored line is gone");
        assert_eq!(latency(memory, 0), dram);
        memory.write(0, 8);
        memory.clean(0, Cleaning::WriteBack);
        memory.fence();
        let entry = memory.look(|machine| *machine.directory.at(0));
        assert!(entry.exclusive && !entry.dirty, "kept, and memory has it too");
    });
    run(machine(&profile, 1), vec![body]).expect("one core");
}

/// Returns the counters of one core for one act.
fn counted(act: impl Fn(&mut Simulated<'_>) + 'static) -> Counters {
    let counters = std::rc::Rc::new(std::cell::Cell::new(Counters::default()));
    let result = std::rc::Rc::clone(&counters);
    let body: Body = Box::new(move |memory| {
        act(memory);
        memory.fence();
        result.set(memory.counters());
    });
    run(machine(&Profile::study(), 1), vec![body]).expect("one core");
    counters.get()
}

#[test]
fn an_access_that_crosses_lines_costs_two() {
    let within = counted(|memory| memory.read(32, 32));
    let across = counted(|memory| memory.read(33, 32));
    assert_eq!((within.loads, within.l1_misses), (1, 1));
    assert_eq!((across.loads, across.l1_misses), (2, 2));
    let value = counted(|memory| {
        memory.store(62, Width::Four, 0x1234_5678);
        memory.fence();
        assert_eq!(memory.load(62, Width::Four), 0x1234_5678);
    });
    assert_eq!((value.stores, value.loads), (2, 2));
    let copies = [0, 1].map(|by| counted(move |memory| memory.copy(4096, 8192 + by, 64, Copying::Avx2)));
    assert_eq!(copies.map(|copy| copy.stores), [2, 3]);
}

#[test]
fn load_after_a_completed_prefetch_hits_the_cache() {
    let body: Body = Box::new(|memory| {
        memory.prefetch(0, Intent::Read);
        memory.work(4000);
        assert_eq!(latency(memory, 0), 4);
    });
    run(machine(&Profile::study(), 1), vec![body]).expect("one core");
}

/// Returns the number of lines that a single core lost, out of a thousand read once.
fn lost_alone(inclusive: f64) -> u64 {
    let mut profile = Profile::study();
    profile.llc.bytes.value = 4096.0;
    profile.llc.ways.value = 4.0;
    profile.inclusive = Some(Constant { value: inclusive, ..profile.migratory.clone() });
    let reads: Body = Box::new(|memory| (0..1000).for_each(|line| memory.read(line * 64, 8)));
    run(machine(&profile, 1), vec![reads]).expect("it goes on").counters(0).lost_lines
}

#[test]
fn an_eviction_from_a_shared_cache_reaches_private_ones_only_if_it_is_inclusive() {
    assert_eq!(lost_alone(0.0), 0);
    assert_eq!(lost_alone(1.0), 1000 - 4096 / 64);
}
