//! Guests that attack their switch, to measure the cost of an attack for other tenants.
//!
//! `attacks` is the table of attacks: a name and a `plan` per device (features, memory, chains to send, buffers to
//! receive into), built from `frames`. `device` connects a plan: `arena` is its memory, and its rings `replay` prepared
//! chains, in `split` or `packed` format. `back_end` attacks from the other end of the same protocol, `memif` is a
//! memif client that writes its rings directly, and `other` has well-behaved clients for memif and stream ports.
//! `group` owns the devices of an attack and reconnects them when the switch closes a connection; `timing` measures
//! their share of a thread's time.

mod arena;
mod attacks;
mod back_end;
mod device;
mod frames;
mod group;
mod memif;
mod other;
mod packed;
mod plan;
mod replay;
mod split;
mod timing;

pub use attacks::{ATTACKS, Attack, find};
pub use device::Counts;
pub use group::{AttackConfig, AttackGroup, DeviceCounts, Socket};
pub use plan::Target;
pub use timing::{TimedGroup, Timing};
