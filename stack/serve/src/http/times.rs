//! Time limits of connections, looked at once per second.

use super::connection::{Progress, State};
use super::exchange::Turn;
use super::limits::HttpTimes;
use super::status::Status;
use host::Calls;
use stack::Time;
use std::time::Duration;

/// Interval of the checks of a connection.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

impl<S: Calls> Turn<'_, S> {
    /// Ends the connection if a limit is exceeded, and counts the reason.
    pub(super) fn check(&mut self) {
        let HttpTimes { request, idle, send, linger } = self.shared.times;
        let now = self.now;
        let has_expired = |since: Time, limit: Duration| now > since.after(limit);
        if self.has_stalled() && has_expired(self.c.progress.at, send) {
            self.shared.counts.send_time += 1;
            return self.stack.abort(self.c.id);
        }
        let has_input = !self.c.input.rest().is_empty();
        match self.c.state {
            State::Head if has_input && self.unacknowledged() == 0 && has_expired(self.c.since, request) => {
                self.shared.counts.request_time += 1;
                self.refuse(Status::REQUEST_TIMEOUT, true);
            }
            State::Head if !has_input && has_expired(self.c.since, idle) => {
                self.shared.counts.idle_time += 1;
                self.close();
            }
            State::Discard if has_expired(self.c.since, request) => {
                self.shared.counts.request_time += 1;
                self.close();
            }
            // The client has the time after it has acknowledged the response.
            State::Closing if self.unacknowledged() > 0 => self.c.since = now,
            State::Closing if has_expired(self.c.since, linger) => {
                self.shared.counts.linger_time += 1;
                self.stack.abort(self.c.id);
            }
            _ => {}
        }
    }

    /// Whether data is unacknowledged and there was no progress since the last one, which is recorded.
    fn has_stalled(&mut self) -> bool {
        let unacknowledged = self.unacknowledged();
        let released = self.c.sent.saturating_sub(u64::from(unacknowledged));
        let progress = self.c.progress;
        let has_stalled =
            unacknowledged > 0 && released == progress.released && progress.acked < HttpTimes::PROGRESS;
        if !has_stalled {
            self.c.progress = Progress { at: self.now, released, acked: 0 };
        }
        has_stalled
    }
}
