//! The memory that a port shares with its back end: one memfd with the rings in front and the buffers behind.
//!
//! It is made anew for each connection and never used again, so that a back end which has gone cannot reach into
//! the next one's packets. Its size is sealed, so that nobody cuts it under us, and its pages are there from the
//! beginning, so that none is missing later.

use crate::PortFault;
use mem::{Map, Region, RegionSpec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use std::sync::Arc;

/// The guest-physical address of the first byte; any would do.
const GUEST: u64 = 0x1_0000_0000;
/// The address by which the protocol names rings; any would do.
const USER: u64 = 0x7000_0000_0000;

/// Shared memory, mapped here too.
#[derive(Debug)]
pub(super) struct Memory {
    file: OwnedFd,
    pub(super) map: Arc<Map>,
    pub(super) spec: RegionSpec,
}

impl Memory {
    /// `len` zeroed bytes.
    pub(super) fn new(len: u64) -> Result<Self, PortFault> {
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            PortFault::NoMemory(format!("{what} {len} bytes: {why}; ask for fewer or smaller queues"))
        };
        let len = len.next_multiple_of(4096);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("linerate-virtio-user", flags).map_err(|e| failed("a memfd of", &e))?;
        fallocate(&file, FallocateFlags::empty(), 0, len).map_err(|e| failed("allocating", &e))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|e| failed("sealing", &e))?;
        let spec = RegionSpec { guest: GUEST, user: USER, len, offset: 0 };
        let region = Region::map(file.as_fd(), spec).map_err(|e| failed("mapping", &e))?;
        let map = Map::new(vec![Arc::new(region)]).map_err(|e| failed("mapping", &e))?;
        Ok(Self { file, map: Arc::new(map), spec })
    }

    /// The user address of byte `offset`.
    pub(super) fn user(offset: u64) -> u64 {
        USER + offset
    }

    /// The guest-physical address of byte `offset`.
    pub(super) fn guest(offset: u64) -> u64 {
        GUEST + offset
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
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
    fn memory_that_is_not_there_is_named() {
        let fault = Memory::new(1 << 62).unwrap_err().to_string();
        assert!(fault.contains("allocating") && fault.contains("ask for fewer"), "{fault}");
    }
}
