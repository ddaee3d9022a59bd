//! The DHCP lease of a port that several workers share.
//!
//! The stack of the first worker obtains it. The other workers look for a change when they run the control of their
//! ports, as for questions of other threads, and a doorbell ends their sleep. The place between them holds the latest
//! lease only, so its size is bounded, and a slow worker misses nothing but leases that were replaced. A follower must
//! not wait for another worker: if the place is locked, it looks again at the next control.

use crate::clock::Clock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use stack::{Lease, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// State that all workers of a port share.
#[derive(Debug)]
struct Place {
    /// The lease, and the clock of its times.
    lease: Mutex<Option<(Lease, Clock)>>,
    /// Number of changes.
    changes: AtomicU64,
    /// By worker; that of the first one is not used.
    doorbells: Vec<OwnedFd>,
}

/// One worker's side.
#[derive(Debug)]
pub(crate) struct SharedLease {
    place: Arc<Place>,
    index: usize,
    /// Number of changes that this worker has seen.
    seen: u64,
    /// The lease that the first worker has published.
    published: Option<Lease>,
}

impl SharedLease {
    /// The sides of `workers` workers, in order.
    ///
    /// # Errors
    /// If the kernel has no descriptor.
    pub(crate) fn sides(workers: usize) -> std::io::Result<impl Iterator<Item = Self>> {
        let doorbell = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let doorbells = (0..workers).map(doorbell).collect::<Result<_, _>>()?;
        let place = Arc::new(Place { lease: Mutex::default(), changes: AtomicU64::new(0), doorbells });
        Ok((0..workers).map(move |index| Self { place: place.clone(), index, seen: 0, published: None }))
    }

    /// Whether another worker obtains the lease.
    pub(crate) fn is_follower(&self) -> bool {
        self.index > 0
    }

    /// Passes the lease of the first worker to the others if it has changed.
    pub(crate) fn publish(&mut self, lease: Option<&Lease>, clock: Clock) {
        if self.published.as_ref() == lease {
            return;
        }
        self.published = lease.cloned();
        let mut place = self.place.lease.lock().unwrap_or_else(PoisonError::into_inner);
        *place = lease.map(|lease| (lease.clone(), clock));
        // Under the lock, so that a worker that clears its doorbell sees the change as well.
        self.place.doorbells.iter().skip(1).for_each(|doorbell| port::eventfd::signal(doorbell.as_fd()));
        // Pairs with the first load in `take_change`.
        self.place.changes.fetch_add(1, Ordering::Release);
    }

    /// Passes the lease of the first worker on if it has changed since the last call, with its end in the time of
    /// `clock`.
    pub(crate) fn take_change(&mut self, clock: Clock, each: impl FnOnce(Option<Lease>)) {
        let Place { lease, changes, doorbells } = &*self.place;
        if changes.load(Ordering::Acquire) == self.seen {
            return;
        }
        let Ok(lease) = lease.try_lock() else { return };
        doorbells.get(self.index).into_iter().for_each(port::eventfd::clear);
        self.seen = changes.load(Ordering::Relaxed);
        let latest = lease.clone();
        drop(lease);
        each(latest.map(|(mut lease, of)| {
            lease.expires = translated(lease.expires, of, clock);
            lease
        }));
    }

    /// Readable when a follower has a change to take.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.place.doorbells.get(self.index).map(AsFd::as_fd)
    }
}

/// A time of one clock as that of another one.
fn translated(time: Time, from: Clock, to: Clock) -> Time {
    if time.is_never() { time } else { Time(time.0.saturating_sub(from.now().0).saturating_add(to.now().0)) }
}
