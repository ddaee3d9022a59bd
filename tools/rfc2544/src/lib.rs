//! RFC 2544: what to offer a switch next, given what was seen of it so far.
//!
//! A benchmark is a list of trials. `plan` says what is asked, `course` which trial comes next, and for that asks
//! `search` (throughput, section 26.1), `steps` (frame loss, 26.3) and `burst` (back-to-back, 26.4); latency (26.2)
//! needs no search. `seen` is what a trial showed and what it says about the switch; `results` is the sum of all
//! trials, `keep` how they lie in a file, and `compare` sets two results side by side. Every answer follows from the
//! trials alone, in their order, so a benchmark that was ended goes on by being told again what it has seen. Nothing
//! here starts a process, reads a clock or touches a file, except `environment`, which describes this machine.

mod burst;
pub mod checkpoint;
pub mod compare;
mod course;
pub mod environment;
pub mod page;
mod plan;
mod results;
mod search;
mod seen;
mod steps;
mod summary;
#[cfg(test)]
mod tests;

pub use course::{Course, Doing, Offer, Step, Trial};
pub use plan::{Plan, PlanError, Test};
pub use results::{
    BurstRow, CpuSet, Environment, LatencyRow, LossRow, Results, Round, Setup, SizeResults, Topology,
};
pub use search::{Bound, Throughput};
pub use seen::{Delays, Seen};
pub use summary::{Figure, Latency};
