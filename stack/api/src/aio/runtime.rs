//! The executor of one core, and the host that it drives.

use super::doorbell::Doorbell;
use super::timer::Timers;
use crate::net::Net;
use async_executor::{LocalExecutor, Task};
use host::{Host, Report};
use stack::Time;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Sleep at a time.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The host and the timers, which all objects of a runtime share.
#[derive(Debug)]
pub(super) struct Shared {
    net: RefCell<Net<Waker>>,
    timers: RefCell<Timers>,
    /// Wakers of a round; empty between rounds.
    woken: RefCell<Vec<Waker>>,
}

impl Shared {
    /// Calls `work` with the network, which it must not use otherwise.
    #[inline]
    pub(super) fn net<R>(&self, work: impl FnOnce(&mut Net<Waker>) -> R) -> R {
        work(&mut self.net.borrow_mut())
    }

    pub(super) fn timers<R>(&self, work: impl FnOnce(&mut Timers) -> R) -> R {
        work(&mut self.timers.borrow_mut())
    }

    pub(super) fn now(&self) -> Time {
        self.net.borrow().host.now()
    }

    /// Runs one round of the host and wakes the tasks whose call may succeed. Wakers run while nothing is borrowed.
    #[inline]
    fn turn(&self, limit: Duration) {
        let mut woken = self.woken.take();
        self.net(|net| {
            net.turn(limit);
            woken.append(&mut net.ends.woken);
        });
        let due = self.timers.borrow().is_due(|| self.now());
        if due {
            self.timers(|timers| timers.take_due(self.now(), &mut woken));
        }
        woken.drain(..).for_each(Waker::wake);
        self.woken.replace(woken);
    }
}

/// A host with an executor for its thread.
#[derive(Debug)]
pub struct Runtime {
    shared: Rc<Shared>,
    executor: Rc<LocalExecutor<'static>>,
    doorbell: Arc<Doorbell>,
}

/// Access of tasks to their runtime.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Rc<Shared>,
    /// Weak, because the executor owns tasks, and these own handles.
    executor: Weak<LocalExecutor<'static>>,
}

impl Runtime {
    /// Takes over a host with its ports.
    ///
    /// # Errors
    /// If no file descriptor is available.
    pub fn new(host: Host) -> std::io::Result<Self> {
        let doorbell = Arc::new(Doorbell::new()?);
        let shared = Shared {
            net: RefCell::new(Net::new(host, Some(doorbell.fd()))),
            timers: RefCell::default(),
            woken: RefCell::default(),
        };
        Ok(Self { shared: Rc::new(shared), executor: Rc::default(), doorbell })
    }

    /// Access for tasks.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone(), executor: Rc::downgrade(&self.executor) }
    }

    /// Runs a future and all tasks until the future is complete. Tasks continue with the next call.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let waker = Waker::from(self.doorbell.clone());
        let mut context = Context::from_waker(&waker);
        let mut all = pin!(self.executor.run(future));
        // The last call may have left tasks that are ready.
        waker.wake_by_ref();
        loop {
            if self.doorbell.take()
                && let Poll::Ready(output) = all.as_mut().poll(&mut context)
            {
                return output;
            }
            let may_sleep = self.shared.net.borrow().is_idle();
            if may_sleep {
                self.rest();
            } else {
                self.shared.turn(Duration::ZERO);
            }
        }
    }

    /// Runs one round in which the host may sleep until a timer is due.
    fn rest(&self) {
        let limit = if self.doorbell.prepare_sleep() {
            let due = self.shared.timers.borrow().first();
            due.map_or(MAX_SLEEP, |at| Duration::from_nanos(at.0.saturating_sub(self.shared.now().0)))
        } else {
            Duration::ZERO
        };
        self.shared.turn(limit);
        self.doorbell.end_sleep();
    }

    /// Drops all tasks, waits until their connections have ended, at most `limit`, and closes the ports. Returns `None`
    /// if a handle, listener, stream or socket exists outside of the tasks; the connections are not waited for then.
    pub fn close(self, limit: Duration) -> Option<Report> {
        let Self { shared, executor, .. } = self;
        drop(executor);
        let shared = Rc::into_inner(shared)?;
        Some(shared.net.into_inner().close(limit))
    }
}

impl Handle {
    /// Starts a task. Dropping the result cancels it; [`Task::detach`] lets it run. A task started after the end of the
    /// runtime is cancelled.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        self.executor.upgrade().unwrap_or_default().spawn(future)
    }

    /// Calls `work` with the host, to configure it or to read its counters. `work` must not use objects of the runtime.
    pub fn with_host<R>(&self, work: impl FnOnce(&mut Host) -> R) -> R {
        self.shared.net(|net| work(&mut net.host))
    }
}
