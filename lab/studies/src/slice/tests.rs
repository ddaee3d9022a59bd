use super::*;
use crate::experiment::Length;
use crate::factors::{Named, everything, find};
use crate::model::{Config, Layout};
use crate::requirements;
use sim::memory::{Copying, Intent, Memory, Width};

/// Returns a configuration with a small pool.
fn small(mut named: Named) -> Config {
    named.config.pool = named.config.pool.min(1024);
    named.config
}

fn arena(config: &Config) -> Arena {
    Arena::new(Layout::new(config).bytes()).expect("it fits")
}

fn two_cpus() -> CpuPinning {
    CpuPinning::here().unwrap_or_else(|_| panic!("SKIPPED: there is one CPU; run on a machine with two CPUs"))
}

fn bench(pinning: CpuPinning) -> Bench {
    let processor = Processor::here();
    Bench { clock: Clock::calibrated(), processor, pinning }
}

const KINDS: [Copying; 7] = [
    Copying::Libc,
    Copying::Words,
    Copying::Sse,
    Copying::Avx2,
    Copying::Avx512,
    Copying::NonTemporal,
    Copying::RepMovsb,
];

fn can(how: Copying) -> bool {
    let mut named = find("base").expect("it is listed");
    named.config.copy_rx = how;
    requirements::validate(&Processor::here(), &named).is_ok()
}

#[test]
fn each_copy_method_copies_exactly_the_requested_bytes() {
    let arena = Arena::new(1 << 16).expect("it fits");
    // SAFETY: all addresses below are under 64 KiB, and only copy methods that the processor supports are used.
    let mut memory = unsafe { arena.view() };
    for at in (0..8192).step_by(8) {
        memory.store(at, Width::Eight, 0x0101_0101_0101_0101 * (at / 8 % 255 + 1));
    }
    let byte = |memory: &mut RealMemory<'_>, at: u64| memory.load(at, Width::Two) & 0xff;
    for how in KINDS.into_iter().filter(|how| can(*how)) {
        for (length, shift) in [(1, 0), (4, 1), (31, 3), (64, 0), (64, 8), (65, 16), (200, 33), (1518, 7)] {
            let (from, to) = (64 + shift, 16384 + 2 * shift);
            for at in (16384 - 8..16384 + 2048).step_by(8) {
                memory.store(at, Width::Eight, 0);
            }
            memory.copy(from, to, length, how);
            for n in 0..length {
                assert_eq!(
                    byte(&mut memory, to + n),
                    byte(&mut memory, from + n),
                    "{how:?} {length} {shift} {n}"
                );
            }
            assert_eq!(byte(&mut memory, to - 1), 0, "{how:?} {length} {shift}: before");
            assert_eq!(byte(&mut memory, to + length), 0, "{how:?} {length} {shift}: behind");
        }
    }
}

/// Store-load ordering, which requires a full fence: each of two threads stores its number and then loads the other's.
/// Without the fence both may miss the other's store.
#[test]
fn a_fence_makes_stores_visible_before_what_follows_is_loaded() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    const TURNS: u64 = 20_000;
    let cpus = two_cpus().pair().expect("two CPUs");
    let arena = Arena::new(1 << 16).expect("it fits");
    let (gate, arrived) = (Gate::new(2), AtomicU64::new(0));
    let one = |cpu: usize, mine: u64, theirs: u64| {
        gate.pass(cpu)?;
        // SAFETY: all addresses are under 64 KiB.
        let mut memory = unsafe { arena.view() };
        let turn = |turn: u64| {
            let place = turn % 64 * 256;
            arrived.fetch_add(1, SeqCst);
            while arrived.load(SeqCst) < 2 * turn {
                std::hint::spin_loop();
            }
            memory.store(place + mine, Width::Eight, turn);
            memory.fence();
            memory.load(place + theirs, Width::Eight)
        };
        Ok((1..=TURNS).map(turn).collect::<Vec<_>>())
    };
    let (first, second) = std::thread::scope(|scope| {
        let (mine, other) = (scope.spawn(|| one(cpus[0], 0, 128)), scope.spawn(|| one(cpus[1], 128, 0)));
        (joined(mine), joined(other))
    });
    let pairs = first.expect("it is pinned").into_iter().zip(second.expect("it is pinned"));
    let missed = (1..).zip(pairs).filter(|(turn, (one, other))| one < turn && other < turn).count();
    assert_eq!(missed, 0, "of {TURNS} turns in which neither saw the other's store");
}

#[test]
fn prefetch_hints_change_no_value() {
    let mut arena = Arena::new(1 << 16).expect("it fits");
    arena.poke(64, Width::Eight, 5);
    // SAFETY: inside the arena; prefetches do not fault.
    let mut memory = unsafe { arena.view() };
    memory.prefetch(64, Intent::Read);
    memory.prefetch(64, Intent::Write);
    memory.clean(64, sim::memory::Cleaning::Demote);
    assert_eq!(memory.load(64, Width::Eight), 5);
}

#[test]
fn each_configuration_that_can_run_here_brings_every_packet_through_in_turn() {
    let processor = Processor::here();
    let bench = bench(CpuPinning::InTurn);
    for named in everything() {
        if requirements::validate(&processor, &named).is_err() {
            continue;
        }
        let name = named.name.clone();
        let config = small(named);
        let mut arena = arena(&config);
        let length = Length { packets: 2048, warm_up: 256 };
        let slice = slice(&bench, &mut arena, &config, length, &|| ()).expect("it runs");
        assert!(slice.packets >= 2048 && slice.seconds > 0.0, "{name}");
        assert_eq!(drained(&arena, &config), 0, "{name}: buffers are left in rings");
    }
}

/// Returns the number of descriptors that still hold a buffer.
fn drained(arena: &Arena, config: &Config) -> usize {
    let layout = Layout::new(config);
    // SAFETY: the layout lies in the arena.
    let mut memory = unsafe { arena.view() };
    layout.empty_rings().filter(|(at, width, empty)| memory.load(*at, *width) != *empty).count()
}

#[test]
fn threads_on_separate_cpus_drain_both_rings() {
    let pinning = two_cpus();
    let bench = bench(pinning);
    for name in ["base", "a+d", "batch-256", "ring-64", "stride-4", "batch-1"] {
        let config = small(find(name).expect("it is listed"));
        let mut arena = arena(&config);
        let length = Length { packets: 20_000, warm_up: 2000 };
        slice(&bench, &mut arena, &config, length, &|| ()).expect("it runs");
        assert_eq!(drained(&arena, &config), 0, "{name}: buffers are left in rings");
    }
}

#[test]
fn two_cpus_are_enough_for_every_length_of_ring_and_batch() {
    let pinning = two_cpus();
    let bench = bench(CpuPinning::Two([pinning.cpus()[0], pinning.cpus()[1]]));
    for (ring, batch) in [(32, 32), (64, 48), (256, 100), (256, 256), (4, 1)] {
        let config = Config { ring, batch, pool: 1024, ..Config::default() };
        let mut arena = arena(&config);
        let length = Length { packets: 2000, warm_up: 1 };
        slice(&bench, &mut arena, &config, length, &|| ()).expect("it runs");
        assert_eq!(drained(&arena, &config), 0, "{ring} {batch}");
    }
}
