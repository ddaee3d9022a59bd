//! One stretch of another party's memory, mapped into this process.
//!
//! A region comes from a file descriptor that a front end sent (memfd, huge pages or a file), is memory of our own
//! that the kernel fills or that was filled before, or, in tests and under Miri, is from the heap. It is unmapped when
//! the last [`std::sync::Arc`] to it goes. It must never be read except through a [`VolatileSlice`].

use crate::VolatileSlice;
use crate::sigbus::Watch;
use core::ptr::NonNull;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::mm::{MapFlags, ProtFlags};

/// Where a region lies for each of the three parties that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// First guest-physical address, as descriptors use it.
    pub guest: u64,
    /// First address in the front end's process, as the vhost-user protocol names rings.
    pub user: u64,
    /// Bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
}

/// Why a region could not be mapped. The front end's message is refused and nothing changes.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A length of zero names no memory.
    #[error("the region is empty")]
    Empty,
    /// An address plus the length passes the end of the address space.
    #[error("the region at {0:#x} with {1:#x} bytes wraps around the address space")]
    Wraps(u64, u64),
    /// The file ends before the region does.
    #[error("the file has {file:#x} bytes but the region needs {need:#x}")]
    BeyondFile {
        /// Bytes of the file.
        file: u64,
        /// Offset plus length of the region.
        need: u64,
    },
    /// The kernel refused.
    #[error("the kernel refused to map the region: {0}")]
    Map(#[from] rustix::io::Errno),
}

/// Memory of another party, mapped for reading and writing.
#[derive(Debug)]
pub struct Region {
    spec: RegionSpec,
    base: NonNull<u8>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    /// The watch stands before the mapping, because fields drop in this order: once the addresses are free for
    /// another program, no fault on them may be taken for one of ours.
    Mapped { watch: Watch, _mapping: Mapping },
    /// No file that could be cut is behind it, so nothing is watched.
    Own { _mapping: Mapping },
    /// Bytes that were private before.
    Bytes { _bytes: Bytes },
    /// From the allocator, for tests.
    Heap { _memory: Heap },
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

/// What a `Box<[u8]>` held.
#[derive(Debug)]
struct Bytes(NonNull<[u8]>);

#[derive(Debug)]
struct Heap {
    start: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: the mapping is process-wide memory; all access goes through `VolatileSlice`, which states its own contract.
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    /// Maps what `fd` holds at `spec.offset`. The descriptor may be closed afterwards.
    pub fn map(fd: BorrowedFd<'_>, spec: RegionSpec) -> Result<Self, RegionError> {
        check(&spec)?;
        let stat = rustix::fs::fstat(fd)?;
        let need = spec.offset + spec.len;
        if (stat.st_size as u64) < need {
            return Err(RegionError::BeyondFile { file: stat.st_size as u64, need });
        }
        // Huge pages are mapped whole, so the start is rounded down and the end up to the file's own page size.
        let page = (stat.st_blksize as u64).max(4096).next_power_of_two();
        let first = spec.offset & !(page - 1);
        let len = (need - first).next_multiple_of(page) as usize;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                fd.as_fd(),
                first,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        // SAFETY: the region begins inside the mapping, whose length covers `need - first`.
        let base = unsafe { start.add((spec.offset - first) as usize) };
        let mapping = Mapping { start, len };
        // SAFETY: the mapping is ours, and the watch is dropped before it. All that is ever read from it is
        // foreign bytes, for which zeros are as good as any.
        let watch = unsafe { Watch::new(start.as_ptr() as usize, len) };
        Ok(Self { spec, base, backing: Backing::Mapped { watch, _mapping: mapping } })
    }

