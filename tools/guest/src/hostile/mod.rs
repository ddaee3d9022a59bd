//! Guests that attack their switch: what one of them costs its neighbours is what a switch between tenants is judged by.
//!
//! `attacks` is the table: a name and the `plan` of each device (features, memory, chains to send and buffers to receive
//! into, made of `frames`). `device` plugs a plan in: `arena` is its memory, and its rings `replay` prepared chains,
//! `split` or `packed`. `back_end` is the other
//! end of the same protocol, `memif` a memif client that writes its rings itself, and `other` are well-behaved clients at
//! memif and stream ports. `squad` holds the devices of one attack and plugs them in again when the switch closes a
//! connection; `turns` says what part of a thread's time they take.

mod arena;
mod attacks;
mod back_end;
mod device;
mod frames;
mod memif;
mod other;
mod packed;
mod plan;
mod replay;
mod split;
mod squad;
mod turns;

pub use attacks::{ATTACKS, Attack, find};
pub use device::Counts;
pub use plan::Target;
pub use squad::{Account, Orders, Socket, Squad};
pub use turns::{Shares, Turns};
