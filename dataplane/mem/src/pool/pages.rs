//! The memory of a pool: huge pages where they are, ordinary ones otherwise.

use core::ptr::NonNull;
use rustix::io::Errno;
use rustix::mm::MapFlags;

/// Which pages a pool lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages of 2 MiB that the administrator set aside. Asked for, they give way to ordinary ones if there are
    /// not enough.
    Huge,
    /// Ordinary pages, which the kernel is advised to merge into huge ones.
    Ordinary,
}

const HUGE: usize = 2 << 20;

/// A private, zeroed mapping.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
    pages: Pages,
    leaked: bool,
}

// SAFETY: it is an address range; what may be done with its bytes is the pool's business.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    /// At least `len` bytes, from the pages that were asked for if they are there.
    pub(super) fn new(len: usize, pages: Pages) -> Result<Self, Errno> {
        let huge = MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // Less than a page would waste most of one.
        if pages == Pages::Huge && len >= HUGE {
            let len = len.next_multiple_of(HUGE);
            if let Ok(start) = map(len, huge) {
                return Ok(Self { start, len, pages: Pages::Huge, leaked: false });
            }
        }
        let start = map(len, MapFlags::empty())?;
        advise(start, len);
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

    /// Keeps the mapping beyond the end of this value.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }
}

/// Mappings of the kernel.
#[cfg(not(miri))]
mod kernel {
    use super::{Errno, MapFlags, NonNull};
    use rustix::mm::{Advice, ProtFlags, madvise, mmap_anonymous, munmap};

    pub(super) fn map(len: usize, more: MapFlags) -> Result<NonNull<u8>, Errno> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | more);
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, prot, flags)? };
        NonNull::new(start.cast()).ok_or(Errno::NOMEM)
    }

    pub(super) fn advise(start: NonNull<u8>, len: usize) {
        // A kernel without transparent huge pages refuses, and the pages stay ordinary.
        // SAFETY: the range is a mapping of ours, and the advice changes no content.
        let _ = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
    }

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the mapping is ours, and no handle of a buffer in it is left. An error would mean that it is
        // not mapped, and there is nothing left to undo.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}
#[cfg(not(miri))]
use kernel::{advise, map, unmap};

/// Miri knows the allocator and not the kernel's mappings.
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
        // SAFETY: a pool has at least one byte.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(len)) }).ok_or(Errno::NOMEM)
    }

    pub(super) fn advise(_start: NonNull<u8>, _len: usize) {}

    pub(super) fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: the address and the layout of `map`.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout(len)) }
    }
}
#[cfg(miri)]
use heap::{advise, map, unmap};

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.leaked {
            unmap(self.start, self.len);
        }
    }
}
