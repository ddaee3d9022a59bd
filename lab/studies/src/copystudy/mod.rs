//! The second study: the cost of a copy between host and guest, by the location of its lines.
//!
//! A packet goes from a network card to the host, is copied to the guest, which reads or edits it, is copied back, and
//! leaves. The `path` is generic over [`Memory`] and a clock, so the same code runs in the simulator ([`simulate_all`])
//! and on real memory ([`measure`]). A [`Setting`] holds the varied parameters; [`VARIANTS`] names the study's
//! variants. Costs are those of the two copies per packet, with all earlier and later work completed. [`orders`]
//! compares them with the study's findings. Drawing is left to the report.
//!
//! [`Memory`]: sim::memory::Memory

mod measure;
mod orders;
mod path;
mod results;
mod setting;
mod simulate;
#[cfg(test)]
mod tests;

pub use measure::{MeasureError, Plan, measure};
pub use orders::{Finding, MUCH, OrderStatus, SizeFinding, orders};
pub use path::{Guest, Host};
pub use results::{Results, Row, is_warm};
pub use setting::{
    BASE, BASE_AGAIN, Direction, MAX_SIZE, SIZES, Selection, Setting, UnknownVariant, VARIANTS, Variant,
    WARM, WARM_AGAIN,
};
pub use simulate::{SimulationError, simulate, simulate_all};
