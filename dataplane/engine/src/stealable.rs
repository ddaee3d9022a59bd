//! A receive queue that several workers may serve, one at a time.
//!
//! Protocol. The queue is behind a lock, and the worker that serves it holds the lock from `rx` until `complete` and the notification
//! behind it: taking, judging, sending and giving back of one burst are one piece, so bursts of a queue are sent in the order
//! in which they were taken, and with them the packets of each flow. Workers only *try* the lock: one that finds it held goes
//! on to its other work, because its holder does the work that there is. Only for a command of control's do they wait for it,
//! with a limit: a queue has to hear of changed memory, and nothing may be carried over for a port that is gone.
//!
//! One worker is the queue's home: it polls it in every round, sleeps on its kick, and arms it. Another one looks at
//! `backlog`, which says how many packets the last burst had, and takes a burst where that was many. The number is written
//! under the lock and read without it: it is a hint, and a stale one costs a look in vain or a burst left to its home.
//!
//! What a queue has used of the workers' time, and a burst that is carried over, stand beside it behind the lock: whichever
//! worker has the next turn goes on with it.
//!
//! A queue that is found broken is taken out under the lock; later workers find nothing. When control takes the queue
//! back, it first has every worker forget the stall at a burst boundary, so that no worker is left that could hold it.

use crate::command::{Generation, QueueKey};
use crate::worker::Account;
use mem::line::Padded;
use port::RxQueue;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// A queue and its account.
pub(crate) struct Served {
    pub(crate) queue: Box<dyn RxQueue>,
    pub(crate) account: Account,
}

/// What is behind the lock; nothing, once it was found broken or taken back.
type Held<'a> = MutexGuard<'a, Option<Served>>;

/// A receive queue that any worker may serve.
pub(crate) struct StealableQueue {
    pub(crate) key: QueueKey,
    pub(crate) generation: Generation,
    /// The worker that it belongs to, by its place among those that take packets.
    pub(crate) home: usize,
    /// Whether only its home may serve it.
    stays: bool,
    /// A descriptor of its own for what becomes readable with a kick, so that sleeping needs no lock.
    kick: Option<OwnedFd>,
    queue: Mutex<Option<Served>>,
    /// Packets of the last burst. On a line of its own, because idle workers read it again and again.
    backlog: Padded<AtomicU32>,
    /// Packets so far; written under the lock.
    packets: AtomicU64,
}

impl StealableQueue {
    /// A queue at home at the worker `home`; with `stays`, it is never stolen.
    pub(crate) fn new(
        key: QueueKey,
        generation: Generation,
        (home, stays): (usize, bool),
        queue: Box<dyn RxQueue>,
    ) -> Self {
        // Where the kernel gives no descriptor, the queue keeps its home awake.
        let kick = queue.kick_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        Self {
            key,
            generation,
            home,
            stays,
            kick,
            queue: Mutex::new(Some(Served { queue, account: Account::default() })),
            backlog: Padded(AtomicU32::new(0)),
            packets: AtomicU64::new(0),
        }
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(AsFd::as_fd)
    }

    /// The queue; `None` if another worker has it just now, or panicked with it.
    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        self.queue.try_lock().ok()
    }

    /// The queue with which a worker panicked, for whichever worker notices first. It is in no state to go on.
    #[cold]
    pub(crate) fn take_failed(&self) -> Option<Served> {
        match self.queue.try_lock() {
            Err(TryLockError::Poisoned(held)) => held.into_inner().take(),
            _ => None,
        }
    }

    /// Whether a worker panicked with the queue.
    pub(crate) fn has_failed(&self) -> bool {
        self.queue.is_poisoned()
    }

    /// The queue, as soon as no worker has it; `None` if that takes longer than `limit`, or a worker panicked with it.
    pub(crate) fn hold(&self, limit: Duration) -> Option<Held<'_>> {
        let began = Instant::now();
        loop {
            match self.queue.try_lock() {
                Ok(held) => return Some(held),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) if began.elapsed() > limit => return None,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// Control's, when every worker has forgotten it.
    pub(crate) fn take(&self) -> Option<Box<dyn RxQueue>> {
        Some(self.try_hold()?.take()?.queue)
    }

    /// Called by the holder of the queue: a burst of so many packets was taken.
    #[inline]
    pub(crate) fn served(&self, packets: usize, more: u64) {
        // The line moves only when there is news.
        if self.backlog.load(Ordering::Relaxed) != packets as u32 {
            self.backlog.store(packets as u32, Ordering::Relaxed);
        }
        if more > 0 {
            // There is no other writer while the lock is held.
            self.packets.store(self.packets.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    /// How much there is to steal: packets of the last burst.
    #[inline]
    pub(crate) fn backlog(&self) -> u32 {
        if self.stays { 0 } else { self.backlog.load(Ordering::Relaxed) }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }
}
