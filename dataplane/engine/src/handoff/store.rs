//! The buffers that a thread has at hand: one cache of the pool for all handoff queues that begin or end on it.
//!
//! A handoff queue's end belongs to the worker whose stage it is, and several stages may be on one thread; what they share is the
//! thread. So the cache is the thread's, is put there before its first round and goes back to the pool with its end.

use mem::pool::{Cache, Counters, Pool};
use std::cell::RefCell;
use std::sync::Arc;

struct Store {
    cache: Cache,
    /// What was told already.
    told: Counters,
}

thread_local! {
    static STORE: RefCell<Option<Store>> = const { RefCell::new(None) };
}

/// This thread takes buffers from `pool` from now on.
pub(crate) fn open(pool: &Arc<Pool>) {
    let store = Store { cache: pool.cache(), told: Counters::default() };
    STORE.with_borrow_mut(|place| *place = Some(store));
}

/// Does something with this thread's cache; nothing on a thread that has none.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Cache) -> R) -> Option<R> {
    STORE.with_borrow_mut(|store| Some(f(&mut store.as_mut()?.cache)))
}

/// What the cache did since this was asked last.
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