    /// Zeroed memory of our own, addressed from zero, on pages of its own: what the kernel writes packets to.
    ///
    /// # Errors
    /// [`RegionError::Map`] where the kernel has no more memory.
    #[cfg(not(miri))]
    pub fn anonymous(len: u64) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len, offset: 0 };
        check(&spec)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len as usize, protection, flags)? };
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self {
            spec,
            base,
            backing: Backing::Own { _mapping: Mapping { start: base, len: len as usize } },
        })
    }

    /// As above, from the allocator, because Miri maps nothing.
    #[cfg(miri)]
    pub fn anonymous(len: u64) -> Result<Self, RegionError> {
        check(&RegionSpec { guest: 0, user: 0, len, offset: 0 })?;
        Ok(Self::heap(0, 0, len))
    }

    /// Bytes that were gathered before, addressed from zero. They are not shared, so they change only through
    /// segments of this region.
    ///
    /// # Errors
    /// [`RegionError::Empty`] where there are none.
    pub fn of_bytes(bytes: Box<[u8]>) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len: bytes.len() as u64, offset: 0 };
        check(&spec)?;
        // A box promises unique access to its bytes, so from here on there is only its address.
        let bytes = NonNull::from(Box::leak(bytes));
        Ok(Self { spec, base: bytes.cast(), backing: Backing::Bytes { _bytes: Bytes(bytes) } })
    }

    /// What the kernel shares by a descriptor that is no file (a socket's ring), addressed from zero. It has the length
    /// that the kernel was asked for and it cannot be truncated.
    ///
    /// # Errors
    /// [`RegionError::Map`] where there is not so much behind `fd`.
    pub fn device(fd: BorrowedFd<'_>, len: u64) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len, offset: 0 };
        check(&spec)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), len as usize, protection, flags, fd, 0)? };
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        let mapping = Mapping { start: base, len: len as usize };
        Ok(Self { spec, base, backing: Backing::Own { _mapping: mapping } })
    }

    /// Zeroed memory from the allocator, in the place of a front end's, for tests, benches and Miri.
    ///
    /// # Panics
    /// When `len` is zero or too large for the allocator.
    pub fn heap(guest: u64, user: u64, len: u64) -> Self {
        let spec = RegionSpec { guest, user, len, offset: 0 };
        assert!(check(&spec).is_ok(), "a test region needs bytes");
        let layout = std::alloc::Layout::from_size_align(len as usize, 4096).expect("a sane length");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { spec, base, backing: Backing::Heap { _memory: Heap { start: base, layout } } }
    }

    /// Where it lies.
    pub fn spec(&self) -> RegionSpec {
        self.spec
    }

    /// Whether its file was cut under us, so that its pages are now zeros of our own.
    #[inline]
    pub fn is_lost(&self) -> bool {
        match &self.backing {
            Backing::Mapped { watch, .. } => watch.tripped(),
            Backing::Own { .. } | Backing::Bytes { .. } | Backing::Heap { .. } => false,
        }
    }

    /// `len` bytes from `offset`, if the region has them.
    #[inline]
    pub fn seg(&self, offset: u64, len: u32) -> Option<VolatileSlice> {
        if offset.checked_add(u64::from(len))? > self.spec.len {
            return None;
        }
        // SAFETY: the offset was just found to lie inside the region.
        Some(VolatileSlice::new(unsafe { self.base.add(offset as usize) }, len))
    }

    /// The address of the first byte in this process.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

fn check(spec: &RegionSpec) -> Result<(), RegionError> {
    if spec.len == 0 {
        return Err(RegionError::Empty);
    }
    for first in [spec.guest, spec.user, spec.offset] {
        if first.checked_add(spec.len).is_none_or(|end| end > i64::MAX as u64) {
            return Err(RegionError::Wraps(first, spec.len));
        }
    }
    Ok(())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no `VolatileSlice` is used without the `Arc` that now has gone.
        // An error means that the range was not mapped, and there is nothing left to undo.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the address came from a box of this length, is not used after this, and is freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the same address and layout that the allocator gave.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Portable;

    #[test]
    fn bytes_are_found_again_by_their_offset_and_nowhere_else() {
        let region = Region::of_bytes((0..=255).collect()).unwrap();
        let mut read = [0; 3];
        // SAFETY: the region is alive, and the segment has three bytes.
        unsafe { region.seg(253, 3).unwrap().copy_out::<Portable>(&mut read) };
        assert_eq!(read, [253, 254, 255]);
        assert!(region.seg(254, 3).is_none() && !region.is_lost());
        assert!(matches!(Region::of_bytes(Box::new([])), Err(RegionError::Empty)));
    }
}
