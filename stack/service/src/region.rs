//! The memory that a client shares with one worker: two rings and two arenas in a sealed memfd, and the eventfds.
//!
//! The service creates all, so that a client can neither choose a size nor truncate a file. Pages are allocated up
//! front, so that none is missing later.

use crate::limits::Sizes;
use crate::ring;
use mem::{Region, SharedRange};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::io;
use std::sync::Arc;

/// Alignment of the parts of a region.
const PAGE: u64 = 4096;

/// Parts of a region.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Ring from the client to the service.
    pub(crate) commands: SharedRange,
    /// Ring from the service to the client.
    pub(crate) completions: SharedRange,
    /// Bytes that the client sends.
    pub(crate) outbound: SharedRange,
    /// Bytes that the client receives.
    pub(crate) inbound: SharedRange,
    /// The mapping of all parts.
    pub(crate) region: Arc<Region>,
}

/// Descriptors of a client for one worker.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) memory: OwnedFd,
    /// Wakes the worker.
    pub(crate) to_service: OwnedFd,
}

/// Descriptors of one client, as sent in the handshake.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Wakes the client.
    pub(crate) to_client: OwnedFd,
    /// Of each worker.
    pub(crate) own: Vec<Own>,
}

fn starts(sizes: &Sizes) -> ([u64; 4], u64) {
    let ring = u64::from(ring::bytes(sizes.ring)).next_multiple_of(PAGE);
    let arena = u64::from(sizes.arena);
    ([0, ring, 2 * ring, 2 * ring + arena], 2 * ring + 2 * arena)
}

fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

impl Own {
    fn new(sizes: &Sizes) -> io::Result<Self> {
        let memory =
            rustix::fs::memfd_create("linerate-client", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let (_, len) = starts(sizes);
        rustix::fs::fallocate(&memory, FallocateFlags::empty(), 0, len)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok(Self { memory, to_service: event()? })
    }
}

impl Descriptors {
    /// Allocates the memory and the eventfds of a client.
    pub(crate) fn new(sizes: &Sizes) -> io::Result<Self> {
        let own = (0..sizes.workers).map(|_| Own::new(sizes)).collect::<io::Result<_>>()?;
        Ok(Self { to_client: event()?, own })
    }

    /// In the order of the handshake.
    pub(crate) fn as_fds(&self) -> Vec<BorrowedFd<'_>> {
        let of_workers = self.own.iter().flat_map(|own| [own.memory.as_fd(), own.to_service.as_fd()]);
        std::iter::once(self.to_client.as_fd()).chain(of_workers).collect()
    }
}

impl Parts {
    /// Maps a region.
    ///
    /// # Errors
    /// If the sizes are invalid, the file is shorter, or it can be truncated.
    pub(crate) fn map(memory: BorrowedFd<'_>, sizes: &Sizes) -> io::Result<Self> {
        let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
        if !sizes.are_valid() {
            return Err(invalid("invalid sizes of shared memory"));
        }
        let (starts, len) = starts(sizes);
        let is_sealed = rustix::fs::fcntl_get_seals(memory)?.contains(SealFlags::SHRINK);
        if !is_sealed || (rustix::fs::fstat(memory)?.st_size as u64) < len {
            return Err(invalid("shared memory is not sealed or too short"));
        }
        let region = Arc::new(Region::device(memory, len).map_err(io::Error::other)?);
        let part = |i: usize, len: u32| {
            SharedRange::new(&region, starts[i], len)
                .ok_or_else(|| invalid("a part is outside of the region"))
        };
        let ring = ring::bytes(sizes.ring);
        Ok(Self {
            commands: part(0, ring)?,
            completions: part(1, ring)?,
            outbound: part(2, sizes.arena)?,
            inbound: part(3, sizes.arena)?,
            region,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn parts_do_not_overlap_and_the_file_cannot_be_truncated() {
        let sizes = Limits { arena: 1 << 16, ..Limits::default() }.sizes(1);
        let fds = Own::new(&sizes).unwrap();
        let parts = Parts::map(fds.memory.as_fd(), &sizes).unwrap();
        let all = [&parts.commands, &parts.completions, &parts.outbound, &parts.inbound];
        let ends = all.map(|part| (part.seg().addr(), part.seg().addr() + part.len()));
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(rustix::fs::ftruncate(&fds.memory, 0).is_err());
    }

    #[test]
    fn invalid_memory_is_refused() {
        let sizes = Limits::default().sizes(1);
        let unsealed = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&unsealed, 1 << 30).unwrap();
        assert!(Parts::map(unsealed.as_fd(), &sizes).is_err());
        let short = Own::new(&Limits { arena: 1 << 16, ..Limits::default() }.sizes(1)).unwrap();
        assert!(Parts::map(short.memory.as_fd(), &sizes).is_err());
        assert!(Parts::map(short.memory.as_fd(), &Sizes { ring: 3, ..sizes }).is_err());
    }
}
