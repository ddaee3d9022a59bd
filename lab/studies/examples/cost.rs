//! Cost of a simulated run in seconds, by cores, packets and pool size: `cost [PACKETS]`.
//!
//! Cores are pairs of a producer and a consumer over separate rings, so the work per core does not depend on their
//! number; packets and pools are those of the study's base. Times are the best of three runs on one thread of the host.

use std::time::Instant;

use sim::Prefetchers;
use sim::memory::{Address, Memory, Width};
use sim::run::Body;
use sim::{Deadlock, Machine, Profile, run};
use studies::experiment::{Length, simulate};
use studies::model::Config;

/// Distance between the rings of two pairs, in bytes.
const APART: Address = 1 << 16;
const SLOTS: u64 = 512;

fn main() -> Result<(), Deadlock> {
    let packets = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60_000);
    println!("cores, {packets} items for each pair");
    for cores in [2, 4, 6, 8, 10, 12, 14, 16] {
        row(cores, cores / 2 * packets, || pairs(cores as usize, packets))?;
    }
    println!("packets, base, three cores");
    for part in [4, 2, 1] {
        let packets = packets / part;
        row(packets, packets, || base(packets, &Config::default()))?;
    }
    let packets = packets * 4;
    row(packets, packets, || base(packets, &Config::default()))?;
    let packets = packets / 4;
    println!("buffers in each pool, base, {packets} packets");
    for pool in [1024, 16_384, 163_456, 1_634_560] {
        row(pool, packets, || base(packets, &Config { pool, ..Config::default() }))?;
    }
    Ok(())
}

/// Prints the cost per item.
fn row(what: u64, items: u64, act: impl Fn() -> Result<(), Deadlock>) -> Result<(), Deadlock> {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begin = Instant::now();
        act()?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    println!("{what:10} {best:8.2} s {:8.2} microseconds an item", best * 1e6 / items as f64);
    Ok(())
}

fn base(packets: u64, config: &Config) -> Result<(), Deadlock> {
    let length = Length { packets, warm_up: 6000.min(packets) };
    simulate(&Profile::study(), config, length).map(|_| ())
}

/// Cores in pairs: the first passes items to the second through slots that both sides poll.
fn pairs(cores: usize, items: u64) -> Result<(), Deadlock> {
    let on = Prefetchers { stream: true, adjacent: true };
    let machine = Machine::new(&Profile::study(), cores, cores as u64 * APART, on);
    let body = |core: usize| -> Body {
        let ring = (core / 2) as u64 * APART;
        if core.is_multiple_of(2) {
            Box::new(move |memory| (0..items).for_each(|n| hand_over(memory, ring + n % SLOTS * 16, true)))
        } else {
            Box::new(move |memory| (0..items).for_each(|n| hand_over(memory, ring + n % SLOTS * 16, false)))
        }
    };
    run(machine, (0..cores).map(body).collect()).map(|_| ())
}

/// Waits until the slot belongs to the caller, touches a line of payload, and passes the slot on.
fn hand_over<M: Memory>(memory: &mut M, slot: Address, fills: bool) {
    while (memory.load(slot, Width::Eight) == 0) != fills {
        memory.pause(slot);
    }
    let payload = slot % APART / 16 * 64 + slot / APART * APART + APART / 2;
    if fills {
        memory.write(payload, 64);
    } else {
        memory.read(payload, 64);
    }
    memory.work(24);
    memory.store(slot, Width::Eight, u64::from(fills));
}
