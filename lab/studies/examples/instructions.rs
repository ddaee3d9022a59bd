//! Instructions per packet of each thread of the model on real memory, without waiting.
//!
//! Threads run in turn in one OS thread. Run alone, the program prints the number of instructions that access the
//! arena. Under `valgrind --tool=callgrind --toggle-collect='*::rx_batch'` (then `guest_batch`, `tx_batch`), the sum
//! that callgrind prints, divided by the packets, is a thread's instructions per packet.
//!
//! `instructions [CONFIGURATION] [PACKETS]`

use measure::{Clock, CpuPinning, Processor};
use real::{Arena, RealMemory};
use sim::memory::{Address, Cleaning, Copying, Intent, Memory, Width};
use studies::experiment::Length;
use studies::factors::find;
use studies::model::{Config, Guest, Layout, Rx, Thread, Tx};
use studies::slice::{Bench, slice};

/// Counts accesses as the x86 implementation of real memory makes them, and forwards them.
struct Counting<'a> {
    memory: RealMemory<'a>,
    loads: u64,
    stores: u64,
}

/// Number of accesses for `length` bytes: parts of 16 bytes, then 8, 4 and 2.
fn parts(length: u64) -> u64 {
    length / 16 + u64::from((length % 16).count_ones())
}

impl Memory for Counting<'_> {
    fn load(&mut self, at: Address, width: Width) -> u64 {
        self.loads += 1;
        self.memory.load(at, width)
    }
    fn store(&mut self, at: Address, width: Width, value: u64) {
        self.stores += 1;
        self.memory.store(at, width, value);
    }
    fn read(&mut self, at: Address, length: u64) {
        self.loads += parts(length);
        self.memory.read(at, length);
    }
    fn write(&mut self, at: Address, length: u64) {
        self.stores += parts(length);
        self.memory.write(at, length);
    }
    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying) {
        // The C library may use wider registers than counted here.
        let steps = length.div_ceil(how.step());
        self.loads += steps;
        self.stores += steps;
        self.memory.copy(from, to, length, how);
    }
    fn prefetch(&mut self, at: Address, intent: Intent) {
        self.memory.prefetch(at, intent);
    }
    fn clean(&mut self, at: Address, how: Cleaning) {
        self.memory.clean(at, how);
    }
    fn follows(&mut self) {}
    fn work(&mut self, _: u64) {}
    fn pause(&mut self, _: Address) {
        unreachable!("threads in turn never wait");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let named = find(&arguments.next().unwrap_or_else(|| "base".to_owned()))?;
    let packets: u64 = arguments.next().map_or(Ok(10_240), |text| text.parse())?;
    let processor = Processor::here();
    studies::requirements::validate(&processor, &named)?;
    // Instruction counts do not depend on the pool size.
    let config = Config { pool: named.config.pool.min(4099), ..named.config };
    let mut arena = Arena::new(Layout::new(&config).bytes())?;
    let length = Length { packets, warm_up: config.batch };
    let bench = Bench { clock: Clock::calibrated(), processor, pinning: CpuPinning::InTurn };
    let slice = slice(&bench, &mut arena, &config, length, &|| ())?;
    println!("{}: {} packets and one batch before them", named.name, slice.packets);
    count(&mut arena, &config);
    Ok(())
}

fn count(arena: &mut Arena, config: &Config) {
    let (mut rx, mut guest, mut tx) = (Rx::new(config), Guest::new(config), Tx::new(config));
    accesses(arena, "rx", config, &mut rx);
    accesses(arena, "guest", config, &mut guest);
    accesses(arena, "tx", config, &mut tx);
}

fn accesses<T: Thread>(arena: &Arena, name: &str, config: &Config, thread: &mut T) {
    // SAFETY: the arena has the size for this configuration, and the processor supports it (validated in `main`).
    let memory = unsafe { arena.view() };
    let mut counting = Counting { memory, loads: 0, stores: 0 };
    thread.batch(&mut counting);
    let per = |count: u64| count as f64 / config.batch as f64;
    println!(
        "{name:6} loads {:5.2} stores {:5.2} of the arena per packet",
        per(counting.loads),
        per(counting.stores)
    );
}
