//! Port wrappers: capture, trace, fault injection, transmit coalescing.
//!
//! A wrapped port is a port: [`wrap`] takes a control side and returns one whose inner port gets an [`crate::Attach`]
//! that wraps each queue on its way to the engine (`control`, `attach`). A port without wrappers is unchanged and has
//! no overhead.
//!
//! Order from engine to port: *trace*, *fault*, *buffer*, *capture*. Faults model the wire between switch and port, so
//! a capture shows packets that enter and leave the port, and a trace shows packets seen by the switch, with drops and
//! their reasons.
//!
//! `gather` is the coalescing buffer. `inspect` shows a wrapper the packets of a receive queue. `record` logs the
//! packets of queues for captures and traces; `crate::spool` writes the files. `rng` generates faults, `delay_queue`
//! stores delayed packets, `fault_rx`, `fault_tx` and `release` are queues with faults. `handover` is the hand-over of
//! any port around another port. A wrapper may slow down packets of its own port; it must not drop packets except as
//! configured.

mod attach;
mod control;
mod counts;
mod delay_queue;
mod fault_rx;
mod fault_tx;
mod gather;
mod handover;
#[cfg(test)]
mod handover_tests;
mod inspect;
mod options;
mod record;
mod release;
mod rng;
#[cfg(test)]
mod tests;

pub use attach::{Sending, WrapAttach, WrapQueues};
pub use control::{WrapError, wrap, wrap_successor};
pub use handover::Wrapper;
pub use inspect::{Inspect, InspectRx};
pub use options::{Capture, Directions, Faults, Trace, TxCoalesce, Wrappers};
