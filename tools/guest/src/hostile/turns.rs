//! What the turns of an attack take of the thread that they share with a measurement.

use super::squad::{Account, Squad};

/// A squad whose turns are timed, in cycles of the time-stamp counter.
#[derive(Debug)]
pub struct Turns {
    squad: Squad,
    began: u64,
    last: u64,
    spent: u64,
    stall: u64,
    count: u64,
}

/// What was timed since [`Turns::restart`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The part of the time that the attack took.
    pub attacker: f64,
    /// The longest part of the time between two turns or in one.
    pub longest_stall: f64,
    /// Turns.
    pub turns: u64,
}

impl Turns {
    /// Times the turns of `squad` from now on.
    pub fn new(squad: Squad) -> Self {
        let now = mem::ticks();
        Self { squad, began: now, last: now, spent: 0, stall: 0, count: 0 }
    }

    /// One turn.
    #[inline]
    pub fn turn(&mut self) {
        let before = mem::ticks();
        self.stall = self.stall.max(before.saturating_sub(self.last));
        self.squad.step();
        self.last = mem::ticks();
        let took = self.last.saturating_sub(before);
        // A turn takes microseconds, so one of milliseconds was interrupted.
        self.stall = self.stall.max(took);
        self.spent += took;
        self.count += 1;
    }

    /// Forgets what was timed.
    pub fn restart(&mut self) {
        let now = mem::ticks();
        (self.began, self.last, self.spent, self.stall, self.count) = (now, now, 0, 0, 0);
    }

    /// What was timed.
    pub fn shares(&self) -> Shares {
        let all = self.last.saturating_sub(self.began).max(1) as f64;
        let (attacker, longest_stall) = (self.spent as f64 / all, self.stall as f64 / all);
        Shares { attacker, longest_stall, turns: self.count }
    }

    /// What each device did.
    pub fn accounts(&self) -> Vec<Account> {
        self.squad.accounts()
    }
}
