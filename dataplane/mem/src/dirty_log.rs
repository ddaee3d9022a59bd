//! Log of written guest pages, for live migration (vhost-user specification, "Migration").
//!
//! The log is a bitmap in memory of the front end, one bit for each page of [`PAGE`] bytes of guest-physical addresses,
//! of which every back end of the guest sets bits and the front end clears them. A front end that finds a bit sets it to
//! 0, then copies the page. A page must therefore be marked after it was written, and a bit that is set already needs
//! no write: whoever cleared it later copies the page later.
//!
//! *Protocol.* [`DirtyLog::mark`] reads the bits after a full fence behind the writes to the pages. If a bit is still
//! set, the front end has not cleared it yet, and its copy, which follows the clearing, has the writes. Otherwise the
//! bit is set by an atomic `or`, because other queues and processes write to the same byte. The fence pairs with the
//! front end's atomic exchange of the bits.

use crate::{Region, RegionError, RegionSpec, VolatileSlice};
use core::sync::atomic::{Ordering, fence};
use rustix::fd::BorrowedFd;

/// Bytes of guest memory per bit.
pub const PAGE: u64 = 4096;

/// Pages of one byte of the log.
const PER_BYTE: u64 = 8;

/// A mapped log.
#[derive(Debug)]
pub struct DirtyLog {
    region: Region,
}

impl DirtyLog {
    /// Maps `len` bytes of `fd` at `offset`. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// If the length is zero, exceeds the file, or cannot be mapped.
    pub fn map(fd: BorrowedFd<'_>, len: u64, offset: u64) -> Result<Self, RegionError> {
        Ok(Self { region: Region::map(fd, RegionSpec { guest: 0, user: 0, len, offset })? })
    }

    /// A log in private memory, for tests.
    #[doc(hidden)]
    pub fn heap(len: u64) -> Self {
        Self { region: Region::heap(0, 0, len) }
    }

    /// Marks the pages of these ranges (guest-physical address and length in bytes), which were written before. Pages
    /// beyond the log are left out: the front end has no memory there.
    pub fn mark(&self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        // Behind the writes to the pages; see the protocol above.
        fence(Ordering::SeqCst);
        for (address, len) in ranges.into_iter().filter(|(_, len)| *len > 0) {
            let last = address.saturating_add(len - 1) / PAGE;
            (address / PAGE..=last)
                .take_while(|page| page / PER_BYTE < self.len())
                .for_each(|page| self.set(page));
        }
    }

    /// Whether the page of a guest-physical address is marked.
    #[doc(hidden)]
    pub fn is_marked(&self, address: u64) -> bool {
        let page = address / PAGE;
        self.byte(page).is_some_and(|byte| load(byte, &self.region) & bit(page) != 0)
    }

    fn len(&self) -> u64 {
        self.region.spec().len
    }

    fn byte(&self, page: u64) -> Option<VolatileSlice> {
        self.region.seg(page / PER_BYTE, 1)
    }

    fn set(&self, page: u64) {
        let Some(byte) = self.byte(page) else { return };
        if load(byte, &self.region) & bit(page) == 0 {
            // SAFETY: the byte is inside the region, which lives.
            unsafe { byte.fetch_or_u8(0, bit(page), Ordering::Relaxed) };
        }
    }
}

fn bit(page: u64) -> u8 {
    1 << (page % PER_BYTE)
}

fn load(byte: VolatileSlice, _region: &Region) -> u8 {
    // SAFETY: the byte is inside the region, which the caller holds.
    unsafe { byte.load_u8(0, Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(log: &DirtyLog) -> Vec<u64> {
        (0..log.len() * PER_BYTE).filter(|page| log.is_marked(page * PAGE)).collect()
    }

    #[test]
    fn every_page_of_a_range_is_marked() {
        let log = DirtyLog::heap(4);
        log.mark([(5 * PAGE - 1, 2), (0, 0), (9 * PAGE, 1), (9 * PAGE + 7, 8)]);
        assert_eq!(marked(&log), [4, 5, 9]);
    }

    #[test]
    fn pages_beyond_the_log_are_left_out() {
        let log = DirtyLog::heap(1);
        log.mark([(7 * PAGE, 3 * PAGE), (u64::MAX, 1), (u64::MAX - PAGE, u64::MAX), (1 << 40, 9)]);
        assert_eq!(marked(&log), [7]);
    }

    #[test]
    fn marks_of_several_threads_in_one_byte_stay() {
        let log = DirtyLog::heap(8);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                scope.spawn(move || {
                    for page in (thread..64).step_by(4) {
                        log.mark([(page * PAGE, 1)]);
                    }
                });
            }
        });
        assert_eq!(marked(&log).len(), 64);
    }
}
