//! Buffers of our own, for packets that outlive their burst.
//!
//! A [`Pool`] is one region cut into buffers of one size. What is known about a packet travels in the
//! [`Buffer`] handle and not in a header in front of the data, so taking, passing on and giving back a buffer
//! touches none of its lines. Each worker owns a [`Cache`]; caches exchange whole magazines of buffers with the
//! pool's depot, and only then do two cores write one line.
//!
//! A handle is the only way to its buffer, so its bytes may be borrowed as ordinary slices: this memory is ours
//! and no other party maps it. A handle that is dropped instead of given back is lost to its pool; the memory of
//! a pool that is missing buffers is therefore never unmapped.
//!
//! Nothing here waits or grows: an empty pool says so, and the packet is dropped under that name.

mod buffer;
mod cache;
mod depot;
mod many;
mod pages;

pub use buffer::Buffer;
pub use cache::{Cache, Counters};
pub use pages::Pages;

use core::ptr::NonNull;
use depot::Depot;
use pages::Memory;
use std::sync::Arc;

/// How many buffers, of which size, from which pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Number of buffers.
    pub buffers: u32,
    /// Bytes of one buffer, for headroom and data together.
    pub size: u16,
    /// Which pages to ask for.
    pub pages: Pages,
}

/// Why there is no pool. Nothing was allocated.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No buffers, or buffers of no size.
    #[error("a pool needs at least one buffer of at least one byte")]
    Empty,
    /// More than memory or the pool's indices can hold.
    #[error("a pool of {0} buffers of {1} bytes exceeds the address space; ask for fewer")]
    TooLarge(u32, u16),
    /// The kernel refused.
    #[error("the kernel refused {0} bytes for the pool: {1}")]
    Map(usize, rustix::io::Errno),
}

/// Buffers of one size in one region.
#[derive(Debug)]
pub struct Pool {
    spec: PoolSpec,
    stride: usize,
    depot: Depot,
    memory: Memory,
}

/// Buffers start an odd number of line pairs apart. A power of two would put the first lines of all buffers, which
/// are the ones that are touched, into the same few sets of the cache.
fn stride(size: u16) -> usize {
    (usize::from(size).div_ceil(128) | 1) * 128
}

impl Pool {
    /// Makes a pool. Pages are touched when their buffers first are.
    pub fn new(spec: PoolSpec) -> Result<Arc<Self>, PoolError> {
        if spec.buffers == 0 || spec.size == 0 {
            return Err(PoolError::Empty);
        }
        let stride = stride(spec.size);
        let bytes = stride.checked_mul(spec.buffers as usize).filter(|&b| b <= isize::MAX as usize / 2);
        let bytes = bytes.filter(|_| spec.buffers < depot::NONE);
        let bytes = bytes.ok_or(PoolError::TooLarge(spec.buffers, spec.size))?;
        let memory = Memory::new(bytes, spec.pages).map_err(|e| PoolError::Map(bytes, e))?;
        Ok(Arc::new(Self { spec, stride, depot: Depot::full(spec.buffers), memory }))
    }

    /// What was asked for, with the pages that were given.
    pub fn spec(&self) -> PoolSpec {
        PoolSpec { pages: self.memory.pages(), ..self.spec }
    }

    /// A cache for one worker, empty at first.
    pub fn cache(self: &Arc<Self>) -> Cache {
        Cache::new(self.clone())
    }

    /// The start of buffer `index`.
    fn start_of(&self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.spec.buffers);
        // SAFETY: the depot hands out indices below the number of buffers, for which the memory was sized.
        unsafe { self.memory.start().add(index as usize * self.stride) }
    }

    /// The index of the buffer that starts at `start`, which lies in this pool.
    fn index_of(&self, start: NonNull<u8>) -> u32 {
        ((start.addr().get() - self.memory.start().addr().get()) / self.stride) as u32
    }

    /// Puts up to a magazine of free buffers into the depot. How often another change of it came first.
    fn give_back(&self, starts: &[NonNull<u8>]) -> u64 {
        let mut indices = [0; depot::MAGAZINE];
        for (index, start) in indices.iter_mut().zip(starts) {
            *index = self.index_of(*start);
        }
        self.depot.push(&indices[..starts.len()])
    }

    /// Where its buffers are.
    #[inline(always)]
    fn home(&self) -> Home {
        Home { start: self.memory.start().addr().get(), len: self.memory.len() }
    }
}

/// The addresses of a pool's buffers.
#[derive(Clone, Copy, Debug)]
struct Home {
    start: usize,
    len: usize,
}

impl Home {
    /// Whether the buffer that starts there is of this pool.
    #[inline(always)]
    fn owns(self, start: NonNull<u8>) -> bool {
        start.addr().get().wrapping_sub(self.start) < self.len
    }

    /// A number that is negative just where the buffer is not of this pool. For many at once: numbers are joined without a branch for
    /// each, which is what vector registers are good for.
    #[inline(always)]
    fn sign(self, start: NonNull<u8>) -> usize {
        let offset = start.addr().get().wrapping_sub(self.start);
        // A mapping is shorter than half of the address space, so one of the two is negative just where the offset is not
        // within it.
        offset | (self.len - 1).wrapping_sub(offset)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Every cache holds the pool and is gone, so what the depot lacks is in handles that may still be used.
        if self.depot.count() < self.spec.buffers {
            self.memory.leak();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
