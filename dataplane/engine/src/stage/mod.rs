//! Stages: workers that do a part of the work, and how they are put on threads and joined.
//!
//! A stage is a worker like any other, with receive queues, transmit queues and a pipeline. What makes it a stage is what
//! its queues are: an Rx stage has ports' receive queues and sends by handoff queues; a worker stage receives by handoff queues, runs the real
//! pipeline and sends by handoff queues; a Tx stage receives by handoff queues and has ports' transmit queues. So a pipeline of the rooms to the
//! right cannot tell in which model it runs.

mod co_scheduled;
mod deliver;
mod joining;
mod layout;
mod spreader;

pub(crate) use co_scheduled::CoScheduled;
pub(crate) use deliver::Deliver;
pub(crate) use joining::Joiner;
pub(crate) use layout::Layout;
pub(crate) use spreader::Spreader;
