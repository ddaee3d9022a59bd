//! How far two CPUs are from each other now: how long a line of cache takes there and back, when nothing else is asked of them.
//!
//! The CPUs of a virtual machine are moved over those that there are by whoever owns it, and nothing tells; what passes between two
//! of them then takes several times as long. So whoever sets rounds side by side has to know this of each.
//!
//! Protocol: the leader stores an odd number, the follower the even one behind it, each into the same line when it has seen the
//! other's. `OVER` ends both, whoever stores it. Neither waits longer than the timeout says.

use crate::seats::pin;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Times that the line goes there and back for a reading, and readings of which the median is taken: a CPU that is away for a while
/// spoils some of them.
const TURNS: u64 = 200;
const READINGS: usize = 41;
const TIMEOUT: Duration = Duration::from_millis(500);
/// Looks at the line between two looks at the clock.
const LOOKS: u32 = 1 << 12;
const OVER: u64 = u64::MAX;

/// A pair of lines of its own.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    /// Whether the other side's number came before the timeout was over.
    fn holds(&self, number: u64, until: Instant) -> bool {
        let mut looks = 0_u32;
        loop {
            // Pairs with `put` on the other side; there is nothing but the number to be seen.
            let found = self.0.load(Ordering::Acquire);
            if found == number {
                return true;
            }
            looks = looks.wrapping_add(1);
            if found == OVER || (looks.is_multiple_of(LOOKS) && Instant::now() > until) {
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

/// Nanoseconds there and back. None: they are one, cannot be had, or were away for too long.
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
            line.put(OVER);
        });
        let led = scope.spawn(|| {
            let found = pin(leader).ok().and_then(|()| lead(&line, until));
            line.put(OVER);
            found
        });
        led.join().ok().flatten()
    })
}

/// The median of readings.
fn lead(line: &Line, until: Instant) -> Option<f64> {
    let mut next = 1;
    let mut reading = || {
        let began = Instant::now();
        for _ in 0..TURNS {
            line.put(next);
            if !line.holds(next + 1, until) {
                return None;
            }
            next += 2;
        }
        Some(began.elapsed().as_nanos() as f64 / TURNS as f64)
    };
    // The first one waits for the follower to begin.
    reading()?;
    let mut readings = (0..READINGS).map(|_| reading()).collect::<Option<Vec<f64>>>()?;
    readings.sort_by(f64::total_cmp);
    Some(readings[READINGS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_there_and_back_and_who_is_not_there_is_no_distance() {
        let cpus = crate::seats::Seats::here().and_then(|seats| seats.pair());
        if let Ok(cpus) = cpus {
            assert!(between(cpus).is_none_or(|distance| distance > 1.0), "a light year is a long way");
            assert_eq!(between([cpus[0], 1 << 20]), None);
        }
        assert_eq!(between([0, 0]), None);
    }
}
