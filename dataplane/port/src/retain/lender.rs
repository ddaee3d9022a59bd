//! Buffers of a receive queue that are lent to retained packets, and return from any thread.
//!
//! Only the worker that has the queue writes `out`. The queue reads the list of returned buffers only while `out` is
//! not zero. The list is locked by the thread that drops a handle, for one push, and by the worker, for one drain.

use crate::memory::Pages;
use mem::VolatileSlice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lender of the buffers of one receive queue, which are contiguous in the port's own memory.
#[derive(Clone, Debug)]
pub(crate) struct Lender(Arc<LendingState>);

#[derive(Debug)]
struct LendingState {
    /// Address of buffer 0, distance between buffers in bytes, and number of buffers.
    first: usize,
    stride: usize,
    count: usize,
    /// Buffers that are lent, or returned and not collected.
    out: AtomicUsize,
    returned: Mutex<Vec<u16>>,
    /// Pages of the buffers, if they are released before their mapping ends.
    _pages: Option<Arc<Pages>>,
}

impl Lender {
    /// Lender for `count` buffers at intervals of `stride` bytes; `first` starts at buffer 0. The number of a buffer
    /// is the `id` of its `BufId`.
    pub(crate) fn new(first: VolatileSlice, stride: usize, count: usize) -> Self {
        Self::over(first, stride, count, None)
    }

    /// Like [`Lender::new`], for buffers in memory shared with a peer.
    pub(crate) fn shared(first: VolatileSlice, stride: usize, count: usize, pages: Arc<Pages>) -> Self {
        Self::over(first, stride, count, Some(pages))
    }

    fn over(first: VolatileSlice, stride: usize, count: usize, pages: Option<Arc<Pages>>) -> Self {
        let (out, returned) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count / 2)));
        Self(Arc::new(LendingState { first: first.addr(), stride, count, out, returned, _pages: pages }))
    }

    /// Passes each returned buffer to `each`. Returns whether there were any.
    #[inline(always)]
    pub(crate) fn collect(&self, each: impl FnMut(u16)) -> bool {
        self.0.out.load(Relaxed) > 0 && self.drain(each)
    }

    /// Adds buffers to those that were lent and have returned.
    pub(crate) fn add_returned(&self, ids: impl Iterator<Item = u16>) {
        let mut returned = self.returned();
        let before = returned.len();
        returned.extend(ids);
        self.0.out.fetch_add(returned.len() - before, Relaxed);
    }

    /// Whether buffers are lent, or returned and not collected.
    pub(crate) fn is_lending(&self) -> bool {
        self.0.out.load(Relaxed) > 0
    }

    #[cold]
    fn drain(&self, each: impl FnMut(u16)) -> bool {
        let mut returned = self.returned();
        let n = returned.len();
        returned.drain(..).for_each(each);
        self.0.out.fetch_sub(n, Relaxed);
        n > 0
    }

    /// The buffer that contains `seg`.
    #[inline]
    pub(super) fn buffer(&self, seg: VolatileSlice) -> Option<u16> {
        let id = seg.addr().checked_sub(self.0.first)? / self.0.stride;
        (id < self.0.count).then_some(id as u16)
    }

    /// Lends `n` more buffers. Returns `false` if more than half of all buffers would be lent.
    #[inline]
    pub(super) fn lend(&self, n: usize) -> bool {
        let is_allowed = self.0.out.load(Relaxed) + n <= self.0.count / 2;
        if is_allowed {
            self.0.out.fetch_add(n, Relaxed);
        }
        is_allowed
    }

    /// Returns lent buffers, on any thread.
    pub(super) fn give_back(&self, ids: &mut Vec<u16>) {
        self.returned().append(ids);
    }

    fn returned(&self) -> MutexGuard<'_, Vec<u16>> {
        self.0.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
