//! Stages: workers that execute a part of packet processing, their co-scheduling on threads and their connections.
//!
//! A stage is a worker with receive queues, transmit queues and a pipeline. Its queues determine its role. An Rx
//! stage has receive queues of ports and sends through handoff queues. A worker stage receives through handoff
//! queues, runs the configured pipeline and sends through handoff queues. A Tx stage receives through handoff queues
//! and has transmit queues of ports. Pipelines of higher-level crates are therefore independent of the execution
//! model.

mod change;
mod co_scheduled;
mod deliver;
mod distributor;
mod joining;
mod layout;

pub(crate) use change::{NewStage, StageChange};
pub(crate) use co_scheduled::CoScheduled;
pub(crate) use deliver::Deliver;
pub(crate) use distributor::Distributor;
pub(crate) use joining::Joiner;
pub(crate) use layout::Layout;
