//! Dataplane engine: workers, counters, polling and sleeping, and reconfiguration.
//!
//! This is the lowest layer that starts threads, sleeps and reads a clock. One control thread drives the lifecycle of
//! every port. Each worker runs bursts to completion. The control thread sends commands to workers through a mailbox
//! that blocks neither side. This crate does not interpret virtqueues or packets.
// The loom model of the mailbox needs `unsafe` to access a cell exclusively; loom checks that access.
#![cfg_attr(not(all(test, loom)), forbid(unsafe_code))]

mod attachment;
pub mod balance;
#[doc(hidden)]
pub mod bench;
mod capture;
mod clock;
mod command;
mod config;
mod control;
mod counters;
mod debts;
mod engine;

mod handoff;
mod history;
mod injector;
mod inline;
mod latency;
mod link;
mod local;
pub mod machine;
mod mailbox;
mod model;
pub mod placement;
mod rounds;
mod shared_port;
mod sleeper;
mod snapshot;
mod stage;
mod stealable;
mod step;
mod trace;
mod worker;
mod worker_builder;
mod xps;

pub use capture::{CaptureId, CaptureOptions, CapturedPort, CapturedPorts};
pub use config::{EngineConfig, EngineError, Polling, QueueFull, WorkerConfig};
pub use control::OnFault;
pub use engine::Engine;
#[doc(hidden)]
pub use handoff::sizes as handoff_sizes;
pub use handoff::{Doorbell, Exchange};
pub use history::PortEvent;
pub use injector::Injector;
pub use inline::Inline;
pub use latency::{DepthSnapshot, LatencyBucket, LatencySnapshot, RingDepthSnapshot};
pub use local::{AttachedQueues, LocalPort};
pub use model::{HandoffConfig, Model, Order, PipelineConfig, Role, Roles};
pub use port::{
    Context, Edit, EditId, Now, Pipeline, Pipelines, PortObserver, PuntReason, Punted, Rss, Verdicts,
};
pub use shared_port::{PortShare, SharedPort};
pub use snapshot::{
    BudgetSnapshot, PoolSnapshot, PortSnapshot, QueueSnapshot, RemovedSnapshot, Snapshot, StepSnapshot,
    WorkerSnapshot,
};
pub use step::CurrentStep;
pub use trace::TraceOptions;
pub use worker_builder::at_worker_start;
