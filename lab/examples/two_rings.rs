//! A data structure of one's own under the simulator: two rings between two cores. `together` has both indices on one line and
//! looks at the other side's for every item; `apart` has each on a line of its own, looks only when its copy says full or
//! empty, and publishes once per sixteen items. Written over `Memory`, so the simulator can say which lines moved.
use std::{cell::Cell, rc::Rc};

use lab::cache::memory::{Address, Memory, Width::Eight};
use lab::cache::model::config::Prefetchers;
use lab::cache::simulated::{Counters, Machine, Profile, Simulated, run};

const SLOTS: u64 = 256;
const ITEMS: u64 = 50_000;
const TABLE: Address = 4096;

/// Where a ring's indices are, whether a side remembers what it last saw of the other one's, and how often it publishes.
#[derive(Clone, Copy)]
struct Ring {
    head: Address,
    tail: Address,
    remember: bool,
    batch: u64,
}

/// Waits until `at` is not `until` any more, or remembers that it was not when it looked last.
fn look(ring: Ring, memory: &mut Simulated<'_>, at: Address, seen: &mut u64, until: u64) {
    while !ring.remember || *seen == until {
        *seen = memory.load(at, Eight);
        if *seen != until {
            return;
        }
        memory.pause(at);
    }
}

fn publish(ring: Ring, memory: &mut Simulated<'_>, at: Address, count: u64) {
    if count.is_multiple_of(ring.batch) {
        memory.store(at, Eight, count);
    }
}

fn produce(ring: Ring, memory: &mut Simulated<'_>) {
    let mut seen = 0;
    for n in 0..ITEMS {
        look(ring, memory, ring.tail, &mut seen, n.wrapping_sub(SLOTS));
        memory.store(TABLE + n % SLOTS * 8, Eight, n);
        publish(ring, memory, ring.head, n + 1);
        memory.work(8);
    }
}

fn consume(ring: Ring, memory: &mut Simulated<'_>) {
    let mut seen = 0;
    for n in 0..ITEMS {
        look(ring, memory, ring.head, &mut seen, n);
        assert_eq!(memory.load(TABLE + n % SLOTS * 8, Eight), n);
        publish(ring, memory, ring.tail, n + 1);
        memory.work(8);
    }
}

/// Cycles and lines moved, both per item.
fn measure(ring: Ring) -> Result<(f64, f64), lab::cache::simulated::Stuck> {
    let profile = Profile::study();
    let machine = Machine::new(&profile, 2, 1 << 16, Prefetchers { stream: true, adjacent: true });
    let counted: [Rc<Cell<Counters>>; 2] = Default::default();
    let [first, second] = counted.clone();
    run(
        machine,
        vec![
            Box::new(move |memory| (produce(ring, memory), first.set(memory.counters())).1),
            Box::new(move |memory| (consume(ring, memory), second.set(memory.counters())).1),
        ],
    )?;
    let [a, b] = counted.map(|counters| counters.get());
    let per_item = |count: u64| count as f64 / ITEMS as f64;
    Ok((per_item(a.time.max(b.time)) / 16.0, per_item(a.lost_lines + b.lost_lines)))
}

fn main() -> Result<(), lab::cache::simulated::Stuck> {
    let together = measure(Ring { head: 0, tail: 8, remember: false, batch: 1 })?;
    let apart = measure(Ring { head: 0, tail: 256, remember: true, batch: 16 })?;
    println!("simulated, {}", Profile::study().name);
    println!("together: {:6.1} cycles an item, {:.2} lines moved", together.0, together.1);
    println!("apart:    {:6.1} cycles an item, {:.2} lines moved", apart.0, apart.1);
    println!("ratio:    {:6.1}", together.0 / apart.0);
    Ok(())
}
