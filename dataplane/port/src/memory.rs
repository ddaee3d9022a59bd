//! Memory shared by a port with its peer: one memfd with rings followed by buffers.
//!
//! It is created per connection and not reused, so that a former peer cannot access the next one's packets. Its size is
//! sealed, so that it cannot be truncated, and its pages are allocated up front, so that none is missing later. They
//! are released with the connection, even while the peer still holds the file: a peer that reconnects repeatedly and
//! keeps its descriptors uses no lasting memory. Only lent packets ([`crate::Retained`]) keep the pages longer. The
//! size is limited to [`MAX_MEMORY`], because the kernel does not limit a memfd and invokes the OOM killer when memory
//! is exhausted.

use crate::PortFault;
use mem::{GuestMemory, Region, RegionSpec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create,
};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum size of the memory shared by one port, in bytes: rings and buffers of all queues. The control thread blocks
/// during allocation, and a mistyped size must not exhaust memory.
pub const MAX_MEMORY: u64 = 1 << 30;
/// Guest-physical address of the first byte; arbitrary.
const GUEST: u64 = 0x1_0000_0000;
/// User address of the first byte, for ring addresses; arbitrary.
const USER: u64 = 0x7000_0000_0000;

/// The file and its pages, which are released with the last reference.
#[derive(Debug)]
pub(crate) struct Pages {
    file: OwnedFd,
    len: u64,
    /// Whether another process uses the pages, and releases them.
    left: AtomicBool,
}

/// Shared memory, also mapped in this process.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Arc<Pages>,
    pub(crate) map: Arc<GuestMemory>,
    pub(crate) spec: RegionSpec,
}

impl Memory {
    /// Allocates `len` zeroed bytes, at most [`MAX_MEMORY`].
    pub(crate) fn new(len: u64) -> Result<Self, PortFault> {
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            PortFault::NoMemory(format!("{what} {len} bytes: {why}; use fewer or smaller queues"))
        };
        if len > MAX_MEMORY {
            return Err(failed("a memfd of", &format_args!("the limit per port is {MAX_MEMORY}")));
        }
        let len = len.next_multiple_of(4096);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("linerate-port", flags).map_err(|e| failed("a memfd of", &e))?;
        fallocate(&file, FallocateFlags::empty(), 0, len).map_err(|e| failed("allocating", &e))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|e| failed("sealing", &e))?;
        Self::over(file, len, false).map_err(|e| failed("mapping", &e))
    }

    /// The memory of a port of another process, for at least `len` bytes. Its pages are not released until
    /// [`Memory::set_left`] permits that.
    pub(crate) fn adopt(file: OwnedFd, len: u64) -> Result<Self, PortFault> {
        let bad = |why: &dyn std::fmt::Display| PortFault::BadDescriptor("memory", why.to_string());
        // Files that are not in memory have no seals, and the query fails.
        let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        let size = fstat(&file).map_err(|e| bad(&e))?.st_size.cast_unsigned();
        if !seals.contains(SealFlags::SHRINK) || size != len.next_multiple_of(4096) {
            return Err(bad(&format_args!("it is not a sealed file for {len} bytes")));
        }
        Self::over(file, size, true).map_err(|e| bad(&e))
    }

    fn over(file: OwnedFd, len: u64, left: bool) -> Result<Self, String> {
        let spec = RegionSpec { guest: GUEST, user: USER, len, offset: 0 };
        let region = Region::map(file.as_fd(), spec).map_err(|e| e.to_string())?;
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| e.to_string())?;
        Ok(Self { pages: Arc::new(Pages { file, len, left: left.into() }), map: Arc::new(map), spec })
    }

    /// Sets whether the pages stay when this process closes the memory, because another process uses it.
    pub(crate) fn set_left(&self, left: bool) {
        self.pages.left.store(left, Ordering::Relaxed);
    }

    /// Reference that keeps the pages alive; must be held while the content is read.
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    /// User address of byte `offset`.
    pub(crate) fn user(offset: u64) -> u64 {
        USER + offset
    }

    /// Guest-physical address of byte `offset`.
    pub(crate) fn guest(offset: u64) -> u64 {
        GUEST + offset
    }
}

impl Drop for Pages {
    /// Releases the pages, unless another process uses them; remaining mappings read zeros.
    fn drop(&mut self) {
        if self.left.load(Ordering::Relaxed) {
            return;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // No seal prevents this; on failure, the pages are released with the last mapping.
        let _ = fallocate(&self.file, hole, 0, self.len);
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pages.file.as_fd()
    }
}

/// Magic numbers (statfs(2)) of local file systems: memory, huge pages and disks.
const LOCAL: [i64; 6] = [
    0x0102_1994, // tmpfs and memfd
    0x9584_58f6, // hugetlbfs
    0x8584_58f6, // ramfs
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
];

/// Whether pages of `fd` may be served by another process or host (FUSE, NFS, overlays), which could block a worker
/// forever.
pub(crate) fn is_served_remotely(fd: &OwnedFd) -> Result<bool, Errno> {
    // On some processors the kernel's type is wider than the magic numbers, which are in the low half.
    let magic = rustix::fs::fstatfs(fd.as_fd())?.f_type as i64 & 0xffff_ffff;
    Ok(!LOCAL.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn shared_memory_cannot_be_resized() {
        let memory = Memory::new(5000).unwrap();
        assert_eq!(memory.spec.len, 8192);
        for size in [0, 4096, 1 << 20] {
            assert_eq!(rustix::fs::ftruncate(&memory, size), Err(Errno::PERM));
        }
        assert_eq!(fcntl_add_seals(&memory, SealFlags::WRITE), Err(Errno::PERM));
    }

    #[test]
    fn allocation_above_the_limit_fails() {
        for len in [MAX_MEMORY + 1, 1 << 62, u64::MAX] {
            let fault = Memory::new(len).unwrap_err().to_string();
            assert!(fault.contains("the limit per port") && fault.contains("use fewer"), "{fault}");
        }
    }

    #[test]
    fn pages_of_another_process_stay() {
        let memory = Memory::new(8192).unwrap();
        let other = || rustix::io::dup(&memory).unwrap();
        let blocks = || rustix::fs::fstat(&memory).unwrap().st_blocks;
        drop(Memory::adopt(other(), 5000).unwrap());
        assert_eq!(blocks(), 16);
        for (file, len) in [(other(), 9000), (memfd_create("x", MemfdFlags::CLOEXEC).unwrap(), 0)] {
            let fault = Memory::adopt(file, len).unwrap_err().to_string();
            assert!(fault.contains("not a sealed file"), "{fault}");
        }
        let adopted = Memory::adopt(other(), 8192).unwrap();
        adopted.set_left(false);
        drop(adopted);
        assert_eq!(blocks(), 0);
    }

    #[test]
    fn pages_are_released_with_the_connection() {
        let memory = Memory::new(1 << 20).unwrap();
        let kept = rustix::io::dup(&memory).unwrap();
        let blocks = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_blocks;
        assert_eq!(blocks(&kept), (1 << 20) / 512);
        let pages = memory.pages().clone();
        drop(memory);
        assert_eq!(blocks(&kept), (1 << 20) / 512, "a packet is lent");
        drop(pages);
        assert_eq!(blocks(&kept), 0);
        assert_eq!(rustix::fs::fstat(&kept).unwrap().st_size, 1 << 20, "no access faults");
    }
}
