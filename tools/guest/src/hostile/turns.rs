//! The share of thread time that an attack takes from the measurement on the same thread.

use super::squad::{Account, Squad};

/// A squad with timed turns, in cycles of the time-stamp counter.
#[derive(Debug)]
pub struct Turns {
    squad: Squad,
    began: u64,
    last: u64,
    spent: u64,
    stall: u64,
    count: u64,
}

/// Timing since [`Turns::restart`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Share of the time spent in the attack, 0 to 1.
    pub attacker: f64,
    /// The longest gap between turns, or longest turn, as a share of the total time.
    pub longest_stall: f64,
    /// Number of turns.
    pub turns: u64,
}

impl Turns {
    /// Starts timing the turns of `squad`.
    pub fn new(squad: Squad) -> Self {
        let now = mem::ticks();
        Self { squad, began: now, last: now, spent: 0, stall: 0, count: 0 }
    }

    /// Runs one turn.
    #[inline]
    pub fn turn(&mut self) {
        let before = mem::ticks();
        self.stall = self.stall.max(before.saturating_sub(self.last));
        self.squad.step();
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
    pub fn shares(&self) -> Shares {
        let all = self.last.saturating_sub(self.began).max(1) as f64;
        let (attacker, longest_stall) = (self.spent as f64 / all, self.stall as f64 / all);
        Shares { attacker, longest_stall, turns: self.count }
    }

    /// Counters of each device.
    pub fn accounts(&self) -> Vec<Account> {
        self.squad.accounts()
    }
}
