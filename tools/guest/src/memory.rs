//! The guest's memory: one memfd with the rings at the start and the buffers behind them.

use super::GuestError;
use mem::{GuestMemory, Region, RegionSpec};
use port::virtio_user::SharedRegion;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// Guest-physical address of the first byte; the value is arbitrary.
const GUEST: u64 = 0x1_0000_0000;
/// User address of the first byte, by which the protocol addresses rings; the value is arbitrary.
const USER: u64 = 0x7000_0000_0000;

/// Shared memory, also mapped by this process.
pub(super) struct Memory {
    file: OwnedFd,
    pub(super) map: Arc<GuestMemory>,
    spec: RegionSpec,
}

/// Distance between the addresses of consecutive regions, in either address space.
const SPACING: u64 = 1 << 32;

impl Memory {
    pub(super) fn new(len: u64) -> Result<Self, GuestError> {
        Self::nth(0, len)
    }

    /// Region `n` of several: its addresses are [`Memory::distance`] of `n` above those of the first.
    pub(super) fn nth(n: u8, len: u64) -> Result<Self, GuestError> {
        let failed = |what: &str, why: &dyn std::fmt::Display| GuestError::Memory(format!("{what}: {why}"));
        let file = memfd_create("linerate-guest", MemfdFlags::CLOEXEC).map_err(|e| failed("memfd", &e))?;
        let len = len.next_multiple_of(4096);
        ftruncate(&file, len).map_err(|e| failed("setting its size", &e))?;
        let spec =
            RegionSpec { guest: GUEST + Self::distance(n), user: USER + Self::distance(n), len, offset: 0 };
        let region = Region::map(file.as_fd(), spec).map_err(|e| failed("mapping", &e))?;
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| failed("mapping", &e))?;
        Ok(Self { file, map: Arc::new(map), spec })
    }

    /// Offset of the addresses of region `n` from those of the first region.
    pub(super) fn distance(n: u8) -> u64 {
        u64::from(n) * SPACING
    }

    /// The region as passed to the front end.
    pub(super) fn shared(&self) -> SharedRegion<'_> {
        SharedRegion { file: self.file.as_fd(), spec: self.spec }
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
