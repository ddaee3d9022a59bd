//! Real memory: the model's threads on this processor's own caches, each access one plain instruction.
//!
//! An [`Arena`] is mapped and touched before anything is timed. Each thread acts on it through a [`RealMemory`], whose
//! accesses are written in assembly (`x86`) or by volatile loads and stores (`portable`), so that the compiler neither
//! merges, tears nor invents one, and no reference into the arena ever exists. [`processor`] says what this processor
//! can do, [`seats`] which thread runs on which CPU, [`clock`] how ticks become seconds, and [`run`] runs one slice.
//!
//! Nothing here decides which configurations run, how often, or what the times mean.

mod arena;
pub mod clock;
mod memory;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
pub mod processor;
pub mod run;
pub mod seats;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use arena::{Arena, ArenaError, Pages};
pub use clock::Clock;
pub use memory::{RealMemory, dependent_additions};
pub use processor::{Missing, Processor};
pub use run::{Bench, Slice, slice};
pub use seats::{Seats, SeatsError};
