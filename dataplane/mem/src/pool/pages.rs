//! Pool memory: huge pages if available, else ordinary ones.

use crate::huge::{HUGE, advise_at};
use core::ptr::NonNull;
use rustix::io::Errno;
use rustix::mm::MapFlags;

/// Page size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved 2 MiB huge pages. Falls back to ordinary pages if not enough are available.
    Huge,
    /// Ordinary pages with transparent huge pages advised.
    Ordinary,
}

/// A private, zeroed mapping.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
    pages: Pages,
    leaked: bool,
}

// SAFETY: an address range only; the pool governs access to its bytes.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps at least `len` bytes, with the requested page size if available.
    pub(super) fn new(len: usize, pages: Pages) -> Result<Self, Errno> {
        let huge = MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // A shorter mapping would waste most of a huge page.
        if pages == Pages::Huge && len >= HUGE {
            let len = len.next_multiple_of(HUGE);
            if let Ok(start) = map(len, huge) {
                return Ok(Self { start, len, pages: Pages::Huge, leaked: false });
            }
        }
        let start = map(len, MapFlags::empty())?;
        advise_at(start.addr().get(), len);
        Ok(Self { start, len, pages: Pages::Ordinary, leaked: false })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    /// Keeps the mapping after this value is dropped.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }
}

/// Kernel mappings.
#[cfg(not(miri))]
mod kernel {
    use super::{Errno, MapFlags, NonNull};
    use crate::region::leave_out_of_core_files;
    use rustix::mm::{ProtFlags, mmap_anonymous, munmap};

    pub(super) fn map(len: usize, more: MapFlags) -> Result<NonNull<u8>, Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | more);
        // SAFETY: a fresh mapping at an address chosen by the kernel replaces nothing.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, prot, flags)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        leave_out_of_core_files(start, len);
        Ok(start)
    }

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the mapping is our own, and no buffer handle in it is left. An error would mean that it is not
        // mapped; there is nothing to undo.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}
#[cfg(not(miri))]
use kernel::{map, unmap};

/// Miri supports the allocator but not these mappings.
#[cfg(miri)]
mod heap {
    use super::{Errno, MapFlags, NonNull};
    use std::alloc::Layout;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 4096).expect("a length that was checked")
    }

    pub(super) fn map(len: usize, more: MapFlags) -> Result<NonNull<u8>, Errno> {
        if !more.is_empty() {
            return Err(Errno::NOMEM);
        }
        // SAFETY: the layout has a size above zero; a pool has at least one byte.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(len)) }).ok_or(Errno::NOMEM)
    }

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: same address and layout as in `map`.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout(len)) }
    }
}
#[cfg(miri)]
use heap::{map, unmap};

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.leaked {
            unmap(self.start, self.len);
        }
    }
}
