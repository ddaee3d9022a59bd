//! Waits with a time limit; the only use of time in the end-to-end tests. A limit is a safety net, not an assertion
//! about speed.

use std::time::{Duration, Instant};

/// First and longest pause between two probes: each doubles the last, because many probes start a process.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(80)];
/// Pause between two readings of a value that is to be stable.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` until it returns `Some`. Returns `None` after `limit`.
pub fn until<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let [mut pause, longest] = PAUSES;
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(pause);
        pause = longest.min(2 * pause);
    }
}

/// Reads `value` until it is unchanged for `calm`. Returns the last value, also if it still changes after `limit`.
pub fn settled<T: PartialEq>(calm: Duration, limit: Duration, mut value: impl FnMut() -> T) -> T {
    let end = Instant::now() + limit;
    let mut last = value();
    let mut since = Instant::now();
    while since.elapsed() < calm && Instant::now() < end {
        std::thread::sleep(PAUSE);
        let now = value();
        if now != last {
            last = now;
            since = Instant::now();
        }
    }
    last
}
