//! Phases of a run, and when they end.

use super::arrivals::Arrivals;
use super::table::State;
use super::{BATCH, CLOSE, DRAIN, Load, LoadError, Mode, Phase, WAIT, Workload};
use host::Calls;
use stack::Time;

impl<W: Workload> Load<W> {
    /// Whether something should have arrived since [`Self::progress`].
    fn is_waiting(&self) -> bool {
        self.pending.len() > 0 || self.phase == Phase::Opening
    }

    /// Time at which the run ends if nothing arrives.
    #[inline]
    pub(super) fn silence(&self) -> Time {
        if self.is_waiting() { self.progress.after(self.options.timeout) } else { Time::NEVER }
    }

    /// Moves to the next phase if the current one is complete.
    pub(super) fn step(&mut self, stack: &mut impl Calls, now: Time) {
        match self.phase {
            Phase::Opening if self.connections.open == u64::from(self.options.connections) => {
                self.meter.opened(now);
                self.phase = Phase::Filling;
            }
            // The attempts to connect are pending too.
            Phase::Filling if self.is_filled && self.pending.len() == self.opener.connecting as usize => {
                if self.member.ready() {
                    self.begin(now);
                } else {
                    self.until = now.after(WAIT);
                }
            }
            Phase::Running if now >= self.meter.end() => {
                (self.phase, self.until) = (Phase::Draining, now.after(DRAIN));
            }
            Phase::Draining if now >= self.until || self.pending.len() == 0 => {
                self.results = Some(Box::new(self.results(now)));
                (self.phase, self.until) = (Phase::Closing, Time::NEVER);
            }
            Phase::Closing => self.close_some(stack, now),
            _ => {}
        }
        let is_silent = self.may_open() && self.silence() <= now;
        if is_silent && self.meter.connections.established == 0 {
            self.fail(LoadError::NoAnswer(self.options.timeout));
        } else if is_silent {
            self.fail(LoadError::NoReply(self.options.timeout));
        }
    }

    /// Begins the warm-up.
    fn begin(&mut self, now: Time) {
        self.phase = Phase::Running;
        self.meter.set_begin(now.after(self.options.warm_up));
        if let Mode::Open { rate, spacing } = self.options.mode {
            self.arrivals = Some(Arrivals::new(rate, spacing, now));
        }
    }

    /// Closes connections. The run ends when the server has closed all of them, or none for some time.
    fn close_some(&mut self, stack: &mut impl Calls, now: Time) {
        let connections = self.table.range_mut(self.connections.visited, BATCH);
        self.connections.visited += connections.len();
        if !connections.is_empty() {
            self.until = now.after(CLOSE);
        }
        for connection in connections {
            if matches!(connection.state, State::Connecting | State::Open | State::Last) {
                self.connections.closing += 1;
                connection.state = State::Closing;
                stack.close(connection.id);
            }
        }
        if self.connections.visited == self.table.len()
            && (self.connections.closing == 0 || now >= self.until)
        {
            self.finish();
        }
    }

    /// Time at which the phase may end.
    pub(super) fn phase_deadline(&self) -> Time {
        let is_due = match self.phase {
            Phase::Opening => self.connections.open == u64::from(self.options.connections),
            Phase::Filling => {
                let is_filled = self.is_filled && self.pending.len() == self.opener.connecting as usize;
                is_filled && !self.member.is_ready
            }
            Phase::Running => return self.meter.end(),
            Phase::Draining => self.pending.len() == 0,
            Phase::Closing => self.connections.closing == 0 || self.connections.visited < self.table.len(),
            Phase::Done => return Time::NEVER,
        };
        if is_due { Time::default() } else { self.until }
    }
}
