//! A custom data structure under the simulator: two rings between two cores. `together` keeps both counts on one line
//! and reads the other side's count for every item. `apart` keeps each count on its own line, reads the other one only
//! if the cached value says full or empty, and publishes once per 16 items.
use sim::memory::Memory;
use sim::memory::Width::Eight;
use sim::program::Program;
use sim::{Deadlock, Profile};

const SLOTS: u64 = 256;
const ITEMS: u64 = 50_000;
const HEAD: u64 = 0;
const TABLE: u64 = 4096;

/// Moves all items in or out. If the other side's count is `lead` behind this side's, there is nothing to move.
fn side<M: Memory>(memory: &mut M, tail: u64, batch: u64, fills: bool) {
    let (own, other, lead) = if fills { (HEAD, tail, SLOTS) } else { (tail, HEAD, 0) };
    let mut seen = 0;
    for n in 0..ITEMS {
        if batch == 1 || seen + lead == n {
            seen = memory.load_until(other, Eight, |count| count + lead != n);
        }
        let slot = TABLE + n % SLOTS * 8;
        if fills {
            memory.store(slot, Eight, n);
        } else {
            assert_eq!(memory.load(slot, Eight), n);
        }
        if (n + 1).is_multiple_of(batch) {
            memory.store(own, Eight, n + 1);
        }
        memory.work(8);
    }
}

fn main() -> Result<(), Deadlock> {
    for (name, tail, batch) in [("together", HEAD + 8, 1), ("apart", HEAD + 256, 16)] {
        let program = Program::new(1 << 16).thread(move |memory| side(memory, tail, batch, true));
        let program = program.thread(move |memory| side(memory, tail, batch, false));
        let ran = program.simulate(&Profile::study())?;
        let (cycles, lines) = (ran.cycles() / ITEMS as f64, ran.lines_moved() as f64 / ITEMS as f64);
        println!("simulated, {name:8}: {cycles:6.1} cycles an item, {lines:.2} lines moved");
    }
    Ok(())
}
