//! Simulated memory: a multi-core cache and coherence simulator with a virtual clock.
//!
//! Threads are ordinary code over [`crate::memory::Memory`], each on a core and a stack of its own ([`run()`]). At any moment the core whose
//! clock is earliest acts, so accesses happen in the order of virtual time and a run is the same each time. The
//! [`machine`] keeps who has which line (`transaction`), each core's caches (`tags`), the window of instructions in
//! flight and the stores on their way out (`core`, `stores`), and what was stored (`values`). Constants come from a
//! [`profile`].
//!
//! What it leaves out, by choice: instruction fetch, address translation, the topology of the interconnect (one
//! latency for each kind of transfer), the directory's own capacity, and wrong-path accesses
//! (`docs/decisions/0053-what-the-cache-simulator-leaves-out.md`).

#![forbid(unsafe_code)]

mod cleaning;
mod core;
pub mod counters;
mod device;
mod directory;
mod inclusion;
pub mod machine;
pub mod memory;
pub mod micro;
pub mod moves;
mod prefetch;
pub mod profile;
pub mod profiles;
pub mod program;
pub mod run;
pub mod sockets;
mod stores;
mod tags;
#[cfg(test)]
mod tests;
mod timing;
mod transaction;
mod values;

pub use counters::{Counters, Source};
pub use machine::Machine;
pub use prefetch::Prefetchers;
pub use profile::Profile;
pub use run::{Simulated, Stuck, run};
pub use sockets::Sockets;

/// Virtual time, in sixteenths of a cycle, so that four instructions a cycle have a time each.
pub type Time = u64;

/// How many a cycle has.
pub const TICKS: Time = 16;
