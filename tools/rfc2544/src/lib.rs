//! RFC 2544 benchmarks: selects the next trial from the results of the previous ones.
//!
//! A benchmark is a list of trials. `plan` has the parameters; `test_run` selects the next trial with `search`
//! (throughput, section 26.1), `steps` (frame loss, 26.3) and `burst` (back-to-back, 26.4); latency (26.2) needs no
//! search. `counters` is the result of a trial, `results` and `summary` are the results of all trials, `checkpoint` is
//! the file format, `compare` compares two results and `page` shows them. All decisions depend only on the trials in
//! their order, so an interrupted benchmark resumes by replaying them. The crate starts no process, reads no clock and
//! accesses no file, except `environment`, which describes this machine.

#![forbid(unsafe_code)]

mod burst;
pub mod checkpoint;
pub mod compare;
mod counters;
pub mod environment;
pub mod page;
mod plan;
mod results;
mod search;
mod steps;
mod summary;
mod test_run;
#[cfg(test)]
mod tests;

pub use counters::{Delays, TrialCounters};
pub use plan::{Plan, PlanError, Test};
pub use results::{
    BurstRow, CpuSet, Environment, LatencyRow, LossRow, Results, Round, Setup, SizeResults, Topology,
};
pub use search::{Bound, Throughput};
pub use summary::{Figure, Latency};
pub use test_run::{Load, Purpose, Step, TestRun, Trial};
