//! The second study: what a copy between host and guest costs, by where its lines are.
//!
//! A packet goes from a network card to the host, is copied to the guest, which reads or edits it, is copied back, and leaves.
//! The `path` is written over [`Memory`], so the same code runs in the simulator ([`simulate_all`]) and on real memory
//! ([`measure`]); it is given a clock, the one thing beside. A [`Setting`] says what is varied; [`VARIANTS`] names what the study
//! varied. Costs are those of the two copies, a packet, with everything before and after them done. [`orders`] holds them against
//! what the study found. How a result is drawn is the report's matter.
//!
//! [`Memory`]: super::memory::Memory

mod measure;
mod orders;
mod path;
mod results;
mod setting;
mod simulate;
#[cfg(test)]
mod tests;

pub use measure::{MeasureError, Plan, measure};
pub use orders::{Finding, MUCH, SizeFinding, Verdict, orders};
pub use path::{Guest, Host};
pub use results::{Results, Row, Study, is_warm};
pub use setting::{
    BASE, BASE_AGAIN, Direction, LONGEST, SIZES, Selection, Setting, UnknownVariant, VARIANTS, Variant, WARM,
    WARM_AGAIN,
};
pub use simulate::{SimulationError, simulate, simulate_all};
