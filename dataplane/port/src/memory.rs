//! The memory that a port shares with its peer: one memfd with the rings in front and the buffers behind.
//!
//! It is made anew for each connection and never used again, so that a peer which has gone cannot reach into
//! the next one's packets. Its size is sealed, so that it cannot be truncated, and its pages are there from the
//! beginning, so that none is missing later. They go back to the kernel with the connection, even while the peer
//! still holds the file: a peer that comes, keeps what it got and leaves, again and again, costs nothing that
//! lasts. Only packets that are lent ([`crate::Retained`]) keep them longer. Nor is more allocated at once than [`MAX_MEMORY`], because the kernel puts no limit of its own on a memfd
//! and ends processes when there is no more.

use crate::PortFault;
use mem::{GuestMemory, Region, RegionSpec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::sync::Arc;

/// Most bytes that one port shares with its peer: rings and buffers of all queues. They are allocated while control
/// waits, and a size mistaken by some zeros must not take a machine's memory.
pub const MAX_MEMORY: u64 = 1 << 30;
/// The guest-physical address of the first byte; any would do.
const GUEST: u64 = 0x1_0000_0000;
/// The address by which the protocol names rings; any would do.
const USER: u64 = 0x7000_0000_0000;

/// The file and its pages, which go back to the kernel with the last reference.
#[derive(Debug)]
pub(crate) struct Pages {
    file: OwnedFd,
    len: u64,
}

/// Shared memory, mapped here too.
#[derive(Debug)]
pub(crate) struct Memory {
    pages: Arc<Pages>,
    pub(crate) map: Arc<GuestMemory>,
    pub(crate) spec: RegionSpec,
}

impl Memory {
    /// `len` zeroed bytes, [`MAX_MEMORY`] at most.
    pub(crate) fn new(len: u64) -> Result<Self, PortFault> {
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            PortFault::NoMemory(format!("{what} {len} bytes: {why}; ask for fewer or smaller queues"))
        };
        if len > MAX_MEMORY {
            return Err(failed("a memfd of", &format_args!("a port may share {MAX_MEMORY}")));
        }
        let len = len.next_multiple_of(4096);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("linerate-port", flags).map_err(|e| failed("a memfd of", &e))?;
        fallocate(&file, FallocateFlags::empty(), 0, len).map_err(|e| failed("allocating", &e))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|e| failed("sealing", &e))?;
        let spec = RegionSpec { guest: GUEST, user: USER, len, offset: 0 };
        let region = Region::map(file.as_fd(), spec).map_err(|e| failed("mapping", &e))?;
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| failed("mapping", &e))?;
        Ok(Self { pages: Arc::new(Pages { file, len }), map: Arc::new(map), spec })
    }

    /// What must live for as long as the content of the memory is read.
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    /// The user address of byte `offset`.
    pub(crate) fn user(offset: u64) -> u64 {
        USER + offset
    }

    /// The guest-physical address of byte `offset`.
    pub(crate) fn guest(offset: u64) -> u64 {
        GUEST + offset
    }
}

impl Drop for Pages {
    /// Remaining mappings of it read zeros.
    fn drop(&mut self) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // The file cannot be sealed against it; should it fail all the same, the pages go with the last mapping.
        let _ = fallocate(&self.file, hole, 0, self.len);
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pages.file.as_fd()
    }
}

/// File systems of this machine's own, by their magic numbers (statfs(2)): memory, huge pages and local disks.
const LOCAL: [i64; 6] = [
    0x0102_1994, // tmpfs and memfd
    0x9584_58f6, // hugetlbfs
    0x8584_58f6, // ramfs
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
];

/// Whether a page of `fd` might come from elsewhere (FUSE, NFS, a layer over one), so that its server could
/// make a worker wait for ever.
pub(crate) fn may_be_served_by_others(fd: &OwnedFd) -> Result<bool, Errno> {
    // The kernel's type is wider than the numbers on some processors; the magic is its low half.
    let magic = rustix::fs::fstatfs(fd.as_fd())?.f_type as i64 & 0xffff_ffff;
    Ok(!LOCAL.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn nobody_changes_the_size_of_what_is_shared() {
        let memory = Memory::new(5000).unwrap();
        assert_eq!(memory.spec.len, 8192);
        for size in [0, 4096, 1 << 20] {
            assert_eq!(rustix::fs::ftruncate(&memory, size), Err(Errno::PERM));
        }
        assert_eq!(fcntl_add_seals(&memory, SealFlags::WRITE), Err(Errno::PERM));
    }

    #[test]
    fn more_than_a_port_may_share_is_never_allocated() {
        for len in [MAX_MEMORY + 1, 1 << 62, u64::MAX] {
            let fault = Memory::new(len).unwrap_err().to_string();
            assert!(fault.contains("a port may share") && fault.contains("ask for fewer"), "{fault}");
        }
    }

    #[test]
    fn pages_go_with_the_connection_whatever_the_peer_keeps() {
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
