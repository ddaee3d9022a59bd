//! Distance of two CPUs: round-trip time of a cache line in nanoseconds. A hypervisor may move virtual CPUs, so the
//! distance is measured with every reading, and only readings at the same distance are compared.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Maximum round-trip times in nanoseconds of CPUs that are near and in between. Measured: 50 to 110 on one core complex,
/// 190 to 250 on two complexes of a socket, 300 and more on two sockets.
const NEAR: f64 = 150.0;
const BETWEEN: f64 = 275.0;
/// Round trips per measurement; the result is the tenth percentile, because slower ones were interrupted.
const TRIPS: u32 = 20_000;
/// Maximum time to wait for CPUs that are not far, and the pause between two checks.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// Round-trip time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Distance(pub(super) f64);

/// Classes of distances: only readings of one class are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Near,
    Between,
    Far,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Near, Class::Between, Class::Far];

    /// The name in tables and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Near => "near",
            Class::Between => "between",
            Class::Far => "far",
        }
    }
}

impl Distance {
    /// The class of this distance.
    pub(super) fn class(self) -> Class {
        match self.0 {
            ns if ns <= NEAR => Class::Near,
            ns if ns <= BETWEEN => Class::Between,
            _ => Class::Far,
        }
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

/// Marks that one of the threads cannot run on its CPU.
const ENDED: u32 = u32::MAX;

/// Runs `work` on a CPU. If pinning fails, the other thread stops waiting for this one.
fn on<T>(cpu: usize, turn: &AtomicU32, work: impl FnOnce() -> T) -> Result<T> {
    let pinned = pin(cpu);
    if pinned.is_err() {
        turn.store(ENDED, Ordering::Release);
    }
    pinned.map(|()| work())
}

fn ask(turn: &AtomicU32, trip: u32) -> Duration {
    let start = Instant::now();
    // Keeps `ENDED` if it is set.
    let _ = turn.compare_exchange(2 * trip, 2 * trip + 1, Ordering::AcqRel, Ordering::Acquire);
    wait_for(turn, 2 * trip + 2);
    start.elapsed()
}

fn answer(turn: &AtomicU32, trip: u32) {
    if wait_for(turn, 2 * trip + 1) {
        turn.store(2 * trip + 2, Ordering::Release);
    }
}

/// Waits for `value`. Returns `false` if the other thread has ended.
fn wait_for(turn: &AtomicU32, value: u32) -> bool {
    loop {
        match turn.load(Ordering::Acquire) {
            ENDED => return false,
            seen if seen == value => return true,
            _ => std::hint::spin_loop(),
        }
    }
}

/// Waits until two CPUs are not far, at most `LIMIT`. Returns their last distance.
pub(super) fn wait_while_far(one: usize, other: usize) -> Result<Distance> {
    let start = Instant::now();
    loop {
        let distance = between(one, other)?;
        if distance.class() != Class::Far || start.elapsed() > LIMIT {
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
