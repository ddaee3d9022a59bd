//! Transparent huge pages for large allocations that are read at random places.
//!
//! With pages of 4 KiB, each such read also misses the translation of its address. The advice is a hint: without huge
//! pages, or under Miri, the memory stays as it is.

mod arena;

pub use arena::{Arena, Placed};

/// Size of a huge page in bytes.
pub const HUGE: usize = 2 << 20;

/// Advises huge pages for those that lie completely in `memory`. Each is allocated whole at its first use.
pub fn advise<T>(memory: &[T]) {
    advise_at(memory.as_ptr().addr(), size_of_val(memory));
}

/// [`advise`] for allocated memory that need not be initialised.
pub(crate) fn advise_at(start: usize, bytes: usize) {
    let end = (start + bytes) / HUGE * HUGE;
    let start = start.next_multiple_of(HUGE);
    #[cfg(not(miri))]
    if let Some(len) = end.checked_sub(start).filter(|len| *len > 0) {
        use rustix::mm::{Advice, madvise};
        let pages = core::ptr::without_provenance_mut(start);
        // SAFETY: the advice changes no content, whosever the pages are.
        // It fails on a kernel without transparent huge pages; the pages then stay ordinary.
        let _ = unsafe { madvise(pages, len, Advice::LinuxHugepage) };
    }
    let _ = (start, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "gives no advice there, and fills 8 MiB byte by byte")]
    fn content_stays() {
        for len in [0, 1, HUGE - 1, 3 * HUGE] {
            let mut memory = vec![0_u8; len];
            advise(&memory);
            memory.fill(7);
            advise(&memory);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }
}
