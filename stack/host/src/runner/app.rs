//! Interface of an application that the loop calls with events.

use crate::Buffer;
use rustix::fd::BorrowedFd;
use stack::tcp::{ConnectionId, ListenerId};
use stack::{Closed, ConnectError, Event, ListenError, Stack, Time};

/// An application of a host. `S` is the stack, or stands for it on another thread ([`crate::Remote`]).
pub trait App<S = Stack<Buffer>> {
    /// Handles an event of the stack.
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time);

    /// Does work that no event announces, after the events of each round and before transmission. Must do a bounded
    /// amount of work. Returns whether there was any.
    #[inline]
    fn poll(&mut self, _stack: &mut S, _now: Time) -> bool {
        false
    }

    /// Makes new work signal one of [`App::wake_fds`]. Returns `false` if there is work now. [`App::resume`] follows in
    /// both cases.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    /// Descriptors that end a sleep when they are readable.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Ends the preparation for a sleep.
    fn resume(&mut self) {}

    /// Latest time of the next call of [`App::poll`]; [`Time::NEVER`] if nothing is due.
    fn deadline(&self) -> Time {
        Time::NEVER
    }

    /// Handles the loss of a port that carried packets: its name and its state as text. Called between two rounds.
    fn port_lost(&mut self, _name: &str, _state: &str) {}

    /// Handles the failure of [`crate::Calls::connect`] on another thread than the stack's. By default, an event that
    /// the connection was closed.
    fn connect_failed(&mut self, stack: &mut S, connection: ConnectionId, error: ConnectError, now: Time) {
        let reason = match error {
            ConnectError::NoRoute => Closed::Unreachable,
            ConnectError::InUse | ConnectError::TooMany => Closed::Aborted,
        };
        self.event(stack, Event::Closed { connection, reason }, now);
    }

    /// Handles the failure of [`crate::Calls::listen`] on another thread than the stack's.
    fn listen_failed(&mut self, _stack: &mut S, _listener: ListenerId, _error: ListenError, _now: Time) {}
}

/// No application, for a caller that takes the events itself.
pub(super) struct NoApp;

impl App for NoApp {
    fn event(&mut self, _stack: &mut Stack<Buffer>, _event: Event<Buffer>, _now: Time) {}
}
