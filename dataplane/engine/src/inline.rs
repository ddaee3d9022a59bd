//! Inline: a worker without a thread of its own, which forwards in the context of its caller it.
//!
//! An application that has packets calls [`Inline::forward`] and they are judged and sent by its own thread: no other core is
//! involved, no packet waits for a poller, and nothing is polled while there is nothing to do (the execution model that
//! `HyperNF` argues for). What the application gives up is time in which it would do something else.
//!
//! Protocol: the worker is behind a lock that its caller holds for a round. Beside it a thread sleeps on the doorbell by which control
//! calls any worker; when it is rung, that thread takes the lock and obeys, so control never waits for an application that
//! does not call. A caller finds the lock taken only while a command is obeyed. The first to hold the lock handles commands first; both
//! do it at a burst boundary, because a round leaves no burst behind. The thread's sleep ends with the pipeline's next
//! deadline; a caller whose packets have started an earlier one rings the doorbell.

use crate::config::EngineError;
use crate::link::{Doorbell, Link};
use crate::sleeper::timespec;
use crate::worker::{Guarded, Worker};
use port::Now;
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A worker, and whether it was told to quit.
struct Inside {
    worker: Worker,
    ended: bool,
    /// When the thread beside the caller wakes for timers; `None` if it does not.
    wakes_at: Option<Now>,
    doorbell: Doorbell,
}

impl Inside {
    /// Handles the control thread's commands. Returns whether the worker goes on.
    fn handle_commands(&mut self) -> bool {
        self.ended = self.ended || !self.worker.handle_commands();
        !self.ended
    }

    /// Takes bursts, and has the thread beside the caller wake for timers that they have started.
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

    /// Runs timers that are due. Returns how long the thread may sleep.
    fn run_timers(&mut self) -> Option<Duration> {
        let guarded = Guarded(&mut self.worker);
        guarded.0.run_timers();
        self.wakes_at = guarded.0.due();
        guarded.0.until_timers()
    }
}

/// A worker that runs when it is called.
pub struct Inline {
    inside: Arc<Mutex<Inside>>,
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").finish_non_exhaustive()
    }
}

/// A panic of a caller ends with the burst that it was in; the queues that the worker had were given back ([`Guarded`]).
fn lock(inside: &Mutex<Inside>) -> MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inline {
    /// Takes what the receive queues of this worker hold, classifies it and sends it, all before this returns, as far as each
    /// queue's budget for a turn suffices. Returns whether there was any packet; then there may be more to do. After the
    /// engine's end there is none.
    ///
    /// # Panics
    /// If a pipeline does. The ports whose queues this worker had are stopped with that reason, and start anew.
    pub fn forward(&mut self) -> bool {
        let mut inside = lock(&self.inside);
        inside.handle_commands() && inside.forward()
    }
}

/// Makes what an application calls, and the thread that obeys while it does not. That thread ends when it is told to quit.
pub(crate) fn run_inline(
    index: usize,
    worker: Worker,
    link: Arc<Link>,
) -> Result<(Inline, JoinHandle<()>), EngineError> {
    let doorbell = link.doorbell.clone();
    let inside = Inside { worker, ended: false, wakes_at: None, doorbell: doorbell.clone() };
    let inside = Arc::new(Mutex::new(inside));
    let inline = Inline { inside: inside.clone() };
    let thread = Builder::new().name(format!("merged-{index}")).spawn(move || {
        port::prepare_thread();
        loop {
            let mut inside = lock(&inside);
            if !inside.handle_commands() {
                break;
            }
            let limit = inside.run_timers();
            drop(inside);
            await_ring(&doorbell, limit);
        }
        // What the application still has in its hands is of no use, and holds nothing that is the engine's.
        link.end();
    })?;
    Ok((inline, thread))
}

/// Sleeps until the doorbell was rung, at most for `limit`.
fn await_ring(doorbell: &Doorbell, limit: Option<Duration>) {
    // An interrupted sleep is a ring too many, and harmless.
    let _ = poll(&mut [PollFd::new(doorbell.fd(), PollFlags::IN)], limit.map(timespec).as_ref());
    doorbell.quiet();
}
