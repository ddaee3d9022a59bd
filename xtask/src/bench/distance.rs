//! Distance of two CPUs: round-trip time of a cache line in nanoseconds. A hypervisor may move virtual CPUs, so the
//! distance is measured with every reading, and only readings at the same distance are compared.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Maximum round-trip times in nanoseconds of CPUs that are near and in between. Measured: 50 to 110 on one core complex,
/// 190 to 250 on two complexes of a socket, 300 and more on two sockets.
const NEAR: f64 = 150.0;
const BETWEEN: f64 = 275.0;
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
    let distance = measure::distance::between([one, other]);
    distance
        .map(Distance)
        .with_context(|| format!("the distance of CPUs {one} and {other} cannot be measured"))
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
