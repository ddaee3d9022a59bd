//! The generator and the meter: streams of frames at a rate that was asked for, and what became of each of them.
//!
//! A frame goes through this folder from left to right: a `description` becomes a plan whose frames are laid out once
//! (`headers`, `sizes`, `vary`), `schedule` says how many are due (`rate` is how a rate is written), `source` writes what
//! changes into a `template` and puts it into a burst (`memory` holds what is too long for that), every frame carries a `tag` behind its payload, and `meter` says what of each stream was lost, doubled, out
//! of order or late. All of this is told the time and the bytes: it opens no port, reads no clock and draws no chance
//! that was not given to it, so every number of it can be tested. Only `rig`, which joins it to ports, reads a clock.

mod description;
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

pub use description::{Description, Outer, Plan, StreamError, Transport};
pub use memory::NoMemory;
pub use sizes::{SIZES, Sizes, SizesError};
pub use source::{Sent, Source};
pub use vary::{Amount, Pattern};
