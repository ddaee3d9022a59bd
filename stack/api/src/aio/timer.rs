//! Timers of tasks.

use super::Handle;
use super::runtime::Shared;
use stack::Time;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Wakers by their time, with a number for those of the same time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    all: BTreeMap<(Time, u64), Waker>,
    last: u64,
}

impl Timers {
    /// The earliest time.
    pub(super) fn first(&self) -> Option<Time> {
        self.all.keys().next().map(|(at, _)| *at)
    }

    /// Whether a timer is due. The clock is read only if there is a timer.
    #[inline]
    pub(super) fn is_due(&self, now: impl FnOnce() -> Time) -> bool {
        self.first().is_some_and(|at| at <= now())
    }

    pub(super) fn take_due(&mut self, now: Time, woken: &mut Vec<Waker>) {
        while let Some(first) = self.all.first_entry().filter(|first| first.key().0 <= now) {
            woken.push(first.remove());
        }
    }

    fn add(&mut self, at: Time, waker: Waker) -> u64 {
        self.last += 1;
        self.all.insert((at, self.last), waker);
        self.last
    }
}

/// A future that completes at a time.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    shared: Rc<Shared>,
    at: Time,
    number: Option<u64>,
}

/// The limit of [`Handle::timeout`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct TimedOut;

impl From<TimedOut> for std::io::Error {
    fn from(_: TimedOut) -> Self {
        std::io::ErrorKind::TimedOut.into()
    }
}

impl Sleep {
    fn remove(&mut self) -> Option<Waker> {
        let key = (self.at, self.number.take()?);
        self.shared.timers(|timers| timers.all.remove(&key))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The waker may be another one than that of the last call. It is dropped while nothing is borrowed.
        let last = self.remove();
        if self.at <= self.shared.now() {
            return Poll::Ready(());
        }
        let waker = last.filter(|last| last.will_wake(context.waker()));
        let waker = waker.unwrap_or_else(|| context.waker().clone());
        let at = self.at;
        self.number = Some(self.shared.timers(|timers| timers.add(at, waker)));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl Handle {
    /// Waits for a duration, beginning now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { shared: self.shared.clone(), at: self.shared.now().after(duration), number: None }
    }

    /// Runs a future for at most `limit`.
    ///
    /// # Errors
    /// [`TimedOut`] if it is not complete then; it is dropped.
    pub async fn timeout<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Result<T, TimedOut> {
        let (mut future, mut sleep) = (pin!(future), pin!(self.sleep(limit)));
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => sleep.as_mut().poll(context).map(|()| Err(TimedOut)),
        })
        .await
    }
}
