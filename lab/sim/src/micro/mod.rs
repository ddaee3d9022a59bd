//! Micro-benchmarks: the smallest programs that show one constant each.
//!
//! They use [`Memory`], so the same code runs in the simulator, where a test compares each with its closed form
//! exactly, and on real memory, where it is timed to determine a profile's constants. They read no clock; the caller
//! takes the time before and after. Real memory needs many rounds, the simulator few. Calibration
//! (`studies::calibrate`) warms them up and times them in both.
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
