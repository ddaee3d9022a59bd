//! How far two CPUs are from each other: nanoseconds for a cache line to go there and back. Virtual CPUs move, so it is
//! measured beside every reading, and only readings at the same distance are compared.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// A round trip up to here is one between CPUs that share a cache.
const NEAR: f64 = 250.0;
/// Round trips of one measurement, of which the fastest tenth counts: others were interrupted.
const TRIPS: u32 = 20_000;
/// How long near CPUs are waited for, and the pause between two looks.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// Nanoseconds of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Distance(pub(super) f64);

impl Distance {
    /// Whether the CPUs share a cache.
    pub(super) fn is_near(self) -> bool {
        self.0 <= NEAR
    }
}

/// Measures the distance of two CPUs.
pub(super) fn between(one: usize, other: usize) -> Result<Distance> {
    let turn = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| on(other, &turn, || (0..TRIPS).for_each(|trip| answer(&turn, trip))));
        let asks =
            scope.spawn(|| on(one, &turn, || (0..TRIPS).map(|trip| ask(&turn, trip)).collect::<Vec<_>>()));
        let asked = asks.join().map_err(|_| anyhow::anyhow!("the asking thread panicked"))?;
        answers.join().map_err(|_| anyhow::anyhow!("the answering thread panicked"))??;
        let mut times = asked?;
        times.sort_unstable();
        Ok(Distance(times[TRIPS as usize / 10].as_nanos() as f64))
    })
}

/// One of the threads cannot run where it should.
const ENDED: u32 = u32::MAX;

/// Does something on a CPU; if that is not possible, the other thread does not wait for this one.
fn on<T>(cpu: usize, turn: &AtomicU32, work: impl FnOnce() -> T) -> Result<T> {
    let pinned = pin(cpu);
    if pinned.is_err() {
        turn.store(ENDED, Ordering::Release);
    }
    pinned.map(|()| work())
}

fn ask(turn: &AtomicU32, trip: u32) -> Duration {
    let start = Instant::now();
    // An end stays one.
    let _ = turn.compare_exchange(2 * trip, 2 * trip + 1, Ordering::AcqRel, Ordering::Acquire);
    wait_for(turn, 2 * trip + 2);
    start.elapsed()
}

fn answer(turn: &AtomicU32, trip: u32) {
    if wait_for(turn, 2 * trip + 1) {
        turn.store(2 * trip + 2, Ordering::Release);
    }
}

/// Returns `false` if the other thread has ended.
fn wait_for(turn: &AtomicU32, value: u32) -> bool {
    loop {
        match turn.load(Ordering::Acquire) {
            ENDED => return false,
            seen if seen == value => return true,
            _ => std::hint::spin_loop(),
        }
    }
}

/// Waits until two CPUs are near, for a while. Their distance then.
pub(super) fn wait_until_near(one: usize, other: usize) -> Result<Distance> {
    let start = Instant::now();
    loop {
        let distance = between(one, other)?;
        if distance.is_near() || start.elapsed() > LIMIT {
            return Ok(distance);
        }
        std::thread::sleep(PAUSE);
    }
}

fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    ensure!(cpu < CpuSet::MAX_CPU, "there is no CPU {cpu}");
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}
