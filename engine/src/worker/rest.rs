//! How a worker rests: it asks its queues for kicks, looks again, and sleeps.

use super::Worker;
use std::sync::atomic::Ordering;

impl Worker {
    /// Sleeps until a kick or a command, unless packets are there already. Whether it slept.
    #[cold]
    pub(super) fn sleep(&mut self) -> bool {
        self.notify();
        if self.rx.iter().any(|slot| slot.queue.kick_fd().is_none()) || !self.arm_all() {
            self.disarm_all();
            return false;
        }
        self.falls_asleep();
        self.sleeper.sleep();
        self.wakes();
        self.disarm_all();
        true
    }

    pub(super) fn falls_asleep(&self) {
        self.counters.sleeping.store(true, Ordering::Relaxed);
        self.counters.sleeps.add(1);
    }

    pub(super) fn wakes(&self) {
        self.counters.sleeping.store(false, Ordering::Relaxed);
        self.counters.wakes.add(1);
    }

    /// Asks every queue for kicks. `false` when one has packets, and sleeping would delay them.
    pub(super) fn arm_all(&mut self) -> bool {
        let mut at = 0;
        while at < self.rx.len() {
            match self.rx[at].queue.arm() {
                Ok(false) => at += 1,
                Ok(true) => return false,
                Err(fault) => self.lose_rx(at, fault),
            }
        }
        true
    }

    pub(super) fn disarm_all(&mut self) {
        self.rx.iter_mut().for_each(|slot| slot.queue.disarm());
    }
}
