//! One slice: runs a configuration for a number of packets on real memory, and times Tx over the counted ones.
//!
//! Threads start together at a barrier and run a fixed number of batches, so all of them end. If Rx and Tx share a CPU,
//! Rx stays half a ring ahead of Tx, so that the guest always has a batch while they alternate.

use std::sync::Barrier;

use crate::experiment::Length;
use crate::model::{Config, Guest, Layout, Rx, Thread, Tx};
use crate::requirements::lacks;
use measure::clock::Clock;
use measure::pinning::{CpuPinning, PinningError, pin};
use measure::processor::Processor;
use real::{Arena, RealMemory};

/// Observer within a thread, active while packets count.
pub trait Watch: Send {
    /// Called after the warm-up.
    fn begin(&mut self);
    /// Called after the last packet.
    fn end(&mut self);
}

impl Watch for () {
    fn begin(&mut self) {}
    fn end(&mut self) {}
}

/// Result of a slice.
#[derive(Clone, Debug)]
pub struct Slice<W> {
    /// Counted packets
    pub packets: u64,
    /// Seconds for these packets at Tx
    pub seconds: f64,
    /// Threads with their watches
    pub watches: Vec<(&'static str, W)>,
}

impl<W> Slice<W> {
    /// Millions of packets per second.
    pub fn mpps(&self) -> f64 {
        self.packets as f64 / self.seconds / 1e6
    }
}

/// Numbers of warm-up and counted batches.
#[derive(Clone, Copy, Debug)]
struct Batches {
    warm: u64,
    counted: u64,
}

impl Batches {
    fn all(self) -> u64 {
        self.warm + self.counted
    }
}

/// Execution environment of slices.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The host's processor
    pub processor: Processor,
    /// CPUs of the threads
    pub pinning: CpuPinning,
    /// Clock for timing
    pub clock: Clock,
}

/// Runs one slice. `watch` creates the watch of a thread, in that thread.
///
/// The configuration must be accepted by [`crate::requirements::validate`]. Panics if the processor lacks an
/// instruction, or if the arena is too small for the layout.
pub fn slice<W: Watch>(
    bench: &Bench,
    arena: &mut Arena,
    config: &Config,
    length: Length,
    watch: &(impl Fn() -> W + Sync),
) -> Result<Slice<W>, PinningError> {
    let layout = Layout::new(config);
    assert!(layout.bytes() <= arena.bytes(), "the arena is smaller than the model");
    assert!(lacks(&bench.processor, config).is_none(), "the configuration was not validated");
    for (at, width, value) in layout.empty_rings() {
        arena.poke(at, width, value);
    }
    for ring in [layout.rx, layout.tx] {
        arena.poke(ring.last_pool, sim::memory::Width::Four, 0);
    }
    let batches = Batches {
        warm: length.warm_up.div_ceil(config.batch).max(1),
        counted: length.packets.div_ceil(config.batch).max(1),
    };
    let stage = Stage { arena, clock: &bench.clock, config, batches, watch };
    let (watches, times) = match bench.pinning {
        CpuPinning::Three(cpus) => stage.three(cpus)?,
        CpuPinning::Two(cpus) => stage.two(cpus)?,
        CpuPinning::InTurn => stage.in_turn(),
    };
    Ok(Slice {
        packets: batches.counted * config.batch,
        seconds: bench.clock.seconds(times.0, times.1),
        watches,
    })
}

