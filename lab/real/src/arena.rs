//! Memory shared by the model's threads: one anonymous mapping, every page touched before use.
//!
//! 2 MiB pages come from the huge page pool if it has enough, else transparent huge pages are requested with `madvise`.
//! [`Arena::pages`] reports the result, because address translation is part of every measurement.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::memory::RealMemory;
use sim::memory::{Address, Memory, Width};

const HUGE: usize = 2 << 20;
const SMALL: usize = 4096;
/// Bytes mapped beyond the last usable byte, so that a prefetch or a wide load at the end stays inside the mapping.
const MARGIN: usize = SMALL;

/// Page sizes of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB pages from the huge page pool
    Huge,
    /// Transparent 2 MiB pages for this share of the arena, in percent; 4 KiB pages for the rest
    Transparent(u8),
    /// 4 KiB pages
    Small,
}

impl std::fmt::Display for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pages::Huge => write!(f, "pages of 2 MiB from the system's stock"),
            Pages::Transparent(share) => {
                write!(f, "transparent huge pages for {share} % of the memory, pages of 4 KiB for the rest")
            }
            Pages::Small => write!(f, "pages of 4 KiB"),
        }
    }
}

/// The arena could not be mapped.
#[derive(Debug, thiserror::Error)]
#[error("mapping {bytes} bytes for the model's pools failed: {reason}")]
pub struct ArenaError {
    bytes: u64,
    reason: rustix::io::Errno,
}

/// An owned anonymous mapping.
#[derive(Debug)]
pub struct Arena {
    mapping: NonNull<u8>,
    mapped: usize,
    base: NonNull<u8>,
    length: usize,
    pages: Pages,
}

// SAFETY: the mapping belongs to the process, not to a thread; the arena stores only its address and length.
unsafe impl Send for Arena {}
// SAFETY: a shared arena is accessed only through views, whose accesses are assembly or volatile.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps and touches at least `bytes` bytes.
    pub fn new(bytes: u64) -> Result<Arena, ArenaError> {
        let failed = |reason| ArenaError { bytes, reason };
        let length = (bytes as usize + MARGIN).next_multiple_of(HUGE);
        let mut arena = match map(length, MapFlags::HUGETLB | MapFlags::HUGE_2MB) {
            Ok(at) => Arena { mapping: at, mapped: length, base: at, length, pages: Pages::Huge },
            Err(_) => Arena::transparent(length).map_err(failed)?,
        };
        arena.touch();
        if arena.pages != Pages::Huge {
            arena.pages = arena.found();
        }
        Ok(arena)
    }

    /// Maps one huge page more than needed, so that the arena starts at a huge page boundary.
    fn transparent(length: usize) -> Result<Arena, rustix::io::Errno> {
        let mapped = length + HUGE;
        let mapping = map(mapped, MapFlags::NORESERVE)?;
        let ahead = mapping.as_ptr().align_offset(HUGE);
        // SAFETY: `ahead` is below HUGE, and HUGE bytes more than `length` were mapped.
        let base = unsafe { mapping.add(ahead) };
        // SAFETY: the range was just mapped and belongs to this arena; the advice changes no byte. A kernel without
        // transparent huge pages returns an error, which is ignored: the arena then consists of small pages.
        let _ = unsafe { madvise(base.as_ptr().cast::<c_void>(), length, Advice::LinuxHugepage) };
        Ok(Arena { mapping, mapped, base, length, pages: Pages::Small })
    }

    fn touch(&mut self) {
        for at in (0..self.length).step_by(SMALL) {
            // SAFETY: `at` is below the length of the mapping, and `&mut self` excludes any other view of it.
            unsafe { self.base.as_ptr().add(at).write_volatile(0) };
        }
    }

    /// Returns the page sizes that the kernel provided.
    fn found(&self) -> Pages {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let huge = transparent_bytes(&text, self.base.as_ptr() as usize);
        match huge * 100 / self.length {
            0 => Pages::Small,
            share => Pages::Transparent(share.min(100) as u8),
        }
    }

    /// Number of bytes that may be accessed.
    pub fn bytes(&self) -> u64 {
        (self.length - MARGIN) as u64
    }

    /// Page sizes of the arena.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Stores a value before any thread runs.
    pub fn poke(&mut self, at: Address, width: Width, value: u64) {
        assert!(at + width.bytes() <= self.bytes(), "byte {at} lies outside the arena");
        // SAFETY: the one access lies inside the arena, as asserted above.
        unsafe { self.view() }.store(at, width, value);
    }

    /// Returns a thread's view of the arena.
    ///
    /// # Safety
    ///
    /// Every byte accessed through the view must lie below [`Arena::bytes`]. A kind of copy that the processor lacks
    /// must not be used (checked by `studies::requirements`).
    pub unsafe fn view(&self) -> RealMemory<'_> {
        RealMemory::new(self.base, self)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this arena created the mapping with this length; views borrow the arena, so none exists.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast::<c_void>(), self.mapped) };
    }
}

fn map(length: usize, more: MapFlags) -> Result<NonNull<u8>, rustix::io::Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel touches no existing memory.
    let at = unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE | more) }?;
    NonNull::new(at.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)
}

/// Returns the bytes of transparent huge pages in the mapping that contains `address`, from `/proc/self/smaps`.
fn transparent_bytes(smaps: &str, address: usize) -> usize {
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((from, to)) = range(line) {
            inside = (from..to).contains(&address);
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            let kib = rest.trim().trim_end_matches("kB").trim().parse::<usize>();
            return kib.map_or(0, |kib| kib * 1024);
        }
    }
    0
}

/// Parses the address range at the start of a mapping's first line.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_found_in_the_mapping_that_holds_the_address() {
        let text = "1000-2000 rw-p 0 00:00 0\nAnonHugePages:      2048 kB\n\
                    4000-8000 rw-p 0 00:00 0\nRss: 1 kB\nAnonHugePages:      4096 kB\n";
        assert_eq!(transparent_bytes(text, 0x1800), 2048 * 1024);
        assert_eq!(transparent_bytes(text, 0x4000), 4096 * 1024);
        assert_eq!(transparent_bytes(text, 0x9000), 0);
    }

    #[test]
    fn poked_value_is_loaded_at_every_offset() {
        let mut arena = Arena::new(1 << 20).expect("it fits");
        let last = arena.bytes() - 8;
        for at in [0, 4098, last] {
            arena.poke(at, Width::Eight, at + 7);
            // SAFETY: eight bytes from `at` lie inside.
            assert_eq!(unsafe { arena.view() }.load(at, Width::Eight), at + 7);
        }
    }
}
