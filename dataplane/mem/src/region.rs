//! A region of shared memory, mapped into this process.
//!
//! Created from a file descriptor sent by a front end (memfd, hugetlbfs or a file), from private memory, or, in tests
//! and under Miri, from the heap. Unmapped when the last [`std::sync::Arc`] drops. Must be accessed only through a
//! [`VolatileSlice`].

use crate::VolatileSlice;
use crate::sigbus::Watch;
use core::ptr::NonNull;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Addresses of a region in the guest, the front end and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// First guest-physical address, as used in descriptors.
    pub guest: u64,
    /// First front-end virtual address, as used by vhost-user for ring addresses.
    pub user: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
}

/// Mapping a region failed. The front end's message is rejected and nothing changes.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The length is zero.
    #[error("the region is empty")]
    Empty,
    /// Address plus length exceeds the address space.
    #[error("the region at {0:#x} with {1:#x} bytes wraps around the address space")]
    Wraps(u64, u64),
    /// The region exceeds the file.
    #[error("the file has {file:#x} bytes but the region needs {need:#x}")]
    BeyondFile {
        /// File size in bytes.
        file: u64,
        /// Offset plus length of the region, in bytes.
        need: u64,
    },
    /// The kernel refused the mapping.
    #[error("the kernel refused to map the region: {0}")]
    Map(#[from] rustix::io::Errno),
}

/// Shared memory, mapped for reading and writing.
#[derive(Debug)]
pub struct Region {
    spec: RegionSpec,
    base: NonNull<u8>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    /// `watch` is declared before `_mapping` because fields drop in this order: the range must be unregistered before
    /// its addresses can be reused by another mapping.
    Mapped { watch: Watch, _mapping: Mapping },
    /// Not backed by a file that can be truncated, so not watched.
    Own { _mapping: Mapping },
    /// A leaked `Box<[u8]>`.
    Bytes { _bytes: Bytes },
    /// Allocator memory, for tests.
    Heap { _memory: Heap },
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

/// Address of a leaked `Box<[u8]>`.
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
    /// Maps `spec.len` bytes of `fd` at `spec.offset`. The descriptor may be closed afterwards.
    pub fn map(fd: BorrowedFd<'_>, spec: RegionSpec) -> Result<Self, RegionError> {
        check(&spec)?;
        let stat = rustix::fs::fstat(fd)?;
        let need = spec.offset + spec.len;
        if (stat.st_size as u64) < need {
            return Err(RegionError::BeyondFile { file: stat.st_size as u64, need });
        }
        // Huge pages are mapped whole: the start is rounded down and the end up to the page size of the file.
        let page = (stat.st_blksize as u64).max(4096).next_power_of_two();
        let first = spec.offset & !(page - 1);
        let len = (need - first).next_multiple_of(page) as usize;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address chosen by the kernel replaces nothing.
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
        leave_out_of_core_files(start, len);
        // SAFETY: the region starts inside the mapping, whose length covers `need - first`.
        let base = unsafe { start.add((spec.offset - first) as usize) };
        let mapping = Mapping { start, len };
        // SAFETY: the mapping is our own, and the watch is dropped before it. Its content is untrusted, so it may turn
        // into zeros.
        let watch = unsafe { Watch::new(start.as_ptr() as usize, len) };
        Ok(Self { spec, base, backing: Backing::Mapped { watch, _mapping: mapping } })
    }

