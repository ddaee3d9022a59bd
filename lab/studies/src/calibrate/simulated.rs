//! Runs the calibration list under a profile in the simulator: the values that a processor of this profile would
//! measure.

use super::list::{Effort, Meaning, Places, Step, list};
use super::task::Task;
use super::{Cache, Caches};
use sim::micro::{Side, knee};
use sim::profile::CacheConstants;
use sim::program::Program;
use sim::{Deadlock, Profile, Simulated, TICKS};

/// Size of the memory region as a multiple of the shared cache: enough for a cold chase, small enough for a simulator.
const TIMES: u64 = 2;

/// Returns each constant of the list with its simulated value, in the unit of the measured one.
pub fn simulate(profile: &Profile) -> Result<Vec<(&'static str, f64)>, Deadlock> {
    let caches = of(profile);
    let places = Places::of(&caches, TIMES);
    let mut found = vec![("frequency", profile.frequency.value)];
    let mut groups = Vec::new();
    for Step { task, meaning } in list(&caches, places, Effort::SIMULATED, 1) {
        let took = once(profile, places, task)?;
        match meaning {
            Meaning::Constant(name) => found.push((name, took)),
            Meaning::Misses(_) => groups.push(took),
            Meaning::Chase(_) => {}
        }
    }
    found.push(("parallel_misses", knee(&groups) as f64));
    Ok(found)
}

/// Runs one micro-benchmark on a fresh machine.
fn once(profile: &Profile, places: Places, task: Task) -> Result<f64, Deadlock> {
    timed(Program::new(places.bytes), profile, task)
}

/// Same, in a program with a given arena and prefetchers.
pub(super) fn timed(program: Program<f64>, profile: &Profile, task: Task) -> Result<f64, Deadlock> {
    let nanoseconds = 1.0 / (TICKS as f64 * profile.frequency.value);
    let clock = move |memory: &Simulated<'_>| memory.counters().time as f64 * nanoseconds;
    let one = move |side: Side| move |memory: &mut Simulated<'_>| task.run(memory, clock, side);
    let program = program.values(&task.values()).thread(one(Side::First));
    let ran = if task.is_pair() { program.thread(one(Side::Second)) } else { program }.simulate(profile)?;
    let first = ran.results.first().copied().unwrap_or(f64::NAN);
    Ok(task.pick([first, ran.results.get(1).copied().unwrap_or(first)]))
}

/// Returns a profile's caches in the form that the system reports.
fn of(profile: &Profile) -> Caches {
    let cache = |constants: &CacheConstants| Cache {
        bytes: constants.bytes.value as u64,
        ways: constants.ways.value as u64,
    };
    Caches { l1: cache(&profile.l1), l2: cache(&profile.l2), llc: cache(&profile.llc), assumed: false }
}
