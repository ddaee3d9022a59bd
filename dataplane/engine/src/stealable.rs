//! A receive queue that several workers may serve, one at a time.
//!
//! Protocol: the queue is behind a lock. The worker that serves it holds the lock from `rx` until `complete` and the
//! notification after it, so receiving, classifying, sending and completing one burst are atomic; bursts of a queue,
//! and the packets of each flow, are sent in the order in which they were received. Workers only try the lock: if it
//! is held, the worker continues with its other work, because the holder serves the queue. Only for a command of the
//! control thread they wait for it, with a limit: the queue must take over a changed memory table, and nothing may
//! stay carried over for a removed port.
//!
//! One worker is the home of the queue: it polls the queue in every round, sleeps on its kick and enables its
//! notification. Another worker reads `backlog`, the number of packets of the last burst, and takes a burst if it was
//! large. `backlog` is written under the lock and read without it, both `Relaxed`: it is a hint, and a stale value
//! costs an unsuccessful attempt or leaves a burst to the home.
//!
//! The account of the queue and its carried bursts are behind the same lock, so the next worker continues with them.
//!
//! A failed queue is taken out under the lock; other workers then find `None`. Before the control thread takes a
//! queue back, it has every worker drop the `StealableQueue` at a burst boundary, so that no worker can hold the
//! lock.

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

/// The locked queue; `None` once it failed or was taken back.
type Held<'a> = MutexGuard<'a, Option<Served>>;

/// A receive queue that any worker may serve.
pub(crate) struct StealableQueue {
    pub(crate) key: QueueKey,
    pub(crate) generation: Generation,
    /// Index of its home worker, among the workers that receive packets.
    pub(crate) home: usize,
    /// Whether only the home may serve it.
    stays: bool,
    /// A duplicate of the kick descriptor, so that sleeping does not need the lock.
    kick: Option<OwnedFd>,
    queue: Mutex<Option<Served>>,
    /// Packets of the last burst. On a separate cache line, because idle workers read it repeatedly.
    backlog: Padded<AtomicU32>,
    /// Total packets; written under the lock.
    packets: AtomicU64,
}

impl StealableQueue {
    /// A queue with home worker `home`. It is never stolen if `stays` is true.
    pub(crate) fn new(
        key: QueueKey,
        generation: Generation,
        (home, stays): (usize, bool),
        queue: Box<dyn RxQueue>,
    ) -> Self {
        // If the kernel cannot duplicate the descriptor, the queue keeps its home awake.
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

    /// Locks the queue. Returns `None` if the lock is held or poisoned.
    pub(crate) fn try_hold(&self) -> Option<Held<'_>> {
        self.queue.try_lock().ok()
    }

    /// Takes the queue out of a poisoned lock. Its state is undefined. Returns `None` on later calls.
    #[cold]
    pub(crate) fn take_failed(&self) -> Option<Served> {
        match self.queue.try_lock() {
            Err(TryLockError::Poisoned(held)) => held.into_inner().take(),
            _ => None,
        }
    }

    /// Whether a worker panicked while it held the queue.
    pub(crate) fn has_failed(&self) -> bool {
        self.queue.is_poisoned()
    }

    /// Locks the queue. Returns `None` if the lock is poisoned or not free within `limit`.
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

    /// Takes the queue back. Called by the control thread after every worker has dropped it.
    pub(crate) fn take(&self) -> Option<Box<dyn RxQueue>> {
        Some(self.try_hold()?.take()?.queue)
    }

    /// Records a burst of `packets` packets and adds `more` to the total. Must be called with the lock held.
    #[inline]
    pub(crate) fn served(&self, packets: usize, more: u64) {
        // Stored only if changed, so that readers keep their copy of the cache line.
        if self.backlog.load(Ordering::Relaxed) != packets as u32 {
            self.backlog.store(packets as u32, Ordering::Relaxed);
        }
        if more > 0 {
            // The lock holder is the only writer.
            self.packets.store(self.packets.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    /// Packets available for stealing: those of the last burst.
    #[inline]
    pub(crate) fn backlog(&self) -> u32 {
        if self.stays { 0 } else { self.backlog.load(Ordering::Relaxed) }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }
}
