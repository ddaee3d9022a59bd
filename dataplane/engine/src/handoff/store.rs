//! Buffer cache of a thread, shared by all handoff queues that start or end on it.
//!
//! The ends of a handoff queue belong to stages, and several stages may run on one thread. The cache belongs to the
//! thread: it is created before the first round and returned to the pool when the thread ends.

use mem::pool::{Cache, Counters, Pool};
use std::cell::RefCell;
use std::sync::Arc;

struct Store {
    cache: Cache,
    /// Counters as of the last [`take_counters`].
    reported: Counters,
}

thread_local! {
    static STORE: RefCell<Option<Store>> = const { RefCell::new(None) };
}

/// Creates the cache of this thread, with buffers from `pool`.
pub(crate) fn open(pool: &Arc<Pool>) {
    let store = Store { cache: pool.cache(), reported: Counters::default() };
    STORE.with_borrow_mut(|place| *place = Some(store));
}

/// Calls `f` with this thread's cache. Returns `None` if it has none.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Cache) -> R) -> Option<R> {
    STORE.with_borrow_mut(|store| Some(f(&mut store.as_mut()?.cache)))
}

/// Cache operations since the last call.
pub(crate) fn take_counters() -> Counters {
    let take_counters = |store: &mut Store| {
        let (now, reported) = (store.cache.counters(), store.reported);
        store.reported = now;
        Counters {
            hits: now.hits - reported.hits,
            refills: now.refills - reported.refills,
            empty: now.empty - reported.empty,
            frees: now.frees - reported.frees,
            spills: now.spills - reported.spills,
            strays: now.strays - reported.strays,
            retries: now.retries - reported.retries,
        }
    };
    STORE.with_borrow_mut(|store| store.as_mut().map(take_counters).unwrap_or_default())
}
