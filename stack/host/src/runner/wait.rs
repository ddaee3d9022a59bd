//! The loop of one core for a program with a loop of its own: it waits for events instead of being called with them.
//!
//! Must not receive while events are pending, so that the work between two returns is bounded by one burst of each
//! receive queue.

use super::app::NoApp;
use super::sleep::MAX_SLEEP;
use super::{Host, IDLE_ROUNDS};
use engine::Polling;
use mem::copy::{Kernel, chosen};
use stack::Time;
use std::time::Duration;

impl Host {
    /// Sends what is due, and waits until the stack has events or `timeout` has passed. Returns the number of events,
    /// which [`stack::Stack::poll_event`] returns. Sleeps as [`Host::run`] does. Events that are pending end the call
    /// before anything is received.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        mem::with_kernel!(chosen(), K => self.wait_with::<K>(timeout))
    }

    #[inline]
    fn wait_with<K: Kernel>(&mut self, timeout: Duration) -> usize {
        let mut now = self.clock.now();
        let until = Time(now.0.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)));
        let (mut idle_rounds, mut worked_at) = (0, now);
        loop {
            let worked = self.turn::<K>(now);
            let pending = self.stack.pending_events();
            if pending > 0 || now >= until {
                return pending;
            }
            if worked {
                (idle_rounds, worked_at) = (0, now);
            } else {
                idle_rounds += 1;
                std::hint::spin_loop();
            }
            let is_idle = idle_rounds > IDLE_ROUNDS && now.0 - worked_at.0 > self.idle;
            let limit = MAX_SLEEP.min(Duration::from_nanos(until.0 - now.0));
            if is_idle && self.polling == Polling::Adaptive && self.sleep(&mut NoApp, limit) {
                self.rounds.2 += 1;
                (idle_rounds, worked_at) = (0, self.clock.now());
            }
            now = self.clock.now();
        }
    }

    /// Sends what is due, and receives if no events are pending. Returns whether there was any work.
    #[inline]
    fn turn<K: Kernel>(&mut self, now: Time) -> bool {
        if self.is_control_due(now) {
            self.control(now);
        }
        let sent = self.has_output(now) && self.send(now);
        let came = self.stack.pending_events() == 0 && self.receive::<K>(now) > 0;
        *(if sent || came { &mut self.rounds.0 } else { &mut self.rounds.1 }) += 1;
        sent || came
    }
}
