//! Inline model: a worker without a thread of its own, which forwards in the context of its caller.
//!
//! An application that has packets calls [`Inline::forward`], and its own thread classifies and sends them. No other
//! core is involved, no packet waits for a poller, and nothing polls without work (the execution model of `HyperNF`).
//! The cost is time of the application's thread.
//!
//! Protocol: the worker is behind a lock, held by the caller for one round. An auxiliary thread sleeps on the
//! worker's doorbell; when the control thread rings it, the auxiliary thread takes the lock and handles the commands,
//! so the control thread does not depend on calls of the application. A caller finds the lock held only while
//! commands or timers run. Each holder of the lock handles commands first. Both do so at a burst boundary, because a
//! round leaves no burst pending. The auxiliary thread sleeps at most until the next deadline of the pipeline; a
//! caller whose packets started an earlier timer rings the doorbell.

use crate::config::EngineError;
use crate::link::{Doorbell, Link};
use crate::sleeper::timespec;
use crate::worker::{Guarded, Worker};
use port::Now;
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The worker and its state, behind the lock.
struct Locked {
    worker: Worker,
    ended: bool,
    /// When the auxiliary thread wakes for timers; `None` if it does not.
    wakes_at: Option<Now>,
    doorbell: Doorbell,
}

impl Locked {
    /// Handles the control thread's commands. Returns `false` if the worker was told to quit.
    fn handle_commands(&mut self) -> bool {
        self.ended = self.ended || !self.worker.handle_commands();
        !self.ended
    }

    /// Runs one round. Rings the doorbell if the auxiliary thread must wake earlier for a new timer.
    fn forward(&mut self) -> bool {
        let guarded = Guarded(&mut self.worker);
        let worked = guarded.0.whole_round();
        guarded.0.run_timers();
        let due = guarded.0.due();
        if due.is_some_and(|due| self.wakes_at.is_none_or(|wakes| due < wakes)) {
            self.wakes_at = due;
            self.doorbell.ring();
        }
        worked
    }

    /// Runs timers that are due. Returns how long the auxiliary thread may sleep.
    fn run_timers(&mut self) -> Option<Duration> {
        let guarded = Guarded(&mut self.worker);
        guarded.0.run_timers();
        self.wakes_at = guarded.0.due();
        guarded.0.until_timers()
    }
}

/// A worker that runs when it is called.
pub struct Inline {
    inside: Arc<Mutex<Locked>>,
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").finish_non_exhaustive()
    }
}

/// Ignores poisoning: a panic of a caller affects only the burst in progress, and the worker's queues were retired
/// ([`Guarded`]).
fn lock(inside: &Mutex<Locked>) -> MutexGuard<'_, Locked> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inline {
    /// Receives, classifies and sends what the receive queues of this worker hold, within the budget of a turn for
    /// each queue. Returns whether there was any packet; there may be more then. Returns `false` once the engine has
    /// ended.
    ///
    /// # Panics
    /// If a pipeline panics. The ports whose queues this worker had are stopped with that fault, and restarted.
    pub fn forward(&mut self) -> bool {
        let mut inside = lock(&self.inside);
        inside.handle_commands() && inside.forward()
    }
}

/// Creates the handle of the application and the auxiliary thread, which ends when it is told to quit.
pub(crate) fn run_inline(
    index: usize,
    worker: Worker,
    link: Arc<Link>,
) -> Result<(Inline, JoinHandle<()>), EngineError> {
    let doorbell = link.doorbell.clone();
    let inside = Locked { worker, ended: false, wakes_at: None, doorbell: doorbell.clone() };
    let inside = Arc::new(Mutex::new(inside));
    let inline = Inline { inside: inside.clone() };
    let thread = Builder::new().name(format!("inline-{index}")).spawn(move || {
        let ended = EndOnDrop { inside, link };
        port::prepare_thread();
        loop {
            let mut inside = lock(&ended.inside);
            if !inside.handle_commands() {
                break;
            }
            let limit = inside.run_timers();
            drop(inside);
            wait_doorbell(&doorbell, limit);
        }
    })?;
    Ok((inline, thread))
}

/// Ends the worker with its auxiliary thread, also if a timer panics: an application may still hold the handle, but
/// forwards no more, and the control thread waits for no command.
struct EndOnDrop {
    inside: Arc<Mutex<Locked>>,
    link: Arc<Link>,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        lock(&self.inside).ended = true;
        self.link.end();
    }
}

/// Sleeps until the doorbell rings, at most for `limit`.
fn wait_doorbell(doorbell: &Doorbell, limit: Option<Duration>) {
    // An interrupted sleep acts like a spurious ring.
    let _ = poll(&mut [PollFd::new(doorbell.fd(), PollFlags::IN)], limit.map(timespec).as_ref());
    doorbell.clear();
}