    /// Zeroed, private, page-aligned memory with addresses from zero, for the kernel to write packets to.
    ///
    /// # Errors
    /// [`RegionError::Map`] if the kernel is out of memory.
    #[cfg(not(miri))]
    pub fn anonymous(len: u64) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len, offset: 0 };
        check(&spec)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address chosen by the kernel replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len as usize, protection, flags)? };
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        leave_out_of_core_files(base, len as usize);
        Ok(Self {
            spec,
            base,
            backing: Backing::Own { _mapping: Mapping { start: base, len: len as usize } },
        })
    }

    /// [`Region::anonymous`] from the allocator, because Miri does not support mappings.
    #[cfg(miri)]
    pub fn anonymous(len: u64) -> Result<Self, RegionError> {
        check(&RegionSpec { guest: 0, user: 0, len, offset: 0 })?;
        Ok(Self::heap(0, 0, len))
    }

    /// A region of these bytes, with addresses from zero. They are not shared: they change only through segments of
    /// this region.
    ///
    /// # Errors
    /// [`RegionError::Empty`] if `bytes` is empty.
    pub fn of_bytes(bytes: Box<[u8]>) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len: bytes.len() as u64, offset: 0 };
        check(&spec)?;
        // A `Box` asserts unique access to its bytes, so only the raw address is kept.
        let bytes = NonNull::from(Box::leak(bytes));
        Ok(Self { spec, base: bytes.cast(), backing: Backing::Bytes { _bytes: Bytes(bytes) } })
    }

    /// Maps kernel memory shared through a descriptor that is not a file (a socket's ring), with addresses from zero.
    /// Its length is fixed and it cannot be truncated.
    ///
    /// # Errors
    /// [`RegionError::Map`] if `fd` has fewer than `len` bytes.
    pub fn device(fd: BorrowedFd<'_>, len: u64) -> Result<Self, RegionError> {
        let spec = RegionSpec { guest: 0, user: 0, len, offset: 0 };
        check(&spec)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address chosen by the kernel replaces nothing.
        let start =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), len as usize, protection, flags, fd, 0)? };
        let base = NonNull::new(start.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        leave_out_of_core_files(base, len as usize);
        let mapping = Mapping { start: base, len: len as usize };
        Ok(Self { spec, base, backing: Backing::Own { _mapping: mapping } })
    }

    /// Zeroed memory from the allocator instead of a front end's, for tests, benches and Miri.
    ///
    /// # Panics
    /// If `len` is zero or too large for the allocator.
    pub fn heap(guest: u64, user: u64, len: u64) -> Self {
        let spec = RegionSpec { guest, user, len, offset: 0 };
        assert!(check(&spec).is_ok(), "a test region needs bytes");
        let layout = std::alloc::Layout::from_size_align(len as usize, 4096).expect("a sane length");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { spec, base, backing: Backing::Heap { _memory: Heap { start: base, layout } } }
    }

    /// Addresses and length of the region.
    pub fn spec(&self) -> RegionSpec {
        self.spec
    }

    /// Whether the file was truncated while mapped, so that the pages are now private zero pages.
    #[inline]
    pub fn is_lost(&self) -> bool {
        match &self.backing {
            Backing::Mapped { watch, .. } => watch.tripped(),
            Backing::Own { .. } | Backing::Bytes { .. } | Backing::Heap { .. } => false,
        }
    }

    /// `len` bytes from `offset`. Returns `None` if they exceed the region.
    #[inline]
    pub fn seg(&self, offset: u64, len: u32) -> Option<VolatileSlice> {
        if offset.checked_add(u64::from(len))? > self.spec.len {
            return None;
        }
        // SAFETY: the offset was just checked to be inside the region.
        Some(VolatileSlice::new(unsafe { self.base.add(offset as usize) }, len))
    }

    /// Address of the first byte in this process.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

/// A core file must not have memory of guests or frames. Without this advice it has them, if core files are written at
/// all. `start` and `len` are a mapping of the caller.
#[cfg(not(miri))]
pub(crate) fn leave_out_of_core_files(start: NonNull<u8>, len: usize) {
    // SAFETY: the advice changes no byte of the mapping. It fails for an address that is not mapped.
    let _ = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontDump) };
}

#[cfg(miri)]
pub(crate) fn leave_out_of_core_files(_: NonNull<u8>, _: usize) {}

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
        // SAFETY: the mapping is our own, and no `VolatileSlice` is used after the last `Arc`. An error means that the
        // range was not mapped; there is nothing to undo.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: the address came from a box of this length, is not used afterwards, and is freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: same address and layout as in the allocation.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Portable;
    use crate::pool::{Pages, Pool, PoolSpec};
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    /// The flags of the mapping with this address (`proc_pid_smaps(5)`).
    fn flags_at(address: usize) -> String {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines().skip_while(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            let range = range.and_then(|(from, to)| Some(number(from)?..number(to)?));
            !range.is_some_and(|range| range.contains(&address))
        });
        lines.find_map(|line| line.strip_prefix("VmFlags: ")).unwrap().to_owned()
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn shared_memory_and_frames_are_in_no_core_file() {
        let fd = memfd_create("linerate-region-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 8192).unwrap();
        let spec = RegionSpec { guest: 0, user: 0, len: 8192, offset: 0 };
        let shared = Region::map(fd.as_fd(), spec).unwrap();
        let device = Region::device(fd.as_fd(), 8192).unwrap();
        let frames = Region::anonymous(8192).unwrap();
        let pool = Pool::new(PoolSpec { buffers: 4, size: 2048, pages: Pages::Ordinary }).unwrap();
        let buffer = pool.cache().alloc().unwrap();
        let regions = [&shared, &device, &frames].map(|region| region.base.addr().get());
        for start in regions.into_iter().chain([buffer.data().as_ptr().addr()]) {
            let flags = flags_at(start);
            assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
        }
    }

    #[test]
    fn bytes_are_found_by_offset_only() {
        let region = Region::of_bytes((0..=255).collect()).unwrap();
        let mut read = [0; 3];
        // SAFETY: the region is alive, and the segment has three bytes.
        unsafe { region.seg(253, 3).unwrap().copy_out::<Portable>(&mut read) };
        assert_eq!(read, [253, 254, 255]);
        assert!(region.seg(254, 3).is_none() && !region.is_lost());
        assert!(matches!(Region::of_bytes(Box::new([])), Err(RegionError::Empty)));
    }
}
