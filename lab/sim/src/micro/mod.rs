//! Micro-benchmarks: the smallest programs that show one constant each.
//!
//! Written over [`Memory`], so the same code runs in the simulator, where each has a closed form that a test compares
//! exactly, and on real memory, where it is timed to fix a profile's constants. They read no clock: whoever runs one takes the time
//! before and after. Rounds must be many on real memory; the simulator needs few. Calibration (`super::calibrate`) warms
//! them up, times them, and can do so in both.
//!
//! [`Memory`]: super::memory::Memory

mod chase;
mod hand_over;
mod misses;
mod places;
mod stores;

pub use chase::{chain, pointer_chase};
pub use hand_over::{Left, Side, consume, increments, leave, ping_pong, produce};
pub use misses::{independent_misses, knee, pages};
pub use places::Scatter;
pub use stores::{stores, stream, stream_past};
