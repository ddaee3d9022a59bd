//! What can be put around any port: a capture, a trace, faults, a buffer for what leaves.
//!
//! A wrapped port is a port: [`wrap`] takes its control side and gives one back, which hands the inner one an
//! [`crate::Attach`] that wraps each queue on its way to the engine (`control`). A port without wrappers is not touched,
//! and nothing on its way asks whether it has any.
//!
//! From the engine to the port: *trace*, *fault*, *buffer*, *capture*. Faults are those of a wire between the switch and the port,
//! so a capture shows what really enters and leaves the port, and a trace what the switch sees: which of its packets were
//! lost, and why.
//!
//! `gather` is the buffer. `record` watches queues for captures and traces; the files are `crate::spool`'s. `rng` decides on faults, `hold` is
//! the memory of packets that are late, `fault_rx`, `fault_tx` and `release` are queues with faults. A wrapper may slow
//! its own port's packets down, and must never lose one that nobody asked it to lose.

mod control;
mod counts;
mod fault_rx;
mod fault_tx;
mod gather;
mod hold;
mod options;
mod record;
mod release;
mod rng;
#[cfg(test)]
mod tests;

pub use control::{WrapError, wrap};
pub use options::{Capture, Faults, Trace, TxCoalesce, Ways, Wrappers};
