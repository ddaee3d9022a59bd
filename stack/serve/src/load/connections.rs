//! Begin and end of the client's connections.

use super::opener::Opened;
use super::table::State;
use super::{BATCH, CLOSE, Failure, Load, LoadError, Phase, Workload};
use host::Calls;
use stack::tcp::ConnectionId;
use stack::{Closed, ConnectError, Time};

impl<W: Workload> Load<W> {
    /// Opens connections that are wanted.
    pub(super) fn open_some(&mut self, stack: &mut impl Calls, now: Time) {
        for _ in 0..BATCH {
            if self.opener.deadline() > now {
                return;
            }
            match self.opener.open(stack, now) {
                Opened::Connecting(id) => {
                    self.meter.connections.attempted += 1;
                    if self.pending.len() == 0 && self.opener.passed == 0 {
                        self.progress = now;
                    }
                    let connection = self.table.insert(id);
                    // The time of the attempt.
                    self.pending.push(&mut connection.last, now, 0);
                }
                Opened::Later => return,
                Opened::NoRoute => return self.fail(LoadError::NoRoute),
            }
        }
    }

    pub(super) fn connected(&mut self, id: ConnectionId, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        // The event of a connection that was closed meanwhile may be on its way from another thread.
        if connection.state != State::Connecting {
            return;
        }
        let attempt = self.pending.pop(&mut connection.last);
        connection.state = State::Open;
        (self.opener.connecting, self.opener.passed) = (self.opener.connecting - 1, 0);
        self.connections.open += 1;
        self.progress = now;
        self.meter.connected(attempt.map_or(now, |attempt| attempt.due), self.connections.open, now);
        self.table.enqueue(id);
    }

    /// The thread of the stack could not begin an attempt. Another one follows, as after a call that failed at once.
    pub(super) fn not_opened(&mut self, id: ConnectionId, error: ConnectError, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.state != State::Connecting {
            return self.closed(id, Closed::Aborted, now);
        }
        self.pending.pop(&mut connection.last);
        connection.state = State::Free;
        self.meter.connections.attempted -= 1;
        self.opener.wanted += u32::from(self.may_open());
        if !self.opener.not_opened(error, now) {
            self.fail(LoadError::NoRoute);
        }
    }

    /// Closes a connection, and has it replaced.
    pub(super) fn leave(&mut self, stack: &mut impl Calls, id: ConnectionId, now: Time) {
        if self.table.get_mut(id).is_some_and(|connection| connection.outstanding > 0) {
            self.meter.connections.lost.add(Failure::Closed);
        } else {
            self.meter.connections.ended += 1;
        }
        stack.close(id);
        self.end(id, Failure::Closed, State::Closing, now);
    }

    /// An open connection is not used any more: its requests fail for this reason, and another one takes its place.
    pub(super) fn end(&mut self, id: ConnectionId, reason: Failure, state: State, now: Time) {
        self.texts.remove(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        while let Some(request) = self.pending.pop(&mut connection.last) {
            self.meter.failed(request.due, reason, now);
        }
        connection.outstanding = 0;
        connection.state = state;
        self.connections.closing += u64::from(state == State::Closing);
        self.connections.open -= 1;
        self.opener.wanted += u32::from(self.may_open());
    }

    pub(super) fn may_open(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Filling | Phase::Running)
    }

    /// The server sends no more.
    pub(super) fn finished(&mut self, stack: &mut impl Calls, id: ConnectionId, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if !matches!(connection.state, State::Open | State::Last) {
            return;
        }
        if connection.outstanding > 0
            && let Some(reply) = self.workload.end(connection.framing)
        {
            return self.complete(stack, id, reply, now);
        }
        self.leave(stack, id, now);
    }

    pub(super) fn closed(&mut self, id: ConnectionId, reason: Closed, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let reason = Failure::from(reason);
        match connection.state {
            State::Connecting => {
                self.pending.pop(&mut connection.last);
                connection.state = State::Free;
                self.opener.connecting -= 1;
                self.opener.wanted += u32::from(self.may_open());
                self.opener.postpone(now);
                self.meter.connect_failed(reason, now);
                if self.meter.connections.established == 0 {
                    self.fail(LoadError::Connect(reason));
                }
            }
            State::Open | State::Last => {
                self.meter.connections.lost.add(reason);
                self.end(id, reason, State::Free, now);
            }
            State::Closing => {
                connection.state = State::Free;
                self.connections.closing = self.connections.closing.saturating_sub(1);
                self.until = if self.phase == Phase::Closing { now.after(CLOSE) } else { self.until };
            }
            State::Free => {}
        }
    }
}
