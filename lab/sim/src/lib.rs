//! Simulated memory: a multi-core cache and coherence simulator with a virtual clock.
//!
//! Threads are ordinary code over [`crate::memory::Memory`], each on its own core and stack ([`run()`]). The core with
//! the earliest clock always acts next, so accesses happen in order of virtual time and runs are deterministic. The
//! [`machine`] holds the rights to each line (`transaction`), each core's caches (`tags`), the window of instructions
//! in flight and the buffered stores (`core`, `stores`), and the stored values (`values`). Constants come from a
//! [`profile`].
//!
//! Out of scope by design: instruction fetch, address translation, interconnect topology (one latency per kind of
//! transfer), the directory's own capacity, and wrong-path accesses
//! (`docs/decisions/0053-what-the-cache-simulator-leaves-out.md`).

#![forbid(unsafe_code)]

mod cleaning;
mod commit;
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
pub use run::{Deadlock, Simulated, run};
pub use sockets::Sockets;

/// Virtual time in sixteenths of a cycle, so that each of four instructions issued per cycle has its own time.
pub type Time = u64;

/// Ticks per cycle.
pub const TICKS: Time = 16;
