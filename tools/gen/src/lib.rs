//! Traffic generator and meter: streams of frames at a requested rate, with loss, order and delay per frame.
//!
//! Data flow: a `description` becomes a plan whose frames are laid out once (`headers`, `sizes`, `vary`); `schedule`
//! determines how many frames are due (`rate` is the rate syntax); `source` writes the varying fields into a `template`
//! and adds the frame to a burst (`memory` holds the parts of long frames that do not fit); every frame carries a `tag`
//! behind its payload; and `meter` counts lost, duplicate, reordered and delayed frames per stream. These modules
//! receive time and bytes as arguments: they open no port, read no clock and use no random seed of their own, so all
//! results are testable. Only `rig`, which connects them to ports, reads a clock.

mod description;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod headers;
mod memory;
pub mod meter;
pub mod rate;
pub mod rig;
pub mod schedule;
mod seal;
mod sizes;
mod source;
pub mod tag;
mod template;
mod vary;

pub use description::{Description, FIELDS, Key, Outer, PATTERNS, Plan, StreamError, Transport};
pub use memory::MemoryError;
pub use port::Remedy;
pub use sizes::{SIZES, Sizes, SizesError};
pub use source::{Sent, Source};
pub use vary::{Amount, Pattern, PatternError};
