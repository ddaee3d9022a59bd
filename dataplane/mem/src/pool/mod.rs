//! Private buffers, for packets that outlive their burst.
//!
//! A [`Pool`] is one memory region divided into buffers of equal size. Packet metadata is in the [`Buffer`] handle and
//! not in a header before the data, so allocating, passing on and freeing a buffer touches none of its cache lines.
//! Each worker owns a [`Cache`]; caches exchange whole magazines of buffers with the depot of the pool, which is the
//! only memory written by several cores.
//!
//! A buffer is accessible only through its handle, so its bytes may be borrowed as ordinary slices: no other party maps
//! this memory. A dropped handle leaks its buffer; a pool with missing buffers is never unmapped.
//!
//! No operation blocks or grows the pool: allocation from an empty pool fails, and the packet is dropped with that
//! reason.

mod buffer;
mod cache;
mod depot;
mod many;
mod pages;

pub use buffer::Buffer;
#[doc(hidden)]
pub use cache::CAPACITY as CACHE_CAPACITY;
pub use cache::{Cache, Counters};
#[doc(hidden)]
pub use depot::MAGAZINE;
pub use pages::Pages;

use core::ptr::NonNull;
use depot::Depot;
use pages::Memory;
use std::sync::Arc;

/// Pool parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Number of buffers.
    pub buffers: u32,
    /// Buffer size in bytes: headroom plus data.
    pub size: u16,
    /// Requested page size.
    pub pages: Pages,
}

/// Pool creation failed. Nothing was allocated.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Zero buffers or zero buffer size.
    #[error("a pool needs at least one buffer of at least one byte")]
    Empty,
    /// Exceeds the address space or the index range of the pool.
    #[error("a pool of {0} buffers of {1} bytes exceeds the address space; ask for fewer")]
    TooLarge(u32, u16),
    /// The kernel refused the mapping.
    #[error("the kernel refused {0} bytes for the pool: {1}")]
    Map(usize, rustix::io::Errno),
}

/// A pool of equally sized buffers in one mapping.
#[derive(Debug)]
pub struct Pool {
    spec: PoolSpec,
    stride: usize,
    depot: Depot,
    memory: Memory,
}

/// Distance between buffers of `size` bytes: an odd multiple of 128 bytes. A power of two would map the first lines of
/// all buffers, the most used ones, to the same few cache sets.
pub const fn stride(size: u16) -> usize {
    ((size as usize).div_ceil(128) | 1) * 128
}

impl Pool {
    /// Creates a pool. Pages are populated on first use.
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

    /// The parameters, with the page size in effect.
    pub fn spec(&self) -> PoolSpec {
        PoolSpec { pages: self.memory.pages(), ..self.spec }
    }

    /// Creates an empty cache for one worker.
    pub fn cache(self: &Arc<Self>) -> Cache {
        Cache::new(self.clone())
    }

    /// Start address of buffer `index`.
    fn start_of(&self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.spec.buffers);
        // SAFETY: the depot returns indices below the number of buffers, and the mapping holds that many.
        unsafe { self.memory.start().add(index as usize * self.stride) }
    }

    /// Index of the buffer of this pool that starts at `start`.
    fn index_of(&self, start: NonNull<u8>) -> u32 {
        ((start.addr().get() - self.memory.start().addr().get()) / self.stride) as u32
    }

    /// Pushes up to one magazine of free buffers to the depot. Returns the number of retries because of contention.
    fn give_back(&self, starts: &[NonNull<u8>]) -> u64 {
        let mut indices = [0; depot::MAGAZINE];
        for (index, start) in indices.iter_mut().zip(starts) {
            *index = self.index_of(*start);
        }
        self.depot.push(&indices[..starts.len()])
    }

    /// Address range of the buffers.
    #[inline(always)]
    fn home(&self) -> PoolRange {
        PoolRange { start: self.memory.start().addr().get(), len: self.memory.len() }
    }
}

/// Address range of a pool's buffers.
#[derive(Clone, Copy, Debug)]
struct PoolRange {
    start: usize,
    len: usize,
}

impl PoolRange {
    /// Whether the buffer at `start` belongs to this pool.
    #[inline(always)]
    fn owns(self, start: NonNull<u8>) -> bool {
        start.addr().get().wrapping_sub(self.start) < self.len
    }

    /// Negative (top bit set) if and only if the buffer is not of this pool. Bulk operations OR these values without a
    /// branch per buffer, which vectorises.
    #[inline(always)]
    fn sign(self, start: NonNull<u8>) -> usize {
        let offset = start.addr().get().wrapping_sub(self.start);
        // The mapping is shorter than half the address space, so one of the two is negative if and only if the offset
        // is out of range.
        offset | (self.len - 1).wrapping_sub(offset)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // All caches hold a reference to the pool and are gone, so buffers missing from the depot have live or leaked
        // handles.
        if self.depot.count() < self.spec.buffers {
            self.memory.leak();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
