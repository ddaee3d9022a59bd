//! Buffer cache of a thread, shared by all handoff queues that start or end on it.
//!
//! The ends of a handoff queue belong to stages, and several stages may run on one thread. The cache belongs to the
//! thread: it is created before the first round and returned to the pool when the thread ends.

use mem::pool::{Cache, Counters, Pool};
use std::cell::RefCell;
use std::sync::Arc;

struct Store {
    cache: Cache,
    /// Counters as of the last [`news`].
    told: Counters,
}

thread_local! {
    static STORE: RefCell<Option<Store>> = const { RefCell::new(None) };
}

/// Creates the cache of this thread, with buffers from `pool`.
pub(crate) fn open(pool: &Arc<Pool>) {
    let store = Store { cache: pool.cache(), told: Counters::default() };
    STORE.with_borrow_mut(|place| *place = Some(store));
}

/// Calls `f` with this thread's cache. Returns `None` if it has none.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Cache) -> R) -> Option<R> {
    STORE.with_borrow_mut(|store| Some(f(&mut store.as_mut()?.cache)))
}

/// Cache operations since the last call.
pub(crate) fn news() -> Counters {
    let news = |store: &mut Store| {
        let (now, told) = (store.cache.counters(), store.told);
        store.told = now;
        Counters {
            hits: now.hits - told.hits,
            refills: now.refills - told.refills,
            empty: now.empty - told.empty,
            frees: now.frees - told.frees,
            spills: now.spills - told.spills,
            strays: now.strays - told.strays,
            retries: now.retries - told.retries,
        }
    };
    STORE.with_borrow_mut(|store| store.as_mut().map(news).unwrap_or_default())
}
