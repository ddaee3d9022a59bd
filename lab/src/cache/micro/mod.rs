//! Micro-benchmarks: the smallest programs that show one constant each.
//!
//! Written over [`Memory`], so the same code runs in the simulator, where each has a closed form that a test compares
//! exactly, and on real memory, where it is timed to fix a profile's constants. They read no clock: whoever runs one takes the time
//! before and after. Rounds must be many on real memory; the simulator needs few.
//!
//! [`Memory`]: super::memory::Memory

mod chase;
mod hand_over;
mod misses;
mod stores;

pub use chase::{lay_chain, pointer_chase};
pub use hand_over::{Side, consume, increments, ping_pong, produce};
pub use misses::independent_misses;
pub use stores::{stream_past, strided_stores};
