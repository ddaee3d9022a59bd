//! Distance of two CPUs: the round-trip time of a cache line between them while both are otherwise idle.
//!
//! A hypervisor may move the CPUs of a virtual machine to other cores without notice; communication between two of them
//! then takes several times as long. Comparisons of measurement rounds must therefore record the distance of each
//! round.
//!
//! Protocol: the leader stores an odd number, the follower stores the next even number; each side stores after it has
//! seen the number of the other side, in the same line. `END`, stored by either side, ends both. Each side waits at
//! most until the timeout.

use crate::pinning::pin;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips per reading, and readings. The result is the median, because a descheduled CPU spoils some readings.
const ROUND_TRIPS: u64 = 200;
const READINGS: usize = 41;
const TIMEOUT: Duration = Duration::from_millis(500);
/// Loads of the line between two reads of the clock.
const SPINS: u32 = 1 << 12;
const END: u64 = u64::MAX;
/// Maximum round-trip times in nanoseconds of CPUs that are near and in between. Measured: 50 to 110 on one core
/// complex, 190 to 250 on two complexes of a socket, 300 and more on two sockets.
const NEAR: f64 = 150.0;
const BETWEEN: f64 = 275.0;
/// Maximum time to wait for CPUs that are not far, and the pause between two checks.
const WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);

/// Classes of distances. Only readings of one class are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// At most 150 ns
    Near,
    /// At most 275 ns
    Between,
    /// More
    Far,
}

impl Class {
    /// The class of a round-trip time.
    pub fn of(nanoseconds: f64) -> Class {
        match nanoseconds {
            ns if ns <= NEAR => Class::Near,
            ns if ns <= BETWEEN => Class::Between,
            _ => Class::Far,
        }
    }

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Near => "near",
            Class::Between => "between",
            Class::Far => "far",
        }
    }
}

/// A counter with a pair of cache lines of its own.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    /// Waits for `number`. Returns false if the timeout expires or the other side stores `END`.
    fn holds(&self, number: u64, until: Instant) -> bool {
        let mut looks = 0_u32;
        loop {
            // Pairs with the store in `put` on the other side; only the number itself is published.
            let found = self.0.load(Ordering::Acquire);
            if found == number {
                return true;
            }
            looks = looks.wrapping_add(1);
            if found == END || (looks.is_multiple_of(SPINS) && Instant::now() > until) {
                return false;
            }
            spin_loop();
        }
    }

    fn put(&self, number: u64) {
        // Pairs with the load in `holds` on the other side.
        self.0.store(number, Ordering::Release);
    }
}

/// Round-trip time in nanoseconds. Returns `None` if both CPUs are the same, cannot be pinned, or time out.
pub fn between([leader, follower]: [usize; 2]) -> Option<f64> {
    if leader == follower {
        return None;
    }
    let (line, until) = (Line(AtomicU64::new(0)), Instant::now() + TIMEOUT);
    thread::scope(|scope| {
        scope.spawn(|| {
            if pin(follower).is_ok() {
                (1..)
                    .step_by(2)
                    .take_while(|number| line.holds(*number, until))
                    .for_each(|number| line.put(number + 1));
            }
            line.put(END);
        });
        let led = scope.spawn(|| {
            let found = pin(leader).ok().and_then(|()| lead(&line, until));
            line.put(END);
            found
        });
        led.join().ok().flatten()
    })
}

/// Waits until two CPUs are not far, at most 30 s. Returns their last distance; `None` as for [`between`].
pub fn wait_while_far(cpus: [usize; 2]) -> Option<f64> {
    let began = Instant::now();
    loop {
        let distance = between(cpus)?;
        if Class::of(distance) != Class::Far || began.elapsed() > WAIT {
            return Some(distance);
        }
        thread::sleep(PAUSE);
    }
}

/// Leader side: the median of the readings.
fn lead(line: &Line, until: Instant) -> Option<f64> {
    let mut next = 1;
    let mut reading = || {
        let began = Instant::now();
        for _ in 0..ROUND_TRIPS {
            line.put(next);
            if !line.holds(next + 1, until) {
                return None;
            }
            next += 2;
        }
        Some(began.elapsed().as_nanos() as f64 / ROUND_TRIPS as f64)
    };
    // The first reading includes the start of the follower and is discarded.
    reading()?;
    let mut readings = (0..READINGS).map(|_| reading()).collect::<Option<Vec<f64>>>()?;
    readings.sort_by(f64::total_cmp);
    Some(readings[READINGS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_distance_is_in_a_later_class() {
        let classes = [150.0, 150.1, 275.1].map(Class::of);
        assert_eq!(classes, [Class::Near, Class::Between, Class::Far]);
        assert_eq!(wait_while_far([0, 0]), None);
    }

    #[test]
    fn round_trip_is_measured_and_missing_cpu_yields_none() {
        let cpus = crate::pinning::CpuPinning::here().and_then(|pinning| pinning.pair());
        if let Ok(cpus) = cpus {
            assert!(between(cpus).is_none_or(|distance| distance > 1.0), "a light year is a long way");
            assert_eq!(between([cpus[0], 1 << 20]), None);
        }
        assert_eq!(between([0, 0]), None);
    }
}
