//! Real memory: runs the laboratory's programs on this processor's caches, one plain instruction per access.
//!
//! An [`Arena`] is mapped and touched before any timing. Each thread accesses it through a [`RealMemory`]; accesses are
//! assembly (`x86`) or volatile loads and stores (`portable`), so the compiler cannot merge, tear or invent one, and no
//! reference into the arena exists.
//!
//! This crate does not choose the programs or their repetitions, and does not interpret times.

mod arena;
mod memory;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use arena::{Arena, ArenaError, Pages};
pub use memory::{RealMemory, dependent_additions};
