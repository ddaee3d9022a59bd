//! Runs pipelines over ports: workers, counters, polling and sleeping, reconfiguration.
//!
//! This is the first room (from the left) that starts threads, sleeps and reads a clock. One control thread
//! drives the life of every port; each worker runs bursts to completion; they speak through a mailbox that makes
//! neither wait for the other. Nothing here knows what a virtqueue is or what a packet means.
// The loom model of the mailbox claims exclusive use of a cell, which loom checks and the compiler cannot.
#![cfg_attr(not(all(test, loom)), forbid(unsafe_code))]

mod attachment;
pub mod balance;
#[doc(hidden)]
pub mod bench;
mod clock;
mod command;
mod config;
mod control;
mod counters;
mod debts;
mod engine;

mod handoff;
mod inline;
mod link;
pub mod machine;
mod mailbox;
mod model;
pub mod placement;
mod rounds;
mod sleeper;
mod snapshot;
mod stage;
mod stealable;
mod worker;
mod worker_builder;
mod xps;

pub use config::{EngineConfig, EngineError, Polling, QueueFull, WorkerConfig};
pub use engine::Engine;
pub use inline::Inline;
pub use model::{HandoffConfig, Model, Order, PipelineConfig, Role, Roles};
pub use port::{
    Context, Edit, EditId, Now, Pipeline, Pipelines, PortObserver, PuntReason, Punted, Rss, Verdicts,
};
pub use snapshot::{
    BudgetSnapshot, PoolSnapshot, PortSnapshot, QueueSnapshot, RemovedSnapshot, Snapshot, WorkerSnapshot,
};
