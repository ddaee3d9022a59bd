//! The share of thread time that an attack takes from the measurement on the same thread.

use super::group::{AttackGroup, DeviceCounts};

/// A squad with timed turns, in cycles of the time-stamp counter.
#[derive(Debug)]
pub struct TimedGroup {
    group: AttackGroup,
    began: u64,
    last: u64,
    spent: u64,
    stall: u64,
    count: u64,
}

/// Timing since [`TimedGroup::restart`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// Share of the time spent in the attack, 0 to 1.
    pub attacker: f64,
    /// The longest gap between turns, or longest turn, as a share of the total time.
    pub longest_stall: f64,
    /// Number of turns.
    pub turns: u64,
}

impl TimedGroup {
    /// Starts timing the turns of `group`.
    pub fn new(group: AttackGroup) -> Self {
        let now = mem::ticks();
        Self { group, began: now, last: now, spent: 0, stall: 0, count: 0 }
    }

    /// Runs one turn.
    #[inline]
    pub fn turn(&mut self) {
        let before = mem::ticks();
        self.stall = self.stall.max(before.saturating_sub(self.last));
        self.group.step();
        self.last = mem::ticks();
        let took = self.last.saturating_sub(before);
        // A turn takes microseconds; a turn of milliseconds was interrupted.
        self.stall = self.stall.max(took);
        self.spent += took;
        self.count += 1;
    }

    /// Resets the timing.
    pub fn restart(&mut self) {
        let now = mem::ticks();
        (self.began, self.last, self.spent, self.stall, self.count) = (now, now, 0, 0, 0);
    }

    /// The timing so far.
    pub fn timing(&self) -> Timing {
        let all = self.last.saturating_sub(self.began).max(1) as f64;
        let (attacker, longest_stall) = (self.spent as f64 / all, self.stall as f64 / all);
        Timing { attacker, longest_stall, turns: self.count }
    }

    /// Counters of each device.
    pub fn device_counts(&self) -> Vec<DeviceCounts> {
        self.group.device_counts()
    }
}
