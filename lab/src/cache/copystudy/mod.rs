//! The second study: what a copy between host and guest costs, by where its lines are.
//!
//! A packet goes from a network card to the host, is copied to the guest, which reads or edits it, is copied back, and leaves.
//! The `path` is written over [`Memory`], so it runs on real memory as well as in the simulator; it takes times through
//! [`Clocked`], the one thing beside. A [`Setting`] says what is varied; [`VARIANTS`] names what the study varied.
//! Costs are those of the two copies, in cycles per packet, with everything before and after them done.
//!
//! [`Memory`]: super::memory::Memory

mod path;
mod plot;
mod results;
mod setting;
mod simulate;
#[cfg(test)]
mod tests;

pub use path::{Clocked, Guest, Host};
pub use plot::plot;
pub use results::{Results, Row};
pub use setting::{Direction, SIZES, Setting, VARIANTS, Variant};
pub use simulate::{SimulationError, simulate, simulate_all};