type Watched<W> = (Vec<(&'static str, W)>, (u64, u64));

struct Stage<'a, F> {
    arena: &'a Arena,
    clock: &'a Clock,
    config: &'a Config,
    batches: Batches,
    watch: &'a F,
}

impl<W: Watch, F: Fn() -> W + Sync> Stage<'_, F> {
    fn memory(&self) -> RealMemory<'_> {
        // SAFETY: the model accesses only addresses of its layout, which ends inside the arena (`slice` asserts it):
        // buffer numbers come from its own threads, ring positions are reduced modulo the ring's size. The processor
        // has the instructions: `slice` asserts that too.
        unsafe { self.arena.view() }
    }

    /// Runs one thread's batches; returns the start and end of the counted ones.
    fn drive(&self, mut batch: impl FnMut(&mut RealMemory<'_>)) -> (W, (u64, u64)) {
        let mut memory = self.memory();
        let mut watch = (self.watch)();
        for _ in 0..self.batches.warm {
            batch(&mut memory);
        }
        watch.begin();
        let from = self.clock.ticks();
        for _ in 0..self.batches.counted {
            batch(&mut memory);
        }
        let to = self.clock.ticks();
        watch.end();
        (watch, (from, to))
    }

    fn three(&self, [rx_cpu, guest_cpu, tx_cpu]: [usize; 3]) -> Result<Watched<W>, PinningError> {
        let (mut rx, mut guest, mut tx) =
            (Rx::new(self.config), Guest::new(self.config), Tx::new(self.config));
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let rx =
                scope.spawn(|| gate.pass(rx_cpu).map(|()| self.drive(|memory| rx_batch(&mut rx, memory))));
            let guest = scope.spawn(|| {
                gate.pass(guest_cpu).map(|()| self.drive(|memory| guest_batch(&mut guest, memory)))
            });
            let tx =
                scope.spawn(|| gate.pass(tx_cpu).map(|()| self.drive(|memory| tx_batch(&mut tx, memory))));
            let (rx, guest, tx) = (joined(rx)?, joined(guest)?, joined(tx)?);
            Ok((vec![("rx", rx.0), ("guest", guest.0), ("tx", tx.0)], tx.1))
        })
    }

    fn two(&self, [host_cpu, guest_cpu]: [usize; 2]) -> Result<Watched<W>, PinningError> {
        let (mut rx, mut guest, mut tx) =
            (Rx::new(self.config), Guest::new(self.config), Tx::new(self.config));
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                gate.pass(host_cpu)?;
                let mut left = self.batches.all();
                let ahead = self.ahead().min(left);
                let mut memory = self.memory();
                for _ in 0..ahead {
                    rx_batch(&mut rx, &mut memory);
                }
                left -= ahead;
                Ok(self.drive(|memory| {
                    if left > 0 {
                        rx_batch(&mut rx, memory);
                        left -= 1;
                    }
                    tx_batch(&mut tx, memory);
                }))
            });
            let guest = scope.spawn(|| {
                gate.pass(guest_cpu).map(|()| self.drive(|memory| guest_batch(&mut guest, memory)))
            });
            let (host, guest) = (joined(host)?, joined(guest)?);
            Ok((vec![("rx+tx", host.0), ("guest", guest.0)], host.1))
        })
    }

    /// Runs the three threads alternately; no batch waits, because the previous one left its input.
    fn in_turn(&self) -> Watched<W> {
        let (mut rx, mut guest, mut tx) =
            (Rx::new(self.config), Guest::new(self.config), Tx::new(self.config));
        let (watch, times) = self.drive(|memory| {
            rx_batch(&mut rx, memory);
            guest_batch(&mut guest, memory);
            tx_batch(&mut tx, memory);
        });
        (vec![("rx+guest+tx", watch)], times)
    }

    /// Number of batches that Rx is ahead of Tx: half a ring, at least one, which fits even into a ring of one batch.
    fn ahead(&self) -> u64 {
        (self.config.ring / self.config.batch / 2).max(1)
    }
}

// Separate functions, so that a profiler attributes instructions to each thread.

#[inline(never)]
fn rx_batch(rx: &mut Rx, memory: &mut RealMemory<'_>) {
    rx.batch(memory);
}

#[inline(never)]
fn guest_batch(guest: &mut Guest, memory: &mut RealMemory<'_>) {
    guest.batch(memory);
}

#[inline(never)]
fn tx_batch(tx: &mut Tx, memory: &mut RealMemory<'_>) {
    tx.batch(memory);
}

/// Start barrier: threads pass if all are pinned, otherwise none passes.
pub(crate) struct Gate {
    barrier: Barrier,
    failed: std::sync::atomic::AtomicBool,
}

impl Gate {
    pub(crate) fn new(threads: usize) -> Gate {
        Gate { barrier: Barrier::new(threads), failed: false.into() }
    }

    /// Pins the thread and waits for the others. If one cannot be pinned, all return an error, because they would wait
    /// forever.
    pub(crate) fn pass(&self, cpu: usize) -> Result<(), PinningError> {
        use std::sync::atomic::Ordering::SeqCst;
        let pinned = pin(cpu);
        if pinned.is_err() {
            self.failed.store(true, SeqCst);
        }
        self.barrier.wait();
        match pinned {
            Ok(()) if self.failed.load(SeqCst) => {
                Err(PinningError::Pin { cpu, reason: rustix::io::Errno::CANCELED })
            }
            other => other,
        }
    }
}

/// Joins a thread and returns its result; resumes its panic here.
pub(crate) fn joined<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, PinningError>>,
) -> Result<T, PinningError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests;
