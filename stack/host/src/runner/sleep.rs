//! Sleeping of an idle host, and its limits.

use super::{App, Host};
use crate::inspect::Inspection;
use crate::lease::SharedLease;
use port::{Flush, Now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use stack::Time;
use std::time::{Duration, Instant};

/// Maximum time between two looks at the stop flag.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(100);
/// Maximum sleep while frames wait for room of a port, which does not announce it.
const ROOM_INTERVAL: Duration = Duration::from_micros(500);

impl Host {
    /// Sends frames that ports hold back.
    pub(super) fn flush_delayed(&mut self, due: Flush) {
        let now = Now(self.clock.now().0);
        let interfaces = self.ports.interfaces.iter_mut();
        if interfaces.fold(false, |sent, interface| interface.port.flush(now, due) | sent) {
            self.notify();
        }
    }

    /// Sleeps until there may be work, at most for `limit`. Returns `false`, without sleeping, if packets or work of
    /// the application are pending.
    #[cold]
    pub(super) fn sleep(&mut self, app: &mut impl App, limit: Duration) -> bool {
        self.flush_delayed(Flush::All);
        self.share_leases(self.clock.now());
        let interfaces = self.ports.interfaces.iter_mut();
        let is_quiet = interfaces.fold(true, |all, interface| all & interface.port.enable_notification());
        let may_sleep = app.prepare_sleep() && is_quiet;
        if may_sleep {
            self.sleep_for(self.sleep_limit(app.deadline(), limit), &app.wake_fds());
        }
        app.resume();
        self.ports.interfaces.iter_mut().for_each(|interface| interface.port.disable_notification());
        if may_sleep {
            self.control(self.clock.now());
        }
        may_sleep
    }

    /// Time until the next timer of the application (`deadline`), the stack or a port, at most `limit`.
    fn sleep_limit(&self, deadline: Time, limit: Duration) -> Duration {
        let (now, has_backlog) = (self.clock.now(), self.has_backlog());
        let limit = if has_backlog { limit.min(ROOM_INTERVAL) } else { limit };
        let due = self.stack.deadline();
        // Frames that are due follow those of the backlog.
        let due = if has_backlog && due == Time(0) { deadline } else { due.min(deadline) };
        let of_stack = Duration::from_nanos(due.0.saturating_sub(now.0));
        let deadlines = self.ports.interfaces.iter().filter_map(|interface| interface.port.deadline());
        let instant = Instant::now();
        let of_ports = deadlines.map(|at| at.saturating_duration_since(instant)).min();
        limit.min(of_stack).min(of_ports.unwrap_or(limit))
    }

    /// Waits for a kick or an event of a port's control.
    fn sleep_for(&self, limit: Duration, of_app: &[BorrowedFd<'_>]) {
        let fds = self.ports.interfaces.iter().flat_map(|interface| interface.port.wake_fds());
        let fds = fds.chain(of_app.iter().copied()).chain(self.inspection.iter().map(Inspection::fd));
        let leases = self.ports.interfaces.iter().filter_map(|interface| interface.lease.as_ref());
        let fds = fds.chain(leases.filter_map(SharedLease::fd));
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        // An interrupted sleep counts as a wake-up.
        let _ = poll(&mut fds, Some(&limit));
    }
}
