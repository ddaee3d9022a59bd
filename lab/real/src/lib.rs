//! Real memory: programs of the laboratory on this processor's own caches, each access one plain instruction.
//!
//! An [`Arena`] is mapped and touched before anything is timed. Each thread acts on it through a [`RealMemory`], whose
//! accesses are written in assembly (`x86`) or by volatile loads and stores (`portable`), so that the compiler neither
//! merges, tears nor invents one, and no reference into the arena ever exists.
//!
//! Nothing here decides which programs run, how often, or what the times mean.

mod arena;
mod memory;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use arena::{Arena, ArenaError, Pages};
pub use memory::{RealMemory, dependent_additions};
