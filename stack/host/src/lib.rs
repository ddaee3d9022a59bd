//! TCP/IP over ports of any kind: one stack for each core, run to completion.
//!
//! A [`Host`] owns ports, a stack and a clock. Each round it receives bursts, passes their packets to the stack, passes
//! the stack's events to the application, and sends what is due. Payload stays where it was received as far as its
//! memory permits ([`Buffer`]), and is gathered by the sending port.
//!
//! The crate must not interpret packets, and the fast path must not allocate. Reading the clock and sleeping happen in
//! `runner` only.
#![forbid(unsafe_code)]

mod clock;
mod counts;
mod distributor;
mod frame;
mod inspect;
mod lease;
mod link;
mod payload;
mod pool;
mod runner;
mod scale;
mod split;
mod summed;
mod workers;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use distributor::fuzz_distributor;
pub use distributor::{DistributorCounts, FlowSteering, Indirection};
pub use frame::Received;
pub use inspect::{
    CaptureError, CaptureFilter, CaptureOptions, CaptureStatus, InspectError, Inspector, PAGE, Page,
    Recording, Totals,
};
pub use link::{Ports, random_mac};
pub use payload::Buffer;
pub use pool::{BufferPool, PoolLimits};
pub use runner::{App, Host, Options, Report};
pub use scale::Activity;
pub use split::{Calls, Part, Remote, Threads, run_split};
pub use workers::{MAX_WORKERS, Share, SteeringOptions, Workers, WorkersError, divide, hosts};
